#include "outrider/growing.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// A heap's order: the larger product first, of equals the one found first.
struct Worse {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a.product < b.product || (a.product == b.product && a.order > b.order);
  }
};

double stretch(double p) {
  const double inside = std::clamp(p, 0.002, 0.998);
  return std::log(inside / (1.0 - inside));
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
    draft.tokens.push_back(next.token);
    draft.parents.push_back(next.parent);
    draft.scores.push_back(next.score);
    if (next.depth + 1 >= bounds.depth || node + 1 >= bounds.nodes) continue;
    if (const int place = source.after(next.place, next.token); place >= 0) look(node, next.depth + 1, next.product, place);
  }
  return draft;
}

Mixer::Mixer() { weights_.fill(0.0); }

void Mixer::set(const std::vector<double>& weights, double rate) {
  std::copy_n(weights.begin(), std::min(weights.size(), weights_.size()), weights_.begin());
  rate_ = rate;
}

double Mixer::chance(const Words& words) const {
  double sum = weights_.back();
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const double* w = weights_.data() + kEach * kind;
    if (words[kind] > kUnsaid)
      sum += w[0] * stretch(static_cast<double>(words[kind])) + w[1];
    else if (words[kind] == kUnsaid)
      sum += w[2];
  }
  return 1.0 / (1.0 + std::exp(-sum));
}

void Mixer::learn(const Words& words, double chance, bool came) {
  const double step = rate_ * ((came ? 1.0 : 0.0) - chance);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    double* w = weights_.data() + kEach * kind;
    if (words[kind] > kUnsaid)
      w[0] += step * stretch(static_cast<double>(words[kind])), w[1] += step;
    else if (words[kind] == kUnsaid)
      w[2] += step;
  }
  weights_.back() += step;
}

Blend::Blend(std::shared_ptr<Mixer> mixer, std::vector<std::shared_ptr<Source>> sources)
    : mixer_(std::move(mixer)), sources_(std::move(sources)) {}

// Asks every source that has a place.
int Blend::look(const Places& places, const Bounds& bounds) {
  Look look{static_cast<int>(candidates_.size()), 0, places};
  Mixer::Words silent;
  silent.fill(Mixer::kSilent);
  for (size_t kind = 0; kind < sources_.size(); ++kind) {
    if (places[kind] < 0) continue;
    sources_[kind]->ahead(places[kind], 8, &scratch_);
    if (scratch_.empty()) continue;
    silent[kind] = Mixer::kUnsaid;
    for (size_t i = static_cast<size_t>(look.first); i < candidates_.size(); ++i) candidates_[i].words[kind] = Mixer::kUnsaid;
    for (const Guess& guess : scratch_) {
      size_t i = static_cast<size_t>(look.first);
      while (i < candidates_.size() && candidates_[i].token != guess.token) ++i;
      if (i == candidates_.size()) candidates_.push_back({guess.token, 0.0, silent, -1});
      candidates_[i].words[kind] = std::max(static_cast<float>(guess.chance), 1e-4f);
    }
  }
  look.count = static_cast<int>(candidates_.size()) - look.first;
  double total = 0.0;
  for (int i = look.first; i < look.first + look.count; ++i) {
    Candidate& c = candidates_[static_cast<size_t>(i)];
    total += c.chance = mixer_->chance(c.words);
  }
  (void)bounds;
  // One of them at most is kept, so together they cannot be likelier than 1.
  if (total > 1.0)
    for (int i = look.first; i < look.first + look.count; ++i) candidates_[static_cast<size_t>(i)].chance /= total;
  looks_.push_back(look);
  return static_cast<int>(looks_.size()) - 1;
}

void Blend::offer(int look, int node, int depth, double product, const Bounds& bounds) {
  const Look& here = looks_[static_cast<size_t>(look)];
  int best = -1;
  for (int i = here.first; i < here.first + here.count; ++i) {
    const double worth = product * candidates_[static_cast<size_t>(i)].chance;
    if (worth < bounds.least) continue;
    if (bounds.branches == 1) {
      if (best < 0 || candidates_[static_cast<size_t>(i)].chance > candidates_[static_cast<size_t>(best)].chance) best = i;
      continue;
    }
    waiting_.push_back({worth, i, node, depth, i, look});
    std::push_heap(waiting_.begin(), waiting_.end(), Worse());
  }
  if (best >= 0) {
    waiting_.push_back({product * candidates_[static_cast<size_t>(best)].chance, best, node, depth, best, look});
    std::push_heap(waiting_.begin(), waiting_.end(), Worse());
  }
}

Grown Blend::grow(const Bounds& bounds) {
  candidates_.clear();
  looks_.clear();
  waiting_.clear();
  Grown draft;
  if (bounds.nodes < 1 || bounds.depth < 1) return draft;
  Places places;
  places.fill(-1);
  for (size_t kind = 0; kind < sources_.size(); ++kind) places[kind] = sources_[kind]->start();
  offer(look(places, bounds), -1, 0, 1.0, bounds);
  while (!waiting_.empty() && static_cast<int>(draft.tokens.size()) < bounds.nodes) {
    std::pop_heap(waiting_.begin(), waiting_.end(), Worse());
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    const int node = static_cast<int>(draft.tokens.size());
    const int token = candidates_[static_cast<size_t>(next.candidate)].token;
    draft.tokens.push_back(token);
    draft.parents.push_back(next.parent);
    draft.scores.push_back(candidates_[static_cast<size_t>(next.candidate)].chance);
    if (next.depth + 1 >= bounds.depth || node + 1 >= bounds.nodes) continue;
    const Places above = looks_[static_cast<size_t>(next.look)].places;
    places.fill(-1);
    for (size_t kind = 0; kind < sources_.size(); ++kind)
      if (above[kind] >= 0) places[kind] = sources_[kind]->after(above[kind], token);
    const int below = look(places, bounds);
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
      const bool came = c.token == token;
      mixer_->learn(c.words, mixer_->chance(c.words), came);
      if (came) look = c.look;
    }
  }
  looks_.clear();
}

}  // namespace outrider
