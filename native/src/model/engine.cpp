#include "outrider/engine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "pass.h"

namespace outrider {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

std::string text(int64_t n) { return std::to_string(n); }

}  // namespace

void States::copy(int row, const std::vector<int>& of, float* out) const {
  const size_t h = static_cast<size_t>(hidden);
  for (int layer : of) {
    const size_t tap = static_cast<size_t>(std::find(layers.begin(), layers.end(), layer) - layers.begin());
    std::memcpy(out, values->get() + static_cast<size_t>(row) * row_size() + tap * h, h * sizeof(float));
    out += h;
  }
}

const Scores::Item& Scores::item_of(int item) const {
  require(item >= 0 && static_cast<size_t>(item) < items.size(), "the pass had no item " + text(item));
  return items[static_cast<size_t>(item)];
}

size_t Scores::rows(int item) const { return item_of(item).slot.size(); }

void Scores::copy_states(int item, float* out) const {
  const Item& it = item_of(item);
  require(!taps.empty(), "the pass kept no states; name the layers with tap before it");
  const size_t size = taps.size() * static_cast<size_t>(states.hidden);
  for (size_t r = 0; r < it.slot.size(); ++r) states.copy(it.first_state + static_cast<int>(r), taps, out + r * size);
}

size_t Scores::slot_of(int item, int row, int least) const {
  const Item& it = item_of(item);
  require(row >= 0 && static_cast<size_t>(row) < it.slot.size(), "item " + text(item) + " has no row " + text(row));
  require(it.want[static_cast<size_t>(row)] >= least,
          "row " + text(row) + " did not want " + (least == kLogits ? "its logits" : "a token"));
  return static_cast<size_t>(it.slot[static_cast<size_t>(row)]);
}

const float* Scores::logits(int item, int row) const {
  return values->get() + slot_of(item, row, kLogits) * stride;
}

int Scores::drawn(int item, int row, size_t slot, const AdjustSpec& adjust) const {
  const Item& it = items[static_cast<size_t>(item)];
  const uint32_t position = static_cast<uint32_t>(it.position[static_cast<size_t>(row)] + 1);
  FloatMode mode;
  return SamplerPool::Lease(*samplers)->token(values->get() + slot * stride, vocab, largest[slot], it.draw, position, adjust);
}

int Scores::token(int item, int row) {
  const size_t slot = slot_of(item, row, kToken);
  std::atomic_ref<int> known(tokens[slot]);  // two threads may ask at once; both would draw the same
  int token = known.load(std::memory_order_relaxed);
  if (token < 0) {
    token = drawn(item, row, slot, {});
    known.store(token, std::memory_order_relaxed);
  }
  return token;
}

int Scores::token(int item, int row, const AdjustSpec& adjust) { return drawn(item, row, slot_of(item, row, kToken), adjust); }

void Scores::law(int item, int row, const AdjustSpec& adjust, float* out) const {
  const float* x = logits(item, row);
  FloatMode mode;
  SamplerPool::Lease(*samplers)->law(x, vocab, items[static_cast<size_t>(item)].draw, adjust, out);
}

Logprobs Scores::logprobs(int item, int row, int chosen, int top, bool processed, const AdjustSpec& adjust) const {
  const float* x = logits(item, row);
  require(chosen >= 0 && chosen < vocab, "id " + text(chosen) + " is outside the vocabulary of " + text(vocab));
  require(top >= 0, "top is " + text(top) + "; it must be at least 0");
  FloatMode mode;
  const DrawSpec* draw = processed ? &items[static_cast<size_t>(item)].draw : nullptr;
  return SamplerPool::Lease(*samplers)->logprobs(x, vocab, chosen, top, draw, adjust);
}

std::vector<int> Scores::top(int item, int row, int count) const {
  const size_t slot = slot_of(item, row, kToken);
  require(count >= 0, "count is " + text(count) + "; it must be at least 0");
  FloatMode mode;
  return SamplerPool::Lease(*samplers)->top(values->get() + slot * stride, vocab, count);
}

Engine::Engine(const ModelConfig& config, const std::string& path, const std::vector<TensorSource>& tensors,
               const std::string& isa, int threads)
    : threads_(threads),
      kernels_(kernels_for(isa)),
      model_(config, path, tensors, threads),
      layout_{config.layers, config.kv_heads, config.head_dim, config.dense ? 4u : 2u},
      pool_(std::make_shared<BlockPool>(layout_.block_bytes())),
      rope_(config, model_.rope_factors),
      workspace_(std::make_unique<Workspace>(kernels_)) {}

Engine::~Engine() = default;

Sequence& Engine::find(int seq) {
  const auto found = sequences_.find(seq);
  if (found == sequences_.end()) throw std::runtime_error("sequence " + text(seq) + " is not open");
  return found->second;
}

void Engine::drop_rows(Sequence& s) {
  s.rows.clear();
  s.slots = 0;
  if (s.first_state >= 0) s.states = States(), s.first_state = -1;
  s.table.shrink(s.length);
}

int Engine::open() {
  std::lock_guard<std::mutex> hold(mutex_);
  sequences_.try_emplace(next_);
  return next_++;
}

int Engine::fork(int seq) {
  std::lock_guard<std::mutex> hold(mutex_);
  const Sequence& from = find(seq);
  Sequence to;
  to.length = from.length;
  to.table = from.table;
  to.table.shrink(to.length);
  for (const auto& head : heads()) head->fork(seq, next_);
  sequences_.emplace(next_, std::move(to));
  return next_++;
}

void Engine::truncate(int seq, int length) {
  std::lock_guard<std::mutex> hold(mutex_);
  Sequence& s = find(seq);
  require(length >= 0 && length <= s.length,
          "cannot truncate sequence " + text(seq) + " of length " + text(s.length) + " to " + text(length));
  for (const auto& head : heads()) head->truncate(seq, length);
  s.length = length;
  drop_rows(s);
}

void Engine::close(int seq) {
  std::lock_guard<std::mutex> hold(mutex_);
  find(seq);
  for (const auto& head : heads()) head->end(seq);
  sequences_.erase(seq);
}

int Engine::length(int seq) {
  std::lock_guard<std::mutex> hold(mutex_);
  return find(seq).length;
}

size_t Engine::open_sequences() {
  std::lock_guard<std::mutex> hold(mutex_);
  return sequences_.size();
}

void Engine::tap(const std::vector<int>& layers) {
  std::lock_guard<std::mutex> hold(mutex_);
  for (size_t i = 0; i < layers.size(); ++i) {
    require(layers[i] >= 0 && layers[i] <= model_.config.layers, "there is no state " + text(layers[i]) + "; the model has 0 to " + text(model_.config.layers));
    require(std::find(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i), layers[i]) == layers.begin() + static_cast<std::ptrdiff_t>(i), "state " + text(layers[i]) + " is named twice");
  }
  taps_ = layers;
}

size_t Engine::blocks_used() {
  std::lock_guard<std::mutex> hold(mutex_);
  return pool_->taken();
}

void Engine::check(const std::vector<ExtendItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    const ExtendItem& item = items[i];
    const Sequence& s = find(item.seq);
    const size_t n = item.tokens.size();
    for (size_t j = 0; j < i; ++j) require(items[j].seq != item.seq, "sequence " + text(item.seq) + " is named twice in one pass");
    require(n > 0, "sequence " + text(item.seq) + " has no rows in this pass");
    require(item.want.size() == n, "want must have one entry for each of the " + text(static_cast<int64_t>(n)) + " rows");
    require(item.parents.empty() || item.parents.size() == n, "parents must have one entry for each of the " + text(static_cast<int64_t>(n)) + " rows");
    std::vector<int> position(n);
    for (size_t r = 0; r < n; ++r) {
      const int token = item.tokens[r], parent = item.parents.empty() ? static_cast<int>(r) - 1 : item.parents[r];
      require(token >= 0 && token < model_.config.vocab,
              "token id " + text(token) + " is outside the vocabulary of " + text(model_.config.vocab));
      require(parent >= -1 && parent < static_cast<int>(r),
              "row " + text(static_cast<int64_t>(r)) + " has parent " + text(parent) + "; a parent is an earlier row or -1");
      require(item.want[r] <= kLogits, "want " + text(item.want[r]) + " is not one of 0, 1, 2");
      position[r] = parent < 0 ? s.length : position[static_cast<size_t>(parent)] + 1;
      if (position[r] >= model_.config.context)
        throw std::runtime_error("position " + text(position[r]) + " does not fit the context of " + text(model_.config.context));
    }
  }
}

// Decides where each row's keys and values go: the first row of each depth to its place, others to side memory.
void Engine::place_rows(const ExtendItem& item, Sequence& s) {
  drop_rows(s);
  int end = s.length;
  for (size_t r = 0; r < item.tokens.size(); ++r) {
    Row row;
    row.token = item.tokens[r];
    row.parent = item.parents.empty() ? static_cast<int>(r) - 1 : item.parents[r];
    const Row* above = row.parent < 0 ? nullptr : &s.rows[static_cast<size_t>(row.parent)];
    row.position = above ? above->position + 1 : s.length;
    if (row.position < end) row.side = s.slots++;
    end = std::max(end, row.position + 1);
    row.patched = row.side >= 0 || (above && above->patched);
    s.rows.push_back(row);
  }
  s.table.own(*pool_, s.length, end);
  s.side.reserve(static_cast<size_t>(s.slots) * static_cast<size_t>(layout_.layers * layout_.kv_heads) * layout_.side_bytes());
  rope_.grow(end);
}

std::shared_ptr<Scores> Engine::extend(const std::vector<ExtendItem>& items, PhaseSeconds* phases) {
  std::lock_guard<std::mutex> hold(mutex_);
  require(!items.empty(), "a pass needs at least one item");
  check(items);
  return pass_over(items, phases);
}

// A pass over checked items; the caller holds the lock.
std::shared_ptr<Scores> Engine::pass_over(const std::vector<ExtendItem>& items, PhaseSeconds* phases) {
  try {
    const std::vector<std::shared_ptr<Head>> heads = this->heads();
    std::vector<PassItem> pass;
    bool keeps = !taps_.empty();
    for (const ExtendItem& item : items) {
      Sequence& s = find(item.seq);
      place_rows(item, s);
      const bool followed = std::any_of(heads.begin(), heads.end(), [&item](const auto& head) { return head->follows(item.seq); });
      pass.push_back({&s, &item, followed || !taps_.empty()});
      keeps = keeps || followed;
    }
    const std::shared_ptr<Scores> scores =
        Pass(model_, layout_, rope_, kernels_, threads_, *workspace_, pass, keeps ? kept_states(heads) : taps_).run(phases);
    scores->taps = taps_;
    for (size_t i = 0; keeps && i < items.size(); ++i)
      if (scores->items[i].first_state >= 0) pass[i].sequence->states = scores->states, pass[i].sequence->first_state = scores->items[i].first_state;
    return scores;
  } catch (...) {  // out of memory: rows that were not computed must not be committed
    for (const ExtendItem& item : items) drop_rows(find(item.seq));
    throw;
  }
}

void Engine::keep_path(int seq, const std::vector<int>& path) {
  Sequence& s = find(seq);
  for (const auto& head : heads()) head->hear(seq, s, path);
  for (int r : path) {
    const Row& row = s.rows[static_cast<size_t>(r)];
    if (row.side < 0) continue;
    uint8_t* block = s.table.block(row.position);
    const size_t bytes = layout_.side_bytes();
    const uint8_t* from = s.side.get() + static_cast<size_t>(row.side * layout_.layers * layout_.kv_heads) * bytes;
    for (int l = 0; l < layout_.layers; ++l)
      for (int h = 0; h < layout_.kv_heads; ++h, from += bytes) {
        write_key(layout_, block + layout_.keys_at(l, h), row.position, 0, layout_.dim, from);
        std::memcpy(block + layout_.values_at(l, h) + layout_.value_offset(row.position), from + bytes / 2, bytes / 2);
      }
  }
  s.length += static_cast<int>(path.size());
  drop_rows(s);
}

void Engine::commit(const std::vector<std::pair<int, std::vector<int>>>& items) {
  std::lock_guard<std::mutex> hold(mutex_);
  for (size_t i = 0; i < items.size(); ++i) {
    const Sequence& s = find(items[i].first);
    for (size_t j = 0; j < i; ++j) require(items[j].first != items[i].first, "sequence " + text(items[i].first) + " is named twice in one commit");
    int above = -1;
    for (int r : items[i].second) {
      require(r >= 0 && static_cast<size_t>(r) < s.rows.size(), "path names row " + text(r) + ", which the last pass of sequence " + text(items[i].first) + " did not have");
      require(s.rows[static_cast<size_t>(r)].parent == above, "path is not connected at row " + text(r));
      above = r;
    }
  }
  for (const auto& [seq, path] : items) keep_path(seq, path);
}

void Engine::export_cache(int seq, std::vector<uint8_t>* keys, std::vector<uint8_t>* values) {
  std::lock_guard<std::mutex> hold(mutex_);
  const Sequence& s = find(seq);
  const size_t bytes = layout_.side_bytes() / 2;
  for (int l = 0; l < layout_.layers; ++l)
    for (int h = 0; h < layout_.kv_heads; ++h)
      for (int p = 0; p < s.length; ++p) {
        keys->resize(keys->size() + bytes);
        values->resize(values->size() + bytes);
        read_key(layout_, s.table.block(p) + layout_.keys_at(l, h), p, keys->data() + keys->size() - bytes);
        std::memcpy(values->data() + values->size() - bytes, s.table.block(p) + layout_.values_at(l, h) + layout_.value_offset(p), bytes);
      }
}

}  // namespace outrider
