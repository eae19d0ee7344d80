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
};

struct Bounds {
  int nodes, depth, branches;  // branches: children of a node at most; 1 is a chain
  double least;                // nodes whose product of chances is lower are left out
};

Grown grow(Source& source, const Bounds& bounds);

// How much the word of each kind of source is worth, learned from what came of it: logistic mixing (Mahoney 2005).
class Mixer {
 public:
  static constexpr size_t kKinds = 8;
  static constexpr float kSilent = -1.0f, kUnsaid = 0.0f;  // knows nothing there; knows others, but not this token
  using Words = std::array<float, kKinds>;                 // what each source says of a token

  Mixer();
  double chance(const Words& words) const;
  void learn(const Words& words, double chance, bool came);
  std::vector<double> weights() const { return {weights_.begin(), weights_.end()}; }
  void set(const std::vector<double>& weights, double rate);

 private:
  static constexpr size_t kEach = 3;  // of each kind: for its word, for naming it at all, for naming others

  std::array<double, kKinds * kEach + 1> weights_;
  double rate_ = 0.0;
};

// The sources of one sequence, and what they said in the last draft until the text shows who was right.
class Blend {
 public:
  Blend(std::shared_ptr<Mixer> mixer, std::vector<std::shared_ptr<Source>> sources);
  Grown grow(const Bounds& bounds);
  void learn(const std::vector<int>& tokens);  // the text goes on; sources are told by whoever owns them

 private:
  using Places = std::array<int, Mixer::kKinds>;
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
    int order, parent, depth, candidate, look;
  };

  int look(const Places& places, const Bounds& bounds);
  void offer(int look, int node, int depth, double product, const Bounds& bounds);

  std::shared_ptr<Mixer> mixer_;
  std::vector<std::shared_ptr<Source>> sources_;
  std::vector<Candidate> candidates_;
  std::vector<Look> looks_;
  std::vector<Waiting> waiting_;
  std::vector<Guess> scratch_;
};

}  // namespace outrider
