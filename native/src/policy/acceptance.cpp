// What drafted nodes are worth: conditional acceptance, counted by what can be seen of a node before it is checked.
//
// A node falls under a key: the drafter's own score where it gives one; else its depth and how long the whole draft is (an
// n-gram drafter drafts further where it matched more). The chance of a node, given that the node above it was kept, is a
// beta posterior's mean: the sequence's own counts with what all sequences showed as prior, and that in turn with the
// drafter's score, or with what is believed of the depth above, as prior.
#include <algorithm>
#include <cmath>

#include "outrider/policy.h"

namespace outrider {
namespace {

constexpr double kSharedWeight = 6.0;  // tries that the prior of all sequences' counts is worth
constexpr double kOwnWeight = 3.0;     // tries that all sequences' counts are worth to one of them
constexpr double kScoreWeight = 20.0;  // the same where the drafter gives scores: those follow the text by themselves
constexpr double kRise = 0.9;  // the chance to fail, from one depth to the next: a guess that held so far is likelier a good one
constexpr double kHope = 0.7;  // standard errors, see reach
constexpr double kAsAbove = -1.0;  // the prior of a key that believes what is believed of the node above
// The longest draft of each class; longer ones, and those that fill the budget, are last. And the chance of the first
// node of each class, before anything is known.
constexpr std::array<int, kKinds - 1> kLengths = {1, 2, 3, 5, 8, 12};
constexpr std::array<double, kKinds> kFirst = {0.5, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9};

double prior_of(int key) {
  if (key < kScores) return (key + 0.5) / kScores;
  if (key == kForced) return 0.98;
  if (key < kSibling) return (key - kClass) % kDepths ? kAsAbove : kFirst[static_cast<size_t>((key - kClass) / kDepths)];
  if (key < kReach) return 0.15;
  return key == kReach ? 0.5 : kAsAbove;
}

double weight_of(int key) { return key < kScores ? kScoreWeight : kOwnWeight; }

int class_of(int depth, int asked) {
  if (depth >= std::min(asked, kMostDepth)) return kKinds - 1;
  int kind = 0;
  while (kind < kKinds - 1 && depth > kLengths[static_cast<size_t>(kind)]) ++kind;
  return kind;
}

int class_key(int kind, int depth) { return kClass + kind * kDepths + std::min(depth, kDepths - 1); }

double belief_of(int key, double above, const Counts& shared) {
  const size_t k = static_cast<size_t>(key);
  double prior = prior_of(key);
  if (prior < 0.0) prior = 1.0 - kRise * (1.0 - above);
  return (shared.hits[k] + kSharedWeight * prior) / (shared.tries[k] + kSharedWeight);
}

double chance_of(int key, double belief, const Counts& own) {
  const size_t k = static_cast<size_t>(key);
  return (own.hits[k] + weight_of(key) * belief) / (own.tries[k] + weight_of(key));
}

template <class KeyAt>
std::vector<double> chain_survival(int count, KeyAt key_at, const Counts& own, const Counts& shared, double least) {
  std::vector<double> found;
  double belief = 0.5, kept = 1.0;
  for (int depth = 0; depth < count; ++depth) {
    belief = belief_of(key_at(depth), belief, shared);
    kept *= chance_of(key_at(depth), belief, own);
    if (kept < least) break;
    found.push_back(kept);
  }
  return found;
}

}  // namespace

bool Seen::chain() const {
  for (size_t i = 0; i < parents.size(); ++i)
    if (parents[i] != static_cast<int>(i) - 1) return false;
  return true;
}

void Counts::fade_reach(double keep) {
  for (size_t key = kReach; key < kKeys; ++key) tries[key] *= keep, hits[key] *= keep;
}

std::vector<int> keys_of(const Seen& draft, int asked) {
  std::vector<int> found;
  const int n = draft.size();
  if (!draft.scores.empty()) {
    for (const double score : draft.scores) found.push_back(std::min(kScores - 1, static_cast<int>(score * kScores)));
  } else if (draft.chain()) {
    const int kind = class_of(n, asked);
    for (int depth = 0; depth < n; ++depth) found.push_back(class_key(kind, std::min(depth, kMostDepth - 1)));
  } else {
    std::vector<int> depths, children(static_cast<size_t>(n) + 1, 0);  // the first is the root's
    for (const int parent : draft.parents) depths.push_back(parent < 0 ? 0 : depths[static_cast<size_t>(parent)] + 1);
    const int kind = class_of(*std::max_element(depths.begin(), depths.end()) + 1, asked);
    for (size_t node = 0; node < depths.size(); ++node) {
      const int rank = children[static_cast<size_t>(draft.parents[node] + 1)]++;
      const int place = kSibling + (std::min(rank, kSiblingRanks) - 1) * kSiblingDepths;
      found.push_back(rank ? place + std::min(depths[node], kSiblingDepths - 1) : class_key(kind, std::min(depths[node], kMostDepth - 1)));
    }
  }
  for (int node = 0; node < std::min(draft.forced, n); ++node) found[static_cast<size_t>(node)] = kForced;
  return found;
}

std::vector<double> survival(const Seen& draft, const std::vector<int>& keys, const Counts& own, const Counts& shared, double least) {
  const auto key_at = [&keys](int depth) { return keys[static_cast<size_t>(depth)]; };
  if (draft.chain()) return chain_survival(draft.size(), key_at, own, shared, least);
  std::vector<double> kept, beliefs, taken(draft.tokens.size() + 1, 0.0);  // taken: by siblings before; the first is the root's
  for (size_t node = 0; node < draft.tokens.size(); ++node) {
    const int parent = draft.parents[node];
    const double belief = belief_of(keys[node], parent < 0 ? 0.5 : beliefs[static_cast<size_t>(parent)], shared);
    double& room = taken[static_cast<size_t>(parent + 1)];
    // One sibling at most is kept, so together they cannot be likelier than 1.
    const double chance = std::min(chance_of(keys[node], belief, own), 1.0 - room);
    room += chance;
    beliefs.push_back(belief);
    kept.push_back(parent < 0 ? chance : chance * kept[static_cast<size_t>(parent)]);
  }
  return kept;
}

// The first chance, which decides whether the drafter is asked at all, is taken a little better than it showed: an unlucky
// row of misses would otherwise end the asking, and with it the news that it was bad luck.
std::vector<double> reach(int depth, const Counts& own, const Counts& shared, double least) {
  std::vector<double> found = chain_survival(std::min(depth, kMostDepth), [](int d) { return kReach + d; }, own, shared, 0.0);
  if (found.empty() || found[0] <= 0.0) return {};
  const double first = std::min(found[0], 1.0);  // rounding may put it above
  const double error = std::sqrt(first * (1.0 - first) / (own.tries[kReach] + kOwnWeight));
  const double hope = std::min(1.0, first + kHope * error) / first;
  std::vector<double> hoped;
  for (const double chance : found)
    if (hope * chance >= least) hoped.push_back(hope * chance);
  return hoped;
}

Trace::Trace(Seen draft, std::vector<int> keys, int asked)
    : draft_(std::move(draft)), keys_(std::move(keys)), chain_(draft_.chain()), asked_(std::min(asked, kMostDepth)) {}

bool Trace::follow(const std::vector<int>& tokens, Counts& own, Counts& shared) {
  const int n = draft_.size();
  for (const int token : tokens) {
    int hit = -1;
    for (int node = at_ + 1; node < (chain_ ? std::min(at_ + 2, n) : n); ++node) {
      if (draft_.parents[static_cast<size_t>(node)] != at_) continue;
      // Each child is a try, and none but the first that is this token a hit.
      const bool came = hit < 0 && draft_.tokens[static_cast<size_t>(node)] == token;
      if (came) hit = node;
      own.add(keys_[static_cast<size_t>(node)], came);
      shared.add(keys_[static_cast<size_t>(node)], came);
    }
    if (depth_ < asked_) {
      own.add(kReach + depth_, hit >= 0);
      shared.add(kReach + depth_, hit >= 0);
    }
    if (hit < 0) return false;
    at_ = hit;
    ++depth_;
  }
  return depth_ < asked_ || at_ + 1 < n;
}

}  // namespace outrider
