// Trees grown best first, from one source or from several whose words a mixer weighs.
#include "outrider/growing.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace outrider {
namespace {

// A heap's order: the larger product first, of equals the one found first.
struct Worse {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a.product < b.product || (a.product == b.product && a.order > b.order);
  }
};

constexpr int kAsked = 8;  // candidates that a source may name at a place
constexpr float kLeastWord = 1e-4f;

double log_odds(float chance) {
  const double p = std::clamp(static_cast<double>(chance), 0.002, 0.998);
  return std::log(p / (1.0 - p));
}

}  // namespace

Grown grow(Source& source, const Bounds& bounds) {
  struct Waiting {
    double product;
    int order, parent, depth, token;
    double score;
    int place;  // of the parent
  };
  Grown draft;
  std::vector<Waiting> waiting;
  std::vector<Guess> guesses;
  int order = 0;
  const auto look = [&](int node, int depth, double product, int place) {
    source.ahead(place, bounds.branches, &guesses);
    for (const Guess& guess : guesses) {
      if (product * guess.chance < bounds.least) continue;
      waiting.push_back({product * guess.chance, order++, node, depth, guess.token, guess.chance, place});
      std::push_heap(waiting.begin(), waiting.end(), Worse());
    }
  };
  if (const int place = source.start(); place >= 0 && bounds.nodes > 0 && bounds.depth > 0) look(-1, 0, 1.0, place);
  while (!waiting.empty() && static_cast<int>(draft.tokens.size()) < bounds.nodes) {
    std::pop_heap(waiting.begin(), waiting.end(), Worse());
    const Waiting next = waiting.back();
    waiting.pop_back();
    const int node = static_cast<int>(draft.tokens.size());
    if (bounds.ends(draft.tokens.size(), next.product)) break;
    draft.tokens.push_back(next.token);
    draft.parents.push_back(next.parent);
    draft.scores.push_back(next.score);
    if (next.depth + 1 >= bounds.depth || node + 1 >= bounds.nodes) continue;
    if (const int place = source.after(next.place, next.token); place >= 0) look(node, next.depth + 1, next.product, place);
  }
  return draft;
}

Mixer::Mixer(const std::vector<Weight>& weights, double bias, double rate) : weights_(weights), bias_(bias), rate_(rate) {
  if (weights_.empty() || weights_.size() > kMost) throw std::invalid_argument("a mixer takes 1 to 6 sources");
}

double Mixer::chance(const Words& words) const {
  double sum = bias_;
  for (size_t s = 0; s < weights_.size(); ++s) {
    if (words[s] > kUnsaid)
      sum += weights_[s].word * log_odds(words[s]) + weights_[s].named;
    else if (words[s] == kUnsaid)
      sum += weights_[s].unsaid;
  }
  return 1.0 / (1.0 + std::exp(-sum));
}

int Mixer::loudest(const Words& words) const {
  int found = -1;
  double most = 0.0;
  for (size_t s = 0; s < weights_.size(); ++s) {
    if (words[s] <= kUnsaid) continue;
    const double word = weights_[s].word * log_odds(words[s]) + weights_[s].named;
    if (found < 0 || word > most) found = static_cast<int>(s), most = word;
  }
  return found;
}

// One step down the gradient of the logarithm of the chance given to what happened.
void Mixer::learn(const Words& words, bool came) {
  const double step = rate_ * ((came ? 1.0 : 0.0) - chance(words));
  for (size_t s = 0; s < weights_.size(); ++s) {
    if (words[s] > kUnsaid)
      weights_[s].word += step * log_odds(words[s]), weights_[s].named += step;
    else if (words[s] == kUnsaid)
      weights_[s].unsaid += step;
  }
  bias_ += step;
}

Blend::Blend(std::vector<std::shared_ptr<Source>> sources, Mixer mixer)
    : sources_(std::move(sources)), mixer_(std::move(mixer)) {
  if (sources_.size() != mixer_.sources()) throw std::invalid_argument("a mixer has a weight for each source");
}

// Asks every source that has a place; candidates are in the order in which they were named.
int Blend::look(const Places& places) {
  const size_t first = candidates_.size();
  Mixer::Words words;
  words.fill(Mixer::kSilent);
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (places[s] < 0) continue;
    sources_[s]->ahead(places[s], kAsked, &scratch_);
    if (scratch_.empty()) continue;
    words[s] = Mixer::kUnsaid;
    for (size_t i = first; i < candidates_.size(); ++i) candidates_[i].words[s] = Mixer::kUnsaid;
    for (const Guess& guess : scratch_) {
      size_t i = first;
      while (i < candidates_.size() && candidates_[i].token != guess.token) ++i;
      if (i == candidates_.size()) candidates_.push_back({guess.token, 0.0, words, -1});
      candidates_[i].words[s] = std::max(static_cast<float>(guess.chance), kLeastWord);
    }
  }
  double total = 0.0;
  for (size_t i = first; i < candidates_.size(); ++i) total += candidates_[i].chance = mixer_.chance(candidates_[i].words);
  // One of them at most is kept, so together they cannot be likelier than 1.
  for (size_t i = first; total > 1.0 && i < candidates_.size(); ++i) candidates_[i].chance /= total;
  looks_.push_back({static_cast<int>(first), static_cast<int>(candidates_.size() - first), places});
  return static_cast<int>(looks_.size()) - 1;
}

void Blend::offer(int look, int node, int depth, double product, const Bounds& bounds) {
  const Look& here = looks_[static_cast<size_t>(look)];
  const auto chance = [this](int i) { return candidates_[static_cast<size_t>(i)].chance; };
  int best = here.first;
  for (int i = here.first; i < here.first + here.count; ++i) {
    if (chance(i) > chance(best)) best = i;
    if (bounds.branches > 1 && product * chance(i) >= bounds.least) push({product * chance(i), i, node, depth, i, look});
  }
  if (bounds.branches == 1 && here.count && product * chance(best) >= bounds.least)
    push({product * chance(best), best, node, depth, best, look});
}

void Blend::push(const Waiting& waiting) {
  waiting_.push_back(waiting);
  std::push_heap(waiting_.begin(), waiting_.end(), Worse());
}

Grown Blend::grow(const Bounds& bounds) {
  candidates_.clear();
  looks_.clear();
  waiting_.clear();
  Grown draft;
  if (bounds.nodes < 1 || bounds.depth < 1) return draft;
  Places places;
  places.fill(-1);
  for (size_t s = 0; s < sources_.size(); ++s) places[s] = sources_[s]->start();
  offer(look(places), -1, 0, 1.0, bounds);
  while (!waiting_.empty() && static_cast<int>(draft.tokens.size()) < bounds.nodes) {
    std::pop_heap(waiting_.begin(), waiting_.end(), Worse());
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    const int node = static_cast<int>(draft.tokens.size());
    if (bounds.ends(draft.tokens.size(), next.product)) break;
    const Candidate& chosen = candidates_[static_cast<size_t>(next.candidate)];
    const int token = chosen.token;
    draft.tokens.push_back(token);
    draft.parents.push_back(next.parent);
    draft.scores.push_back(chosen.chance);
    draft.sources.push_back(mixer_.loudest(chosen.words));
    if (next.depth + 1 >= bounds.depth || node + 1 >= bounds.nodes) continue;
    const Places above = looks_[static_cast<size_t>(next.look)].places;
    for (size_t s = 0; s < sources_.size(); ++s) places[s] = above[s] < 0 ? -1 : sources_[s]->after(above[s], token);
    const int below = look(places);
    candidates_[static_cast<size_t>(next.candidate)].look = below;
    offer(below, node, next.depth + 1, next.product, bounds);
  }
  return draft;
}

void Blend::learn(const std::vector<int>& tokens) {
  int look = looks_.empty() ? -1 : 0;
  for (const int token : tokens) {
    if (look < 0) break;
    const Look here = looks_[static_cast<size_t>(look)];
    look = -1;
    for (int i = here.first; i < here.first + here.count; ++i) {
      const Candidate& c = candidates_[static_cast<size_t>(i)];
      mixer_.learn(c.words, c.token == token);
      if (c.token == token) look = c.look;
    }
  }
  looks_.clear();  // they have taught; the next draft makes its own
}

}  // namespace outrider
