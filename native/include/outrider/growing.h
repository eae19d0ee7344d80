// Drafts grown best first: from one source, or from several whose words are weighed against each other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/drafting.h"

namespace outrider {

struct Grown {
  std::vector<int> tokens, parents;
  std::vector<double> scores;  // the chance that a node is kept once the one above it is
  std::vector<int> sources;    // of a blend: whose word spoke most for a node
};

struct Bounds {
  int nodes, depth, branches;  // branches: children of a node at most; 1 is a chain
  double least;                // nodes whose product of chances is lower are left out
  // Of the likeliest node, the second likeliest, ...: growth ends before the first whose product is lower, for no pass
  // would take it. Nodes beyond have the last one's floor; empty: there is none.
  std::vector<double> floors = {};

  bool ends(size_t node, double product) const {
    return !floors.empty() && product < floors[node < floors.size() ? node : floors.size() - 1];
  }
};

Grown grow(Source& source, const Bounds& bounds);

// What the words of several sources are worth together, learned from what came of them: logistic mixing (Mahoney 2005).
class Mixer {
 public:
  static constexpr size_t kMost = 6;                       // sources
  static constexpr float kSilent = -1.0f, kUnsaid = 0.0f;  // knows nothing there; names others, but not this token
  using Words = std::array<float, kMost>;                  // what each source says of a token: its chance, or one of those
  struct Weight {
    double word, named, unsaid;  // of the log-odds of its chance; of naming the token at all; of naming others alone
  };

  Mixer(const std::vector<Weight>& weights, double bias, double rate);
  size_t sources() const { return weights_.size(); }
  double chance(const Words& words) const;
  int loudest(const Words& words) const;  // of the sources that named the token, the one whose word adds most to its log-odds
  void learn(const Words& words, bool came);
  const std::vector<Weight>& weights() const { return weights_; }
  double bias() const { return bias_; }

 private:
  std::vector<Weight> weights_;
  double bias_, rate_;
};

// The sources of one sequence, and what they said in the last draft until the text shows who was right.
class Blend {
 public:
  // One source for each weight of the mixer.
  Blend(std::vector<std::shared_ptr<Source>> sources, Mixer mixer);
  const Mixer& mixer() const { return mixer_; }
  Grown grow(const Bounds& bounds);
  void learn(const std::vector<int>& tokens);  // the text goes on; sources are told by whoever owns them

 private:
  using Places = std::array<int, Mixer::kMost>;
  struct Candidate {
    int token;
    double chance;
    Mixer::Words words;
    int look;  // what was said behind it; -1: nobody was asked
  };
  struct Look {
    int first, count;  // of candidates_
    Places places;
  };
  struct Waiting {
    double product;
    int order, parent, depth, candidate, look;  // order: of being found
  };

  int look(const Places& places);
  void offer(int look, int node, int depth, double product, const Bounds& bounds);
  void push(const Waiting& waiting);

  std::vector<std::shared_ptr<Source>> sources_;
  Mixer mixer_;
  std::vector<Candidate> candidates_;
  std::vector<Look> looks_;
  std::vector<Waiting> waiting_;
  std::vector<Guess> scratch_;
};

}  // namespace outrider
