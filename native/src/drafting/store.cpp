// Contexts of a store and their votes: the longest first, what it takes off for the unseen goes to the next shorter one.
#include <algorithm>

#include "outrider/drafting.h"

namespace outrider {
namespace {

constexpr double kDiscount = 0.75;
constexpr int kVoters = 3;  // a fourth context changed nothing

}  // namespace

int StoreIndex::at(int place, int offset) const {
  const int64_t index = int64_t{a_.places[place]} + offset;
  if (index >= a_.tokens) return kEnd;
  return static_cast<int>(a_.text16 ? a_.text16[index] : a_.text32[index]) - 1;
}

Slice StoreIndex::find(int token) const {
  if (token < 0 || token >= a_.vocab) return {1, 0, 0};
  const int64_t low = a_.starts[token], high = a_.starts[token + 1];
  if (low > high || high > a_.count) return {1, 0, 0};
  return {1, static_cast<int>(low), static_cast<int>(high)};
}

Slice StoreIndex::longer(const Slice& context, int token) const {
  int low = context.low, high = context.high;
  const int length = context.length, end = context.high;
  if (context.empty()) return {length + 1, low, low};
  if (high - low == 1) return {length + 1, low, low + (at(low, length) == token)};
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (at(middle, length) < token)
      low = middle + 1;
    else
      high = middle;
  }
  // Most slices are far smaller than what they are part of, so the end is near.
  const int first = low;
  int step = 1;
  while (step < end - low && at(low + step, length) <= token) low += step, step *= 2;
  int last = std::min(end, step < end - low ? low + step : end);
  while (low < last) {
    const int middle = low + (last - low) / 2;
    if (at(middle, length) <= token)
      low = middle + 1;
    else
      last = middle;
  }
  return {length + 1, first, low};
}

Continuations StoreIndex::count(const Slice& context) const {
  const int size = context.high - context.low, step = std::max(1, (size + kSample - 1) / kSample);
  std::vector<int> tokens;
  for (int i = 0; i < size; i += step)
    if (const int token = at(context.low + i, context.length); token >= 0) tokens.push_back(token);
  Continuations found;
  found.total = static_cast<int>(tokens.size());
  std::sort(tokens.begin(), tokens.end());
  for (size_t i = 0, next; i < tokens.size(); i = next) {
    next = i;
    while (next < tokens.size() && tokens[next] == tokens[i]) ++next;
    found.commonest.emplace_back(tokens[i], static_cast<int>(next - i));
    ++found.distinct;
  }
  std::stable_sort(found.commonest.begin(), found.commonest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (found.commonest.size() > kWidest) found.commonest.resize(kWidest);
  return found;
}

const Continuations& StoreIndex::continuations(const Slice& context) {
  // A slice of one length is known by its low end; lengths of up to 64 tokens fit above it.
  const uint64_t key = static_cast<uint64_t>(context.length) << 32 | static_cast<uint32_t>(context.low);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  if (known_.size() >= kCached) known_.clear();
  return known_.emplace(key, count(context)).first->second;
}

StoreText::StoreText(std::shared_ptr<StoreIndex> index, int longest, int deepest, const std::vector<int>& prompt)
    : index_(std::move(index)), longest_(static_cast<size_t>(longest)), deepest_(deepest) {
  const size_t from = prompt.size() < longest_ ? 0 : prompt.size() - longest_;
  extend({prompt.begin() + static_cast<std::ptrdiff_t>(from), prompt.end()});
}

std::vector<Slice> StoreText::longer(const std::vector<Slice>& contexts, int token) const {
  std::vector<Slice> grown;
  for (const Slice& context : contexts)
    if (const Slice next = index_->longer(context, token); !next.empty()) grown.push_back(next);
  if (const Slice one = index_->find(token); !one.empty()) grown.push_back(one);
  return grown;
}

void StoreText::extend(const std::vector<int>& tokens) {
  for (const int token : tokens) {
    if (!contexts_.empty() && contexts_[0].length >= static_cast<int>(longest_)) contexts_.erase(contexts_.begin());
    contexts_ = longer(contexts_, token);
  }
}

// Contexts that stand at the very places of a longer one would stay in a draft as good as it is, so they are left out.
int StoreText::start() {
  places_.clear();
  Place place;
  for (size_t i = 0; i < contexts_.size(); ++i)
    if (i == 0 || contexts_[i].high - contexts_[i].low > contexts_[i - 1].high - contexts_[i - 1].low)
      place.contexts.push_back(contexts_[i]);
  if (place.contexts.empty()) return -1;
  places_.push_back(std::move(place));
  return 0;
}

int StoreText::after(int place, int token) {
  Place next;
  next.depth = places_[static_cast<size_t>(place)].depth + 1;
  if (next.depth >= deepest_) return -1;
  next.contexts = longer(places_[static_cast<size_t>(place)].contexts, token);
  if (next.contexts.empty()) return -1;
  places_.push_back(std::move(next));
  return static_cast<int>(places_.size()) - 1;
}

void StoreText::ahead(int place, int most, std::vector<Guess>* found) {
  found->clear();
  double left = 1.0;
  int voters = 0, stood = 0;
  for (const Slice& context : places_[static_cast<size_t>(place)].contexts) {
    if (context.high - context.low == stood) continue;  // the very places of a longer context, which has voted
    stood = context.high - context.low;
    const Continuations& next = index_->continuations(context);
    if (!next.total) continue;
    const double share = left / next.total;
    for (const auto& [token, times] : next.commonest) {
      const auto same = std::find_if(found->begin(), found->end(), [t = token](const Guess& g) { return g.token == t; });
      if (same == found->end())
        found->push_back({token, share * (times - kDiscount)});
      else
        same->chance += share * (times - kDiscount);
    }
    left *= kDiscount * next.distinct / next.total;
    if (++voters == kVoters) break;
  }
  std::sort(found->begin(), found->end(), [](const Guess& a, const Guess& b) {
    return a.chance > b.chance || (a.chance == b.chance && a.token < b.token);
  });
  if (found->size() > static_cast<size_t>(most)) found->resize(static_cast<size_t>(most));
}

}  // namespace outrider
