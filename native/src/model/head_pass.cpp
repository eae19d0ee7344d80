// Threads meet at barriers between the phases; each writes only what is its own.
#include "head_pass.h"

#include <cmath>
#include <cstring>

namespace outrider {

HeadPass::HeadPass(Head& head, const Model& target, const RopeTable& rope, const Kernels& kernels, int threads)
    : head_(head),
      c_(head.c_),
      w_(head.w_),
      target_(target),
      rope_(rope),
      k_(kernels),
      pool_(Pool::shared()),
      threads_(threads),
      h_(c_.hidden),
      wide_((c_.heads + 2 * c_.kv_heads) * c_.head_dim),
      stride_(head.w_.head.panels * kLanes) {
  const int group = c_.chain ? c_.heads / c_.kv_heads : 0, taps = static_cast<int>(c_.taps.size());
  x_.reserve(at(kRows, h_));
  for (int t = 0; t < threads_; ++t) {
    Space& s = *spaces_.emplace_back(std::make_unique<Space>());
    s.normed.shape(kRows, h_);
    s.row.reserve(static_cast<size_t>(std::max(h_, c_.head_dim)));
    if (!c_.chain) continue;
    s.fused.shape(kRows, taps * h_);
    s.read.shape(kRows, 2 * h_);
    s.mixed.shape(kRows, c_.heads * c_.head_dim);
    s.weights.reserve(static_cast<size_t>(group) * kChunk);
    s.out.reserve(at(group, c_.head_dim));
    s.top.reserve(static_cast<size_t>(group));
    s.sum.reserve(static_cast<size_t>(group));
    s.element.reserve(at(c_.head_dim, static_cast<int>(head_.layout_.element)));
  }
  if (c_.chain) {
    features_.reserve(at(kRows, h_));
    qkv_.reserve(at(kRows, wide_));
    up_.reserve(at(kRows, c_.feed_forward));
    down_.shape(kRows, c_.feed_forward);
  } else {
    qkv_.reserve(at(kRows, h_));
    down_.shape(kRows * c_.depth, h_);
    ones_.reserve(static_cast<size_t>(h_));
    std::fill(ones_.get(), ones_.get() + h_, 1.0f);
  }
}

void HeadPass::begin(std::vector<HeadRow> rows, int finals, int scored) {
  rows_ = std::move(rows);
  finals_ = finals;
  chunks_ = 0;
  for (int r = 0; r < finals; ++r) chunks_ = std::max(chunks_, rows_[static_cast<size_t>(r)].position / kChunk + 1);
  const size_t parts = static_cast<size_t>(finals * c_.heads * chunks_);
  part_out_.reserve(parts * static_cast<size_t>(c_.head_dim));
  part_top_.reserve(parts);
  part_sum_.reserve(parts);
  logits_.reserve(at(scored, stride_));
  best_.assign(static_cast<size_t>(threads_ * scored), 0.0f);
  best_at_.assign(best_.size(), 0);
  largest_.assign(static_cast<size_t>(scored), 0);
  waiting_.clear();
  for (size_t r = 0; r < rows_.size(); ++r)
    if (rows_[r].position >= rows_[r].track->fused) waiting_.push_back(static_cast<int>(r));
}

void HeadPass::finish(int scored) {
  const size_t count = static_cast<size_t>(scored);
  for (size_t r = 0; r < count; ++r) {
    size_t best = r;
    for (size_t i = r; i < best_.size(); i += count)  // threads hold ascending ids: a tie keeps the lowest
      if (best_[i] > best_[best]) best = i;
    largest_[r] = best_at_[best];
  }
}

void HeadPass::read(std::vector<HeadRow> rows, int finals) {
  begin(std::move(rows), finals, finals);
  pool_.run(threads_, [this](int index, int threads) { work_read(index, threads); });
  finish(finals);
}

void HeadPass::step(std::vector<HeadRow> rows) {
  const int count = static_cast<int>(rows.size());
  begin(std::move(rows), count, count);
  pool_.run(threads_, [this](int index, int threads) { work_step(index, threads); });
  finish(count);
}

void HeadPass::guess(std::vector<HeadRow> rows, int steps) {
  const int count = static_cast<int>(rows.size());
  begin(std::move(rows), count, count * steps);
  pool_.run(threads_, [this, steps](int index, int threads) { work_guess(index, threads, steps); });
  finish(count * steps);
}

void HeadPass::work_read(int index, int threads) {
  gather(index, threads);
  pool_.barrier();
  if (!c_.chain) return;
  project(index, threads);
  if (finals_ > 0) decode(index, threads);
}

void HeadPass::work_step(int index, int threads) {
  project(index, threads);
  decode(index, threads);
}

void HeadPass::decode(int index, int threads) {
  pool_.barrier();
  attend(index, threads);
  pool_.barrier();
  mix(index, threads);
  pool_.barrier();
  feed_forward(index, threads);
  pool_.barrier();
  const Input& in = space(index).normed;
  for (int r = 0; r < finals_; ++r) {
    k_.rms_norm(x(r), w_.out_norm, c_.norm_eps, h_, in.row(r));
    if (is_quantised(w_.head.format)) in.quantise(k_, r, 0, h_);
  }
  score(index, threads, in, finals_);
}

// Every row's feature into x, from the waiting states or from the blocks; each thread its own columns, or rows.
void HeadPass::gather(int index, int threads) {
  Space& s = space(index);
  const size_t taps = c_.taps.size();
  const auto states = [&](const HeadRow& r) { return r.track->states.data() + static_cast<size_t>(r.position - r.track->first) * taps * static_cast<size_t>(h_); };
  const int count = static_cast<int>(waiting_.size()), rows = static_cast<int>(rows_.size());
  const int begin = share(h_ / kLanes, index, threads), end = share(h_ / kLanes, index + 1, threads);
  const size_t from = static_cast<size_t>(begin * kLanes), bytes = static_cast<size_t>((end - begin) * kLanes) * sizeof(float);
  for (int r = 0; r < rows; ++r) {
    const HeadRow& row = rows_[static_cast<size_t>(r)];
    if (row.position < row.track->fused) std::memcpy(x(r) + from, head_.feature(*row.track, row.position) + from, bytes);
  }
  if (!c_.chain) {
    for (int i = index; i < count; i += threads) {
      const HeadRow& row = rows_[static_cast<size_t>(waiting_[static_cast<size_t>(i)])];
      k_.rms_norm(states(row), w_.tap_norm, c_.norm_eps, h_, x(waiting_[static_cast<size_t>(i)]));
      std::memcpy(head_.feature(*row.track, row.position), x(waiting_[static_cast<size_t>(i)]), static_cast<size_t>(h_) * sizeof(float));
    }
    return;
  }
  for (int i = 0; i < count; ++i) {
    const float* from_state = states(rows_[static_cast<size_t>(waiting_[static_cast<size_t>(i)])]);
    for (size_t t = 0; t < taps; ++t) {
      const size_t tap = t * static_cast<size_t>(h_);
      k_.rms_norm(from_state + tap, w_.tap_norm + tap, c_.norm_eps, h_, s.fused.row(i) + tap);
    }
    if (is_quantised(w_.fc.format)) s.fused.quantise(k_, i, 0, s.fused.cols);
  }
  linear(w_.fc, s.fused, begin, end, features_.get(), h_, count);
  for (int i = 0; i < count; ++i) {
    const int r = waiting_[static_cast<size_t>(i)];
    const HeadRow& row = rows_[static_cast<size_t>(r)];
    const float* own = features_.get() + at(i, h_) + from;
    std::memcpy(x(r) + from, own, bytes);
    std::memcpy(head_.feature(*row.track, row.position) + from, own, bytes);
  }
}

// Keys and values of all rows, queries of those that attend.
void HeadPass::project(int index, int threads) {
  Space& s = space(index);
  const int rows = static_cast<int>(rows_.size());
  const bool codes = is_quantised(w_.q.format) || is_quantised(w_.k.format) || is_quantised(w_.v.format);
  for (int r = 0; r < rows; ++r) {
    k_.dequant_row(target_.embedding, rows_[static_cast<size_t>(r)].token, s.row.get());
    k_.rms_norm(s.row.get(), w_.embed_norm, c_.norm_eps, h_, s.read.row(r));
    k_.rms_norm(x(r), w_.state_norm, c_.norm_eps, h_, s.read.row(r) + h_);
    if (codes) s.read.quantise(k_, r, 0, 2 * h_);
  }
  const int total = w_.q.panels + w_.k.panels + w_.v.panels, begin = share(total, index, threads), end = share(total, index + 1, threads);
  int first = 0;
  for (const Packed* m : {&w_.q, &w_.k, &w_.v}) {
    const int from = std::max(begin - first, 0), to = std::min(end - first, m->panels);
    linear(*m, s.read, from, to, qkv_.get() + first * kLanes, wide_, m == &w_.q ? finals_ : rows);
    first += m->panels;
  }
  place(s, begin * kLanes, end * kLanes);
}

// Columns [begin, end) of the projections, whole panels: rotated, rounded to the cache type, put where rows read them.
void HeadPass::place(Space& s, int begin, int end) {
  const int d = c_.head_dim, q = c_.heads * d, kv = c_.kv_heads * d;
  const CacheLayout& l = head_.layout_;
  const float factor = 1.0f / std::sqrt(static_cast<float>(d));
  for (int r = 0; r < static_cast<int>(rows_.size()); ++r) {
    const HeadRow& row = rows_[static_cast<size_t>(r)];
    const float *cosines = rope_.cosines(row.position), *sines = rope_.sines(row.position);
    uint8_t* block = row.track->table.block(row.position);
    for (int i = begin; i < end;) {
      const int in = i % d, n = std::min(d - in, end - i), part = i < q ? 0 : i < q + kv ? 1 : 2;
      float* own = qkv_.get() + at(r, wide_) + i;
      if (part == 0 && r < finals_) k_.rope(own, cosines + in, sines + in, factor, n, own);
      if (part > 0) {
        const int head = (i - q) % kv / d;
        if (part == 1) k_.rope(own, cosines + in, sines + in, 1.0f, n, own);
        const uint8_t* elements = reinterpret_cast<const uint8_t*>(own);
        if (l.element == 2) k_.round_to_f16(own, n, reinterpret_cast<uint16_t*>(s.element.get())), elements = s.element.get();
        if (part == 1) write_key(l, block + l.keys_at(0, head), row.position, in, n, elements);
        else std::memcpy(block + l.values_at(0, head) + l.value_offset(row.position) + static_cast<size_t>(in) * l.element, elements, static_cast<size_t>(n) * l.element);
      }
      i += n;
    }
  }
}

// A unit is a chunk of positions for one key head of one row; units go round the threads.
void HeadPass::attend(int index, int threads) {
  int unit = 0;
  for (int r = 0; r < finals_; ++r) {
    const HeadRow& row = rows_[static_cast<size_t>(r)];
    for (int head = 0; head < c_.kv_heads; ++head)
      for (int chunk = 0; chunk <= row.position / kChunk; ++chunk)
        if (unit++ % threads == index) attend_chunk(space(index), row, r, head, chunk);
  }
}

void HeadPass::attend_chunk(Space& s, const HeadRow& row, int r, int head, int chunk) {
  const int d = c_.head_dim, group = c_.heads / c_.kv_heads, end = static_cast<int>(row.track->table.blocks()) * kCacheBlock;
  const CacheLayout& l = head_.layout_;
  const void *keys[kChunkGroups] = {}, *values[kChunkGroups] = {};
  for (int g = 0; g < kChunkGroups && chunk * kChunk + g * kLanes < end; ++g) {
    const int position = chunk * kChunk + g * kLanes;
    const size_t inside = static_cast<size_t>(position % kCacheBlock / kLanes) * static_cast<size_t>(kLanes * d) * l.element;
    keys[g] = row.track->table.block(position) + l.keys_at(0, head) + inside;
    values[g] = row.track->table.block(position) + l.values_at(0, head) + inside;
  }
  const float* query[kMaxGroup];
  int visible[kMaxGroup];
  for (int g = 0; g < group; ++g) {
    query[g] = qkv_.get() + at(r, wide_) + (head * group + g) * d;
    visible[g] = std::min(kChunk, row.position - chunk * kChunk + 1);
  }
  k_.attend({group, d, query, visible, keys, values, s.weights.get(), s.top.get(), s.sum.get(), s.out.get()}, target_.cache_type);
  for (int g = 0; g < group; ++g) {
    const size_t place = part(r, head * group + g, chunk);
    part_top_.get()[place] = s.top.get()[g];
    part_sum_.get()[place] = s.sum.get()[g];
    std::memcpy(part_out_.get() + place * static_cast<size_t>(d), s.out.get() + g * d, static_cast<size_t>(d) * sizeof(float));
  }
}

void HeadPass::mix(int index, int threads) {
  Space& s = space(index);
  const int d = c_.head_dim;
  for (int r = 0; r < finals_; ++r) {
    const int chunks = rows_[static_cast<size_t>(r)].position / kChunk + 1;
    for (int head = 0; head < c_.heads; ++head) {
      const size_t first = part(r, head, 0);
      float top = part_top_.get()[first], sum = part_sum_.get()[first];
      std::memcpy(s.row.get(), part_out_.get() + first * static_cast<size_t>(d), static_cast<size_t>(d) * sizeof(float));
      for (size_t c = first + 1; c < first + static_cast<size_t>(chunks); ++c)
        k_.merge(&top, &sum, s.row.get(), part_top_.get()[c], part_sum_.get()[c], part_out_.get() + c * static_cast<size_t>(d), d);
      k_.finish(s.row.get(), sum, d, s.mixed.row(r) + head * d);
    }
    if (is_quantised(w_.o.format)) s.mixed.quantise(k_, r, 0, s.mixed.cols);
  }
  linear_add(w_.o, s.mixed, share(w_.o.panels, index, threads), share(w_.o.panels, index + 1, threads), x_.get(), h_, finals_);
}

void HeadPass::feed_forward(int index, int threads) {
  Space& s = space(index);
  const bool codes = is_quantised(w_.gate.format) || is_quantised(w_.up.format);
  for (int r = 0; r < finals_; ++r) {
    k_.rms_norm(x(r), w_.ffn_norm, c_.norm_eps, h_, s.normed.row(r));
    if (codes) s.normed.quantise(k_, r, 0, h_);
  }
  const int ff = c_.feed_forward, units = ff / kBlock;  // whole blocks, so that each thread quantises its own columns
  const int begin = share(units, index, threads) * kBlock, end = share(units, index + 1, threads) * kBlock;
  linear(w_.gate, s.normed, begin / kLanes, end / kLanes, down_.x.get(), ff, finals_);
  linear(w_.up, s.normed, begin / kLanes, end / kLanes, up_.get(), ff, finals_);
  for (int r = 0; r < finals_ && begin < end; ++r) {
    k_.silu_mul(down_.row(r) + begin, up_.get() + at(r, ff) + begin, end - begin);
    if (is_quantised(w_.down.format)) down_.quantise(k_, r, begin, end);
  }
  pool_.barrier();
  linear_add(w_.down, down_, share(w_.down.panels, index, threads), share(w_.down.panels, index + 1, threads), x_.get(), h_, finals_);
}

// Medusa: r_k = u + silu(W_k u), then the shared head over all of them at once.
void HeadPass::work_guess(int index, int threads, int steps) {
  gather(index, threads);
  pool_.barrier();
  Space& s = space(index);
  bool codes = false;
  for (const Packed& m : w_.blocks) codes = codes || is_quantised(m.format);
  for (int r = 0; r < finals_; ++r) {
    std::memcpy(s.normed.row(r), x(r), static_cast<size_t>(h_) * sizeof(float));
    if (codes) s.normed.quantise(k_, r, 0, h_);
  }
  const int begin = share(h_ / kBlock, index, threads) * kBlock, end = share(h_ / kBlock, index + 1, threads) * kBlock;
  for (int step = 0; step < steps && begin < end; ++step) {
    linear(w_.blocks[static_cast<size_t>(step)], s.normed, begin / kLanes, end / kLanes, qkv_.get(), h_, finals_);
    for (int r = 0; r < finals_; ++r) {
      float *bent = qkv_.get() + at(r, h_), *out = down_.row(step * finals_ + r);
      k_.silu_mul(bent + begin, ones_.get() + begin, end - begin);
      for (int i = begin; i < end; ++i) out[i] = x(r)[i] + bent[i];
      if (is_quantised(w_.head.format)) down_.quantise(k_, step * finals_ + r, begin, end);
    }
  }
  pool_.barrier();
  score(index, threads, down_, steps * finals_);
}

void HeadPass::score(int index, int threads, const Input& in, int count) {
  const int begin = share(w_.head.panels, index, threads), end = share(w_.head.panels, index + 1, threads);
  linear(w_.head, in, begin, end, logits_.get(), stride_, count);
  for (int i = 0; i < count; ++i) {
    float* row = logits_.get() + at(i, stride_);
    // entries behind the last id are nobody's
    std::fill(row + std::clamp(c_.draft_vocab, begin * kLanes, end * kLanes), row + end * kLanes, -INFINITY);
    const size_t best = static_cast<size_t>(index * count + i);
    k_.argmax(row, std::min(begin * kLanes, c_.draft_vocab), std::min(end * kLanes, c_.draft_vocab), &best_[best], &best_at_[best]);
  }
}

void HeadPass::linear(const Packed& m, const Input& in, int begin, int end, float* out, int stride, int rows) const {
  if (begin >= end || rows == 0) return;
  if (is_quantised(m.format)) return k_.quant_linear(m, in.rows(), rows, begin, end, out, static_cast<size_t>(stride));
  k_.float_linear(m, in.x.get(), rows, begin, end, out, static_cast<size_t>(stride));
}

void HeadPass::linear_add(const Packed& m, const Input& in, int begin, int end, float* out, int stride, int rows) const {
  if (begin >= end || rows == 0) return;
  if (is_quantised(m.format)) return k_.quant_linear_add(m, in.rows(), rows, begin, end, out, static_cast<size_t>(stride));
  k_.float_linear_add(m, in.x.get(), rows, begin, end, out, static_cast<size_t>(stride));
}

}  // namespace outrider
