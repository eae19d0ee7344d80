// The longest suffix that stood before, in the text itself and in earlier answers, and what followed it.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "outrider/drafting.h"

namespace outrider {
namespace {

// A score is count / (total + doubt), doubt = kDoubt * different^kSpread / matched: what was seen once is not certain,
// less so after a short match or where different things followed (fitted: drafters/suffix.py).
constexpr double kDoubt = 2.2, kSpread = 1.2;
constexpr size_t kFollowed = 2;  // a drafted token moves every cursor; after the first only the best ones are followed
constexpr int kContexts = 3;     // siblings come from so many suffixes, the longest first
constexpr size_t kWarmUp = 32;   // last tokens of an answer that a volume which is new to it is searched with

double doubt(int matched, int different) { return kDoubt * std::pow(different, kSpread) / matched; }

bool more(const Automaton::Follower& a, const Automaton::Follower& b) {
  return std::tuple(a.count, a.recent, a.token) > std::tuple(b.count, b.recent, b.token);
}

}  // namespace

std::vector<std::shared_ptr<Automaton>> Memory::read(const std::string& scope) {
  std::vector<Volume> found;
  for (auto v = volumes_.rbegin(); v != volumes_.rend(); ++v)
    if (v->first == scope) found.push_back(v->second);
  return found;
}

// An answer of more than a quarter of the memory is cut into several.
void Memory::add(const std::string& scope, const std::vector<int>& answer) {
  if (answer.empty()) return;
  ++version_;
  Volume volume = current(scope);
  for (size_t i = 0; i <= answer.size(); ++i) {
    if (volume->size_bytes() >= 2 * (limit_ / kVolumes)) volume = begin(scope);
    extend(*volume, i < answer.size() ? answer[i] : kEdge);
    while (size_ > limit_)
      if (drop() == volume) volume = begin(scope);
  }
}

// Where the next answer goes. A volume that is the next to be dropped gets none.
Memory::Volume Memory::current(const std::string& scope) {
  const size_t share = limit_ / kVolumes;
  for (auto v = volumes_.rbegin(); v != volumes_.rend(); ++v) {
    if (v->first != scope) continue;
    const bool next_out = v->second == volumes_.front().second && size_ > limit_ - share;
    return next_out || v->second->size_bytes() >= share ? begin(scope) : v->second;
  }
  return begin(scope);
}

Memory::Volume Memory::begin(const std::string& scope) {
  Volume volume = std::make_shared<Automaton>();
  size_ += volume->size_bytes();
  extend(*volume, kEdge);
  volumes_.emplace_back(scope, volume);
  return volume;
}

void Memory::extend(Automaton& volume, int token) {
  const size_t before = volume.size_bytes();
  volume.extend(token);
  size_ += volume.size_bytes() - before;
}

Memory::Volume Memory::drop() {
  Volume volume = std::move(volumes_.front().second);
  volumes_.erase(volumes_.begin());
  size_ -= volume->size_bytes();
  return volume;
}

SuffixText::SuffixText(const std::vector<int>& prompt, std::shared_ptr<Memory> memory, SuffixRule rule)
    : memory_(std::move(memory)), rule_(rule) {
  for (const int token : prompt) text_.extend(token);
}

void SuffixText::extend(const std::vector<int>& tokens) {
  for (const int token : tokens) text_.extend(token);
  if (!memory_) return;
  answer_.insert(answer_.end(), tokens.begin(), tokens.end());
  if (version_ != memory_->version()) return;
  for (size_t v = 0; v < volumes_.size(); ++v)
    for (const int token : tokens) ends_[v] = volumes_[v]->advance(ends_[v], token);
}

void SuffixText::enter(const std::string& scope) {
  if (scope_) return;
  scope_ = scope;
  if (memory_) search();
}

void SuffixText::remember() {
  if (memory_ && scope_) memory_->add(*scope_, answer_);
}

// The memory has changed: finds the answer's end in its volumes anew.
void SuffixText::search() {
  version_ = memory_->version();
  volumes_ = memory_->read(*scope_);
  ends_.assign(volumes_.size(), {});
  const size_t first = answer_.size() < kWarmUp ? 0 : answer_.size() - kWarmUp;
  for (size_t v = 0; v < volumes_.size(); ++v) {
    if (answer_.size() < kWarmUp) ends_[v] = volumes_[v]->advance(ends_[v], Memory::kEdge);
    for (size_t i = first; i < answer_.size(); ++i) ends_[v] = volumes_[v]->advance(ends_[v], answer_[i]);
  }
}

// The longer match goes first, of equals the earlier source.
void SuffixText::add(Place* place, Automaton* source, Automaton::Cursor at) {
  if (!at.matched || place->count == kSources) return;
  size_t i = place->count++;
  for (; i > 0 && place->cursors[i - 1].at.matched < at.matched; --i) place->cursors[i] = place->cursors[i - 1];
  place->cursors[i] = {source, at};
}

int SuffixText::start() {
  places_.clear();
  Place place;
  add(&place, &text_, text_.tail());
  if (memory_ && scope_) {
    if (version_ != memory_->version()) search();
    for (size_t v = 0; v < volumes_.size(); ++v) add(&place, volumes_[v].get(), ends_[v]);
  }
  if (!place.count) return -1;
  deepest_ = static_cast<int>(place.cursors[0].at.matched * rule_.factor + rule_.offset);
  places_.push_back(place);
  return 0;
}

int SuffixText::after(int place, int token) {
  Place next;
  next.depth = places_[static_cast<size_t>(place)].depth + 1;
  if (next.depth >= deepest_) return -1;
  const Place& here = places_[static_cast<size_t>(place)];
  for (size_t i = 0; i < here.count; ++i)
    add(&next, here.cursors[i].source, here.cursors[i].source->advance(here.cursors[i].at, token));
  next.count = std::min(next.count, kFollowed);
  if (!next.count) return -1;
  places_.push_back(next);
  return static_cast<int>(places_.size()) - 1;
}

void SuffixText::ahead(int place, int most, std::vector<Guess>* found) {
  found->clear();
  const Place& here = places_[static_cast<size_t>(place)];
  if (here.depth >= deepest_) return;
  if (most == 1) {
    Guess top{-1, 0.0};
    for (size_t i = 0; i < here.count; ++i)
      if (const Guess guess = best(here.cursors[i]); guess.chance > top.chance) top = guess;
    if (top.token >= 0) found->push_back(top);
    return;
  }
  for (size_t i = 0; i < here.count; ++i) likely(here.cursors[i], most, found);
  std::stable_sort(found->begin(), found->end(), [](const Guess& a, const Guess& b) { return a.chance > b.chance; });
  if (found->size() > static_cast<size_t>(most)) found->resize(static_cast<size_t>(most));
  double room = 1.0;
  for (Guess& guess : *found) room -= guess.chance = std::min(guess.chance, room);
}

// The most frequent continuation, the latest of equals, and its score; -1 where only an answer's end is known.
Guess SuffixText::best(const Cursor& cursor) {
  cursor.source->ahead(cursor.at.state, &scratch_);
  const Automaton::Follower* top = nullptr;
  for (const Automaton::Follower& other : scratch_.found)
    if (other.token >= 0 && (!top || more(other, *top))) top = &other;
  if (!top) return {-1, 0.0};
  return {top->token, top->count / (scratch_.total + doubt(cursor.at.matched, scratch_.different))};
}

// Continuations with their scores, of the longest suffix first, then of shorter ones; a token that is there already
// keeps its better score. What the scores of a suffix leave over is what the next shorter one shares out among tokens
// that it has not named, as in prediction by partial matching.
void SuffixText::likely(const Cursor& cursor, int most, std::vector<Guess>* found) {
  double rest = 1.0;
  std::vector<Guess> guesses;
  const auto named = [&guesses](int token) {
    return std::any_of(guesses.begin(), guesses.end(), [token](const Guess& g) { return g.token == token; });
  };
  Automaton::Cursor at = cursor.at;
  for (int context = 0; context < kContexts; ++context) {
    cursor.source->ahead(at.state, &scratch_);
    int total = scratch_.total;
    for (const Automaton::Follower& f : scratch_.found) total -= named(f.token) ? f.count : 0;
    const double share = rest / (total + doubt(at.matched, scratch_.different));
    std::sort(scratch_.found.begin(), scratch_.found.end(), more);
    const size_t before = guesses.size();
    for (const Automaton::Follower& f : scratch_.found) {
      const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(before);
      if (std::any_of(guesses.begin(), end, [&f](const Guess& g) { return g.token == f.token; })) continue;
      guesses.push_back({f.token, share * f.count});
      rest -= share * f.count;
    }
    if (guesses.size() > static_cast<size_t>(most) || rest <= 0.0) break;
    at = cursor.source->shorter(at.state);
    if (!at.matched) break;
  }
  for (const Guess& guess : guesses) {
    if (guess.token < 0) continue;
    const auto same = std::find_if(found->begin(), found->end(), [&](const Guess& g) { return g.token == guess.token; });
    if (same == found->end())
      found->push_back(guess);
    else
      same->chance = std::max(same->chance, guess.chance);
  }
}

}  // namespace outrider
