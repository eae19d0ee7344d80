// The filters keep rows whole: what is dropped becomes -inf, and later steps skip vectors in which nothing is left.
// Only what may decide is gathered and sorted, in bands of falling score.
#include "outrider/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Bands grow: each costs a look at the whole row, but what is gathered in vain must be sorted.
float next_band(float width, float least) {
  const float wider = width + std::max(least, 0.5f * width);
  return wider < 88.0f ? wider : kInfinity;  // exp of less than -87.3 is 0, so no weight lies beyond
}

// Unsigned integers that fall as the floats rise; 0 and -0 are one.
uint32_t falling(float x) {
  const float plain = x + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &plain, sizeof bits);
  return bits & 0x80000000u ? bits : ~bits & 0x7FFFFFFFu;
}

int id_of(uint64_t item) { return static_cast<int>(item & 0xFFFFFFFFu); }

}  // namespace

// A stable sort by the high halves: bytes from the least on, those that all items share left out.
void Sampler::sort_items() {
  constexpr size_t kFew = 64;
  if (items_.size() <= kFew) {
    std::stable_sort(items_.begin(), items_.end(), [](uint64_t a, uint64_t b) { return a >> 32 < b >> 32; });
    return;
  }
  size_t counts[4][256] = {};
  for (const uint64_t i : items_)
    for (int byte = 0; byte < 4; ++byte) ++counts[byte][i >> (32 + 8 * byte) & 0xFF];
  other_.resize(items_.size());
  for (int byte = 0; byte < 4; ++byte) {
    const int shift = 32 + 8 * byte;
    size_t* places = counts[byte];
    if (places[items_[0] >> shift & 0xFF] == items_.size()) continue;
    size_t place = 0;
    for (int value = 0; value < 256; ++value) place += std::exchange(places[value], place);
    for (const uint64_t i : items_) other_[places[i >> shift & 0xFF]++] = i;
    items_.swap(other_);
  }
}

void Sampler::find_best() { k_.argmax(scores_.get(), 0, padded_, &best_, &best_at_); }

// Adjusted logits times a factor above 0.
void Sampler::load(const float* logits, int vocab, float factor, const AdjustSpec& adjust) {
  vocab_ = vocab;
  padded_ = (vocab + kLanes - 1) / kLanes * kLanes;
  for (Buffer<float>* row : {&scores_, &weights_, &nearness_}) row->reserve(static_cast<size_t>(padded_));
  k_.scale_row(logits, vocab, factor, adjust.mask, scores_.get());
  for (size_t i = 0; i < adjust.count; ++i) {
    const int id = adjust.ids[i];
    if (adjust.mask && !(adjust.mask[id / 32] >> (id % 32) & 1u)) continue;
    const float old = logits[id];
    const float moved = (old > 0.0f ? old / adjust.divisors[i] : old * adjust.divisors[i]) + adjust.offsets[i];
    scores_.get()[id] = (std::isnan(moved) ? -kInfinity : moved) * factor;
  }
  find_best();
}

// The whole pipeline: scores_ are those of core.sampling.scores.
void Sampler::score(const float* logits, int vocab, const DrawSpec& draw, const AdjustSpec& adjust) {
  load(logits, vocab, draw.greedy() ? 1.0f : draw.inverse_temperature, adjust);
  if (!draw.filters() || !std::isfinite(best_)) return;
  if (draw.top_k > 0) keep_largest(draw.top_k);
  if (draw.top_p < 1.0) keep_share(draw.top_p);
  if (draw.min_p > 0.0f) {
    k_.exp_sum(scores_.get(), padded_, best_, weights_.get());
    k_.drop_light(scores_.get(), weights_.get(), padded_, draw.min_p);
  }
  if (draw.typical_p < 1.0) keep_typical(draw.typical_p);
  if (draw.min_p > 0.0f || draw.typical_p < 1.0) find_best();  // the others keep the best
}

// Drops everything but the first `count` of order_.
void Sampler::keep(size_t count) {
  float* scores = scores_.get();
  kept_.clear();
  for (size_t i = 0; i < count; ++i) kept_.push_back(scores[id_of(order_[i])]);
  std::fill(scores, scores + padded_, -kInfinity);
  for (size_t i = 0; i < count; ++i) scores[id_of(order_[i])] = kept_[i];
}

// order_: the `count` largest values [V] above -inf, or all where there are fewer, in falling order.
void Sampler::largest(const float* values, int vocab, size_t count) {
  constexpr size_t kRoom = 128;  // what is gathered before the bar rises is looked at again
  items_.clear();
  if (count == 0) return order_.clear();
  const size_t room = std::max(2 * count, kRoom);
  ids_.resize(room);
  float bar = -kInfinity;  // a later id with this value comes behind `count` others
  const int whole = vocab / kLanes * kLanes;
  for (int at = 0; at < whole;) {
    int found;
    const int left = static_cast<int>(room - items_.size());
    at = k_.gather(values, at, whole, bar, kInfinity, ids_.data(), left, &found);
    for (int i = 0; i < found; ++i) push(values, ids_[static_cast<size_t>(i)]);
    if (at == whole || items_.size() <= count) continue;
    const auto last = items_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(items_.begin(), last, items_.end());
    bar = values[id_of(*last)];
    items_.resize(count);
  }
  for (int id = whole; id < vocab; ++id)
    if (values[id] > bar) push(values, id);
  std::sort(items_.begin(), items_.end());
  if (items_.size() > count) items_.resize(count);
  order_ = items_;
}

void Sampler::keep_largest(int count) {
  if (count >= vocab_) return;
  largest(scores_.get(), vocab_, static_cast<size_t>(count));
  keep(order_.size());
}

void Sampler::push(const float* values, int id) {
  items_.push_back(static_cast<uint64_t>(falling(values[id])) << 32 | static_cast<uint32_t>(id));
}

// items_: the ids with over < value <= upto, by falling value, equal ones by rising id.
void Sampler::band(const float* values, float over, float upto) {
  ids_.resize(static_cast<size_t>(padded_ + kLanes));
  int found;
  k_.gather(values, 0, padded_, over, upto, ids_.data(), padded_ + kLanes, &found);
  items_.clear();
  for (int i = 0; i < found; ++i) push(values, ids_[static_cast<size_t>(i)]);
  sort_items();
}

// Where items of a band are equal, those of higher score come first.
void Sampler::settle_ties() {
  const float* scores = scores_.get();
  const auto higher = [scores](uint64_t a, uint64_t b) { return scores[id_of(a)] > scores[id_of(b)]; };
  for (auto begin = items_.begin(); begin != items_.end();) {
    const auto end = std::find_if(begin, items_.end(), [begin](uint64_t i) { return i >> 32 != *begin >> 32; });
    if (end - begin > 1) std::stable_sort(begin, end, higher);
    begin = end;
  }
}

// The likeliest ids until they hold a share of the weight.
void Sampler::keep_share(double share) {
  const double target = share * static_cast<double>(k_.exp_sum(scores_.get(), padded_, best_, weights_.get()));
  double reached = 0.0;
  order_.clear();
  float upto = kInfinity;
  for (float width = 2.0f; upto > -kInfinity; width = next_band(width, 2.0f)) {
    const float over = best_ - width;
    band(scores_.get(), over, upto);
    for (const uint64_t i : items_) {
      order_.push_back(i);
      reached += static_cast<double>(weights_.get()[id_of(i)]);
      if (reached >= target) return keep(order_.size());
    }
    upto = over;
  }
  // the two sums round differently: a share near 1 may never be reached, and then all stay
}

// The ids whose surprise is nearest the entropy until they hold a share of the weight (Meister et al. 2202.00666).
void Sampler::keep_typical(double share) {
  const float* weights = weights_.get();
  const float total = k_.exp_sum(scores_.get(), padded_, best_, weights_.get());
  const double target = share * static_cast<double>(total);
  const float mean = k_.distance_sum(scores_.get(), weights, padded_, best_) / total;
  k_.nearness(scores_.get(), weights, padded_, best_, mean, nearness_.get());
  double reached = 0.0;
  order_.clear();
  float upto = kInfinity;
  for (float width = 0.5f; upto > -kInfinity; width = next_band(width, 0.5f)) {
    const float over = -width;
    band(nearness_.get(), over, upto);
    settle_ties();
    for (const uint64_t i : items_) {
      order_.push_back(i);
      reached += static_cast<double>(weights[id_of(i)]);
      if (reached >= target) return keep(order_.size());
    }
    upto = over;
  }
}

int Sampler::token(const float* logits, int vocab, int largest, const DrawSpec& draw, uint32_t position,
                   const AdjustSpec& adjust) {
  const DrawKey key{draw.seed, position, draw.sample, 0};
  const bool plain = !draw.filters() && adjust.count == 0 && !adjust.mask;
  if (!plain) score(logits, vocab, draw, adjust);
  int token = plain ? largest : best_at_;
  if (draw.greedy()) return token;
  if (plain)
    k_.draw(logits, vocab, draw.inverse_temperature, key, token, &token);
  else
    k_.draw(scores_.get(), vocab, 1.0f, key, token, &token);
  return token;
}

int Sampler::place(const float* logits, const int32_t* ids, int count, int largest, const DrawSpec& draw, uint32_t position) {
  if (draw.greedy()) return largest;
  const DrawKey key{draw.seed, position, draw.sample, 0};
  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  int place = largest;
  if (!draw.filters()) {
    k_.draw_ids(logits, ids, padded, draw.inverse_temperature, key, largest, &place);
  } else {
    score(logits, count, draw, {});
    k_.draw_ids(scores_.get(), ids, padded, 1.0f, key, best_at_, &place);
  }
  return place;
}

std::vector<std::pair<int, float>> Sampler::likely(const float* logits, int count, float factor, int width) {
  load(logits, count, factor, {});
  std::vector<std::pair<int, float>> found;
  if (!std::isfinite(best_)) return found;
  const float total = k_.exp_sum(scores_.get(), padded_, best_, weights_.get());
  if (width == 1) return {{best_at_, 1.0f / total}};
  largest(scores_.get(), count, static_cast<size_t>(width));
  found.reserve(order_.size());
  for (const uint64_t i : order_) found.emplace_back(id_of(i), weights_.get()[id_of(i)] / total);
  return found;
}

void Sampler::law(const float* logits, int vocab, const DrawSpec& draw, const AdjustSpec& adjust, float* out) {
  score(logits, vocab, draw, adjust);
  const size_t bytes = static_cast<size_t>(vocab) * sizeof(float);
  if (draw.greedy() || !std::isfinite(best_)) {
    std::memset(out, 0, bytes);
    out[best_at_] = 1.0f;
    return;
  }
  const float total = k_.exp_sum(scores_.get(), padded_, best_, weights_.get());
  k_.divide(weights_.get(), padded_, total);
  std::memcpy(out, weights_.get(), bytes);
}

Logprobs Sampler::logprobs(const float* logits, int vocab, int chosen, int top, const DrawSpec* draw,
                           const AdjustSpec& adjust) {
  if (draw)
    score(logits, vocab, *draw, adjust);
  else
    load(logits, vocab, 1.0f, {});
  float* scores = scores_.get();
  if (!std::isfinite(best_) || (draw && draw->greedy())) {
    std::fill(scores, scores + padded_, -kInfinity);
    scores[best_at_] = best_ = 0.0f;
  }
  const float sum = k_.log_of(k_.exp_sum(scores, padded_, best_, weights_.get()));
  const auto value = [&](int id) { return (scores[id] - best_) - sum; };
  Logprobs found;
  found.chosen = value(chosen);
  const size_t count = static_cast<size_t>(std::min(top, vocab));
  largest(scores, vocab, count);
  for (const uint64_t i : order_) found.top.emplace_back(id_of(i), value(id_of(i)));
  for (int id = 0; found.top.size() < count; ++id)  // then what is impossible, lowest ids first
    if (scores[id] == -kInfinity) found.top.emplace_back(id, -kInfinity);
  return found;
}

std::vector<int> Sampler::top(const float* logits, int vocab, int count) {
  std::vector<int> ids;
  const size_t least = static_cast<size_t>(std::min(count, vocab));
  ids.reserve(least);
  largest(logits, vocab, least);
  for (const uint64_t i : order_) ids.push_back(id_of(i));
  for (int id = 0; ids.size() < least; ++id)  // then -inf and NaN, lowest ids first
    if (!(logits[id] > -kInfinity)) ids.push_back(id);
  return ids;
}

SamplerPool::Lease::Lease(SamplerPool& pool) : pool_(pool) {
  const std::lock_guard<std::mutex> hold(pool.mutex_);
  if (pool.idle_.empty()) {
    pool.idle_.reserve(++pool.made_);  // so that giving it back cannot fail
    sampler_ = std::make_unique<Sampler>(pool.kernels_);
  } else {
    sampler_ = std::move(pool.idle_.back());
    pool.idle_.pop_back();
  }
}

SamplerPool::Lease::~Lease() {
  const std::lock_guard<std::mutex> hold(pool_.mutex_);
  pool_.idle_.push_back(std::move(sampler_));
}

}  // namespace outrider
