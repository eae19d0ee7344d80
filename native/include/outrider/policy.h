// How much to draft: src/outrider/policy/goodput.py in C++, for a step of Python costs five times as much when a pass has
// just filled the caches with weights. docs/policy.md explains it. Guarded by the GIL.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outrider {

// What a policy sees of a draft. scores: empty where it has none.
struct Seen {
  std::vector<int> tokens, parents;
  std::vector<double> scores;
  int forced = 0;

  int size() const { return static_cast<int>(tokens.size()); }
  bool chain() const;
};

// Keys: what can be seen of a node before it is checked (acceptance.cpp).
constexpr int kMostDepth = 64;  // draft depths that are told apart when only the budget is known
constexpr int kScores = 16, kForced = kScores;
constexpr int kKinds = 7, kDepths = 12, kClass = kForced + 1, kSibling = kClass + kKinds * kDepths;
constexpr int kSiblingRanks = 2, kSiblingDepths = 4, kReach = kSibling + kSiblingRanks * kSiblingDepths;
constexpr int kKeys = kReach + kMostDepth;

// Tries and hits of each key; at each try of a key its older ones are worth `keep` of what they were.
class Counts {
 public:
  static constexpr double kSharedKeep = 0.995;  // of the counts of all sequences: about 200 tries are remembered
  static constexpr double kOwnKeep = 0.92;      // of a sequence's own: about 12, so that it follows when the text changes

  explicit Counts(double keep) : keep_(keep) {}
  void add(int key, bool hit) {
    tries[static_cast<size_t>(key)] = tries[static_cast<size_t>(key)] * keep_ + 1.0;
    hits[static_cast<size_t>(key)] = hits[static_cast<size_t>(key)] * keep_ + hit;
  }
  void fade_reach(double keep);  // what is known by budget and depth alone: time has passed without news

  std::array<double, kKeys> tries{}, hits{};

 private:
  double keep_;
};

// The key of each node; asked is the depth that the drafter was allowed.
std::vector<int> keys_of(const Seen& draft, int asked);
// The chance that each node is kept, never above that of the node it hangs below; of a chain only as many as have a
// chance of at least `least`.
std::vector<double> survival(const Seen& draft, const std::vector<int>& keys, const Counts& own, const Counts& shared, double least);
// For each depth the chance that a node there is kept, when nothing is known but that it was asked for.
std::vector<double> reach(int depth, const Counts& own, const Counts& shared, double least);

// A draft on its way along the tokens that its sequence gets.
class Trace {
 public:
  Trace(Seen draft, std::vector<int> keys, int asked);
  // Counts the nodes that these tokens decide. Whether later tokens may decide more.
  bool follow(const std::vector<int>& tokens, Counts& own, Counts& shared);
  int depth() const { return depth_; }  // nodes that came true so far

 private:
  Seen draft_;
  std::vector<int> keys_;
  bool chain_;
  int asked_, at_ = -1, depth_ = 0;
};

// Predicted seconds of passes, learning from measured ones.
class PassTimes {
 public:
  using Cost = std::function<double(int sequences, int rows, double context)>;
  static constexpr int kContextBlock = 128;  // T(n) is looked up for contexts rounded to this
  static constexpr int kShapedRows = 256;    // up to so many rows the shape is corrected, beyond with the common factor alone

  PassTimes(Cost cost, bool measured);
  // Seconds of passes of rows, rows + 1, ... rows + extra rows [extra + 1]. They rise: noise must not make a row free.
  std::vector<double> table(int sequences, int rows, int extra, double context);
  void learn(int sequences, int rows, double context, double seconds);
  // Whether a pass of so many rows, without a draft, should be seen again: what drafts cost is counted from it. At once
  // where nothing near was seen: a load that is new, perhaps after long under another one.
  bool plain_is_due(int rows);

 private:
  const std::vector<double>& base(int sequences, int count, double context);
  std::vector<double> rising(const std::vector<double>& known, int rows, int end) const;
  bool strange(int rows) const;
  void spread(int rows);

  Cost cost_;
  std::map<std::pair<int, int>, std::vector<double>> tables_;
  double load_ = 1.0;  // the common factor
  int learned_ = 0;
  std::array<double, kShapedRows + 1> shape_;     // the factor of each number of rows
  std::array<int, kShapedRows + 1> seen_{}, latest_;  // passes of so many rows, those long ago forgotten; the last of them
  std::array<bool, kShapedRows + 1> ever_{};          // whether there was one at all
  int check_at_ = 0, check_wait_;
};

// What asking the drafter costs: seconds for being asked at all, and for each node that it drafts.
class DraftTimes {
 public:
  static constexpr int kFirstAsks = 4;

  double node_s() const;  // of one node more
  double ask_s() const;   // of asking, whatever comes
  double mean_s() const;  // of a step that asked it, on average of late
  double filled() const { return filled_; }  // nodes it drafts, of those it may
  int asked() const { return asked_; }       // steps that asked it
  void learn(int allowed, int nodes, double seconds);
  void learn_idle(double seconds);

 private:
  int asked_ = 0;
  double filled_ = 1.0;
  std::optional<double> idle_s_;
  double nodes_ = 0.0, seconds_ = 0.0;  // means
  double spread_ = 0.0, slope_ = 0.0;   // variance of nodes, covariance of nodes and seconds
};

class Goodput {
 public:
  // weighs: the drafter weighs by itself what its parts cost, so it is asked for all it has or for nothing.
  Goodput(PassTimes::Cost cost, bool measured, int most, bool weighs);
  Goodput(const Goodput&) = delete;
  Goodput& operator=(const Goodput&) = delete;
  // The nodes that each sequence may be drafted. lengths: tokens of each; sequences and rows: of the pass without drafts.
  std::vector<int> budgets(const std::vector<int>& seqs, const std::vector<int>& lengths, int sequences, int rows);
  // After budgets: of a sequence's likeliest node, its second likeliest, ... [the largest budget] a chance that is lower than
  // any with which admit would take it. Empty where nothing was asked for.
  std::vector<double> floors();
  bool stepping() const { return step_.has_value(); }
  void show(int seq, Seen draft);            // a draft that may be cut
  std::vector<std::vector<int>> admit();     // the nodes of each that was shown, in rising order
  bool shown(int seq) const;                 // whether its draft was shown, or none was asked for
  void took(int seq, Seen draft);            // the draft of one that was not
  void outcome(int seq, int rows, const std::vector<int>& tokens);  // rows of its draft in the pass; its new tokens
  void close(double total_s, double draft_s, double target_s);

 private:
  struct State {
    explicit State(int l) : length(l), own(Counts::kOwnKeep) {}
    int length;  // of its text after the last step; another one means that the number now names another sequence
    Counts own;
    int asked = 0;
    bool has = false;  // drafted and keys are of this step
    Seen drafted;
    std::vector<int> keys;
    bool cuts = true;  // false: its drafts come back whole, so budgets alone decide
    std::optional<Trace> trace;  // an earlier draft that later tokens decide
    int idle = 0, wait = 1;      // steps since it was asked; steps until the next probe
    bool probing = false, hot = false;  // hot: its last probe came true
  };
  struct Step {
    int load_sequences, load_rows, sequences;  // sequences: those that may be drafted for
    double context, plain_s;
    int rows, largest = 0, allowed = 0, nodes = 0, outcomes = 0;  // largest: of the budgets
  };

  State& state(int seq, int length);
  void ask(const std::vector<State*>& states);
  double ask_s() const { return weighs_ ? drafting_.mean_s() : drafting_.ask_s(); }
  double node_s() const { return weighs_ ? 0.0 : drafting_.node_s(); }
  double asked_node_s() const { return node_s() * drafting_.filled(); }
  void buy(const std::vector<State*>& states, double ask_s);
  void probe(const std::vector<State*>& states, bool asked);
  std::vector<double> times(int extra);
  int best(const std::vector<double>& chances, double spent_s, double ask_s, double node_s);

  int most_;
  bool weighs_;
  PassTimes passes_;
  DraftTimes drafting_;
  Counts shared_;
  std::unordered_map<int, std::unique_ptr<State>> states_;
  std::optional<Step> step_;
  std::vector<int> shown_;
  double other_s_ = 0.0, purse_s_ = 0.0;  // of a step, neither the drafter's nor the target's; saved up for probes
};

}  // namespace outrider
