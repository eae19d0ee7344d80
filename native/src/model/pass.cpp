// The phases of a pass. Threads meet at barriers between them; each writes only what is its own.
#include "pass.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace outrider {
namespace {

size_t at(int row, int stride) { return static_cast<size_t>(row) * static_cast<size_t>(stride); }

}  // namespace

void Input::shape(int rows, int columns) {
  const size_t padded = static_cast<size_t>((rows + kMaxTile - 1) / kMaxTile * kMaxTile);
  const size_t blocks = static_cast<size_t>(columns / kBlock);
  cols = columns;
  x.reserve(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  q.reserve(padded * blocks * kBlock);
  scale.reserve(padded * blocks);
  scaled.reserve(padded * blocks);
  neg8.reserve(padded * blocks);
  neg128.reserve(padded * blocks);
}

void Input::quantise(const Kernels& k, int r, int begin, int end) const {
  const size_t blocks = static_cast<size_t>(cols / kBlock), rr = static_cast<size_t>(r);
  const size_t place = (rr / kMaxTile * blocks + static_cast<size_t>(begin / kBlock)) * kMaxTile + rr % kMaxTile;
  k.quantise(row(r) + begin, end - begin, q.get() + place * kBlock, scale.get() + place, scaled.get() + place,
             neg8.get() + place, neg128.get() + place);
}

Pass::Pass(const Model& model, const CacheLayout& layout, const RopeTable& rope, const Kernels& kernels, int threads,
           Workspace& workspace, std::vector<PassItem> items, std::vector<int> taps)
    : model_(model),
      c_(model.config),
      layout_(layout),
      rope_(rope),
      k_(kernels),
      pool_(Pool::shared()),
      threads_(threads),
      w_(workspace),
      items_(std::move(items)),
      group_(c_.heads / c_.kv_heads),
      next_unit_(static_cast<size_t>(c_.layers * threads)),
      scores_(std::make_shared<Scores>()) {
  scores_->states.layers = std::move(taps);
  std::sort(scores_->states.layers.begin(), scores_->states.layers.end());
  scores_->states.hidden = c_.hidden;
}

void Pass::lay_out() {
  int most_rows = 0;
  for (PassItem& item : items_) {
    const std::vector<Row>& rows = item.sequence->rows;
    Scores::Item out;
    out.draw = item.request->draw;
    if (item.keep_states) out.first_state = static_cast<int>(kept_.size());
    item.first_row = rows_;
    for (size_t r = 0; r < rows.size(); ++r) {
      const int want = item.request->want[r];
      row_.push_back(&rows[r]);
      of_.push_back(&item);
      item.chunks = std::max(item.chunks, rows[r].position / kChunk + 1);
      out.want.push_back(want);
      out.position.push_back(rows[r].position);
      out.slot.push_back(want == kNone ? -1 : static_cast<int>(wanted_.size()));
      if (want != kNone) wanted_.push_back(rows_);
      if (item.keep_states) kept_.push_back(rows_);
      ++rows_;
    }
    most_rows = std::max(most_rows, static_cast<int>(rows.size()));
    scores_->items.push_back(std::move(out));
  }
  by_chunk_ = most_rows <= kChunkRows;
  size_t parts = 0;
  for (PassItem& item : items_) {
    item.first_part = parts;
    parts += item.sequence->rows.size() * static_cast<size_t>(c_.heads * (by_chunk_ ? item.chunks : 1));
  }
  make_room(parts);
}

void Pass::make_room(size_t parts) {
  const int q = c_.heads * c_.head_dim;
  w_.x.reserve(at(rows_, c_.hidden));
  w_.qkv.reserve(at(rows_, wide()));
  w_.up.reserve(at(rows_, c_.feed_forward));
  w_.part_out.reserve(parts * static_cast<size_t>(c_.head_dim));
  w_.part_top.reserve(parts);
  w_.part_sum.reserve(parts);
  if (!local()) w_.normed.shape(rows_, c_.hidden), w_.mixed.shape(rows_, q);
  w_.down.shape(rows_, c_.feed_forward);
  while (static_cast<int>(w_.threads.size()) < threads_) w_.threads.push_back(std::make_unique<ThreadSpace>());
  const size_t queries = static_cast<size_t>((by_chunk_ ? kChunkRows : kRowTile) * group_), d = static_cast<size_t>(c_.head_dim);
  for (int t = 0; t < threads_; ++t) {
    ThreadSpace& s = *w_.threads[static_cast<size_t>(t)];
    if (local()) s.normed.shape(kLocalRows, c_.hidden), s.mixed.shape(kLocalRows, q);
    s.weights.reserve(queries * kChunk);
    s.out.reserve(queries * d);
    s.top.reserve(queries);
    s.sum.reserve(queries);
    s.row.reserve(d);
    s.element.reserve(layout_.side_bytes());
    s.patches.reserve(2 * kChunk * d * layout_.element);
  }
}

std::shared_ptr<Scores> Pass::run(PhaseSeconds* phases) {
  clock_.start(phases);
  lay_out();
  plan_units();
  if (!kept_.empty()) {  // those of an earlier pass may wait for their commit
    if (!w_.states || w_.states.use_count() > 1) w_.states = std::make_shared<Buffer<float>>();
    w_.states->reserve(kept_.size() * scores_->states.row_size());
    scores_->states.values = w_.states;
  }
  scores_->vocab = c_.vocab;
  scores_->samplers = w_.samplers;
  scores_->stride = static_cast<size_t>(model_.head.panels * kLanes);
  scores_->tokens.assign(wanted_.size(), -1);
  scores_->largest.assign(wanted_.size(), 0);
  if (!wanted_.empty()) {
    // a view of an earlier pass's logits may still be held: then that memory is left to it
    if (!w_.logits || w_.logits.use_count() > 1) w_.logits = std::make_shared<Buffer<float>>();
    w_.logits->reserve(wanted_.size() * scores_->stride);
    scores_->values = w_.logits;
    best_.assign(static_cast<size_t>(threads_) * wanted_.size(), 0.0f);
    best_at_.assign(best_.size(), 0);
  }
  pool_.run(threads_, [this](int index, int threads) { work(index, threads); });
  clock_.mark(0, &PhaseSeconds::head);
  for (const Scores::Item& item : scores_->items)
    for (int slot : item.slot) {
      if (slot < 0) continue;
      size_t best = static_cast<size_t>(slot);
      for (size_t i = best; i < best_.size(); i += wanted_.size())  // threads hold ascending ids: a tie keeps the lowest
        if (best_[i] > best_[best]) best = i;
      scores_->largest[static_cast<size_t>(slot)] = best_at_[best];
      if (item.draw.greedy()) scores_->tokens[static_cast<size_t>(slot)] = best_at_[best];
    }
  return scores_;
}

void Pass::work(int index, int threads) {
  embed(index, threads);
  pool_.barrier();
  clock_.mark(index, &PhaseSeconds::other);
  for (int i = 0; i < c_.layers; ++i) {
    const Layer& layer = model_.layers[static_cast<size_t>(i)];
    if (!kept_.empty()) keep_states(index, threads, i);
    const bool q_codes = is_quantised(layer.q.format) || is_quantised(layer.k.format) || is_quantised(layer.v.format);
    const Input& normed = norm_input(index, threads, layer.attn_norm, nullptr, q_codes);
    clock_.mark(index, &PhaseSeconds::other);
    project(index, threads, i, normed);
    pool_.barrier();
    clock_.mark(index, &PhaseSeconds::linear);
    attend(index, threads, i);
    pool_.barrier();
    const Input& mixed = attention_input(index, threads, layer);
    clock_.mark(index, &PhaseSeconds::attention);
    const int panels = layer.o.panels;
    linear_add(layer.o, mixed, share(panels, index, threads), share(panels, index + 1, threads), w_.x.get(), c_.hidden, rows_);
    fetch(layer.gate, forward_columns(index, threads).first / kLanes);
    pool_.barrier();
    clock_.mark(index, &PhaseSeconds::linear);
    const bool f_codes = is_quantised(layer.gate.format) || is_quantised(layer.up.format);
    const Input& again = norm_input(index, threads, layer.ffn_norm, nullptr, f_codes);
    clock_.mark(index, &PhaseSeconds::other);
    feed_forward(index, threads, layer, again);
    const bool last = i + 1 == c_.layers;
    const Packed& next = last ? model_.head : model_.layers[static_cast<size_t>(i) + 1].q;
    fetch(next, share(last ? next.panels : qkv_panels(i + 1), index, threads));
    pool_.barrier();
    clock_.mark(index, &PhaseSeconds::linear);
  }
  if (!kept_.empty()) keep_states(index, threads, c_.layers);
  if (!wanted_.empty()) score(index, threads);
}

// Copies a tapped state; x changes next behind a barrier, when every thread has its own inputs.
void Pass::keep_states(int index, int threads, int layer) {
  const States& states = scores_->states;
  const size_t h = static_cast<size_t>(c_.hidden);
  for (size_t tap = 0; tap < states.layers.size(); ++tap) {
    if (states.layers[tap] != layer) continue;
    const int count = static_cast<int>(kept_.size());
    for (size_t r = static_cast<size_t>(share(count, index, threads)); r < static_cast<size_t>(share(count, index + 1, threads)); ++r)
      std::memcpy(states.values->get() + r * states.row_size() + tap * h, w_.x.get() + at(kept_[r], c_.hidden), h * sizeof(float));
  }
}

void Pass::embed(int index, int threads) {
  for (int r = share(rows_, index, threads); r < share(rows_, index + 1, threads); ++r)
    k_.dequant_row(model_.embedding, row_[static_cast<size_t>(r)]->token, w_.x.get() + at(r, c_.hidden));
}

std::pair<int, int> Pass::own_rows(int index, int threads, int count) const {
  if (local()) return {0, count};
  const int tiles = (count + kMaxTile - 1) / kMaxTile;
  return {share(tiles, index, threads) * kMaxTile, std::min(count, share(tiles, index + 1, threads) * kMaxTile)};
}

// The normed rows (all, or the listed ones) as a matrix's input. With few rows every thread makes its own copy.
const Input& Pass::norm_input(int index, int threads, const float* weight, const std::vector<int>* rows, bool codes) {
  const int count = rows ? static_cast<int>(rows->size()) : rows_;
  const Input& in = local() ? w_.threads[static_cast<size_t>(index)]->normed : w_.normed;
  const auto [begin, end] = own_rows(index, threads, count);
  for (int r = begin; r < end; ++r) {
    const int from = rows ? (*rows)[static_cast<size_t>(r)] : r;
    k_.rms_norm(w_.x.get() + at(from, c_.hidden), weight, c_.norm_eps, c_.hidden, in.row(r));
    if (codes) in.quantise(k_, r, 0, c_.hidden);
  }
  if (!local()) pool_.barrier();
  return in;
}

void Pass::linear(const Packed& m, const Input& in, int begin, int end, float* out, int stride, int rows) const {
  if (begin >= end) return;
  if (is_quantised(m.format)) return k_.quant_linear(m, in.rows(), rows, begin, end, out, static_cast<size_t>(stride));
  k_.float_linear(m, in.x.get(), rows, begin, end, out, static_cast<size_t>(stride));
}

void Pass::linear_add(const Packed& m, const Input& in, int begin, int end, float* out, int stride, int rows) const {
  if (begin >= end) return;
  if (is_quantised(m.format)) return k_.quant_linear_add(m, in.rows(), rows, begin, end, out, static_cast<size_t>(stride));
  k_.float_linear_add(m, in.x.get(), rows, begin, end, out, static_cast<size_t>(stride));
}

// Brings the first lines of the matrix that comes next, from this panel on; further ones the kernels fetch in time.
void Pass::fetch(const Packed& m, int begin) const {
  if (!by_chunk_) return;  // with many rows arithmetic sets the pace
  const size_t from = static_cast<size_t>(begin) * m.panel_bytes, end = static_cast<size_t>(m.panels) * m.panel_bytes;
  for (size_t at = from; at < std::min(from + kFetchAhead, end); at += kLine) __builtin_prefetch(m.data + at, 0, 2);
}

// A thread's columns of the feed-forward layer: whole blocks, so that it quantises its own.
std::pair<int, int> Pass::forward_columns(int index, int threads) const {
  const int units = c_.feed_forward / kBlock;
  return {share(units, index, threads) * kBlock, share(units, index + 1, threads) * kBlock};
}

// Queries, keys and values; each thread also rotates and places what it computed, so that attention only reads.
void Pass::project(int index, int threads, int number, const Input& in) {
  const Layer& layer = model_.layers[static_cast<size_t>(number)];
  const int total = qkv_panels(number), begin = share(total, index, threads), end = share(total, index + 1, threads);
  int first = 0;
  for (const Packed* m : {&layer.q, &layer.k, &layer.v}) {
    const int from = std::max(begin - first, 0), to = std::min(end - first, m->panels);
    linear(*m, in, from, to, w_.qkv.get() + first * kLanes, wide(), rows_);
    first += m->panels;
  }
  clock_.mark(index, &PhaseSeconds::linear);
  place_projections(*w_.threads[static_cast<size_t>(index)], begin * kLanes, end * kLanes, number);
  clock_.mark(index, &PhaseSeconds::other);
}

// The heads' outputs, chunks merged in order, as the input of the output projection.
const Input& Pass::attention_input(int index, int threads, const Layer& layer) {
  const int d = c_.head_dim, q = c_.heads * d;
  ThreadSpace& space = *w_.threads[static_cast<size_t>(index)];
  const Input& in = local() ? space.mixed : w_.mixed;
  const auto [begin, end] = own_rows(index, threads, rows_);
  for (int r = begin; r < end; ++r) {
    const PassItem& item = *of_[static_cast<size_t>(r)];
    const int chunks = by_chunk_ ? row_[static_cast<size_t>(r)]->position / kChunk + 1 : 1;
    for (int h = 0; h < c_.heads; ++h) {
      const size_t part = this->part(item, r - item.first_row, h, 0);
      float top = w_.part_top.get()[part], sum = w_.part_sum.get()[part];
      float* out = space.row.get();
      std::memcpy(out, w_.part_out.get() + part * static_cast<size_t>(d), static_cast<size_t>(d) * sizeof(float));
      for (size_t c = part + 1; c < part + static_cast<size_t>(chunks); ++c)
        k_.merge(&top, &sum, out, w_.part_top.get()[c], w_.part_sum.get()[c], w_.part_out.get() + c * static_cast<size_t>(d), d);
      k_.finish(out, sum, d, in.row(r) + h * d);
    }
    if (is_quantised(layer.o.format)) in.quantise(k_, r, 0, q);
  }
  if (!local()) pool_.barrier();
  return in;
}

void Pass::feed_forward(int index, int threads, const Layer& layer, const Input& in) {
  const int ff = c_.feed_forward;
  const auto [begin, end] = forward_columns(index, threads);
  fetch(layer.up, begin / kLanes);
  linear(layer.gate, in, begin / kLanes, end / kLanes, w_.down.x.get(), ff, rows_);
  linear(layer.up, in, begin / kLanes, end / kLanes, w_.up.get(), ff, rows_);
  clock_.mark(index, &PhaseSeconds::linear);
  fetch(layer.down, share(layer.down.panels, index, threads));
  for (int r = 0; r < rows_ && begin < end; ++r) {
    k_.silu_mul(w_.down.row(r) + begin, w_.up.get() + at(r, ff) + begin, end - begin);
    if (is_quantised(layer.down.format)) w_.down.quantise(k_, r, begin, end);
  }
  clock_.mark(index, &PhaseSeconds::other);
  pool_.barrier();
  const int panels = layer.down.panels;
  linear_add(layer.down, w_.down, share(panels, index, threads), share(panels, index + 1, threads), w_.x.get(), c_.hidden, rows_);
}

void Pass::score(int index, int threads) {
  const Packed& head = model_.head;
  const Input& in = norm_input(index, threads, model_.output_norm, &wanted_, is_quantised(head.format));
  const int begin = share(head.panels, index, threads), end = share(head.panels, index + 1, threads);
  const int count = static_cast<int>(wanted_.size()), stride = static_cast<int>(scores_->stride);
  float* logits = scores_->values->get();
  linear(head, in, begin, end, logits, stride, count);
  for (int i = 0; i < count; ++i) {
    const size_t best = at(index, count) + static_cast<size_t>(i);
    k_.argmax(logits + at(i, stride), std::min(begin * kLanes, c_.vocab), std::min(end * kLanes, c_.vocab), &best_[best], &best_at_[best]);
  }
}

}  // namespace outrider
