// One pass of the model over the rows of all its items.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "outrider/engine.h"
#include "outrider/pool.h"

namespace outrider {

// Where the share of a thread begins; that of the next one is its end.
inline int share(int total, int index, int threads) {
  return static_cast<int>(static_cast<int64_t>(total) * index / threads);
}

struct PassItem {
  Sequence* sequence;
  const ExtendItem* request;
  bool keep_states = false;
  int first_row = 0;  // index of its first row in the pass
  int chunks = 0;     // attention chunks that its last position reaches
  size_t first_part = 0;  // where its parts begin
};

// The rows that go into a matrix: as floats, and quantised where the matrix wants codes.
struct Input {
  Buffer<float> x;  // [rows, K]
  Buffer<int8_t> q;
  Buffer<float> scale, scaled;
  Buffer<int32_t> neg8, neg128;
  int cols = 0;

  void shape(int rows, int columns);
  QuantRows rows() const { return {q.get(), scale.get(), scaled.get(), neg8.get(), neg128.get(), cols}; }
  float* row(int r) const { return x.get() + static_cast<size_t>(r) * static_cast<size_t>(cols); }
  void quantise(const Kernels& k, int row, int begin, int end) const;  // columns [begin, end), multiples of 32
};

// Per thread: the scratch of an attention unit, and inputs of its own when few rows make sharing them dearer.
struct ThreadSpace {
  // What this thread will read next: keys and values of a chunk, by cache blocks, and weights behind the attention.
  static constexpr size_t kBlocksAhead = kChunk / kCacheBlock, kWeightsAhead = 3;
  std::array<Fetch, kBlocksAhead + kWeightsAhead> ahead;
  Input normed, mixed;
  Buffer<float> weights, out, top, sum, row;
  Buffer<uint8_t> patches, element;
};

// Memory of a pass, kept from one pass to the next.
class Workspace {
 public:
  explicit Workspace(const Kernels& kernels) : samplers(std::make_shared<SamplerPool>(kernels)) {}

  Buffer<float> x, qkv, up;
  Buffer<float> part_out, part_top, part_sum;  // [item, row, head, chunk]: attention of one chunk, before the merge
  Input normed, mixed, down;
  std::vector<std::unique_ptr<ThreadSpace>> threads;
  std::shared_ptr<Buffer<float>> logits, states;
  std::shared_ptr<SamplerPool> samplers;
};

// Adds the time since the last mark to one phase; does nothing, and reads no clock, where nobody asked.
class PhaseClock {
 public:
  void start(PhaseSeconds* into) {
    if ((into_ = into)) last_ = Clock::now();
  }
  void mark(int index, double PhaseSeconds::*phase) {
    if (!into_ || index != 0) return;
    const Clock::time_point now = Clock::now();
    into_->*phase += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  PhaseSeconds* into_ = nullptr;
  Clock::time_point last_;
};

class Pass {
 public:
  // taps: the states that are kept of the items that say so
  Pass(const Model&, const CacheLayout&, const RopeTable&, const Kernels&, int threads, Workspace&, std::vector<PassItem>,
       std::vector<int> taps);
  std::shared_ptr<Scores> run(PhaseSeconds* phases);

 private:
  struct Unit {  // half-open ranges
    const PassItem* item;
    int head;         // key head
    int from, to;     // query heads of its group
    int begin, end;   // rows
    int first, last;  // chunks
  };

  void lay_out();
  void make_room(size_t parts);
  void keep_states(int index, int threads, int layer);
  void plan_units();
  void work(int index, int threads);
  void embed(int index, int threads);
  const Input& norm_input(int index, int threads, const float* weight, const std::vector<int>* rows, bool codes);
  void project(int index, int threads, int layer, const Input&);
  void attend(int index, int threads, int layer);
  void look_ahead(ThreadSpace&, int index, int threads, const Layer&) const;
  void look_ahead(ThreadSpace&, int unit, int end, int layer) const;
  void fetch(const Packed&, int begin) const;
  std::pair<int, int> forward_columns(int index, int threads) const;
  int qkv_panels(int layer) const {
    const Layer& l = model_.layers[static_cast<size_t>(layer)];
    return l.q.panels + l.k.panels + l.v.panels;
  }
  int take_unit(int index, int layer);
  void attend_unit(ThreadSpace&, const Unit&, int layer);
  void attend_rows(ThreadSpace&, const Unit&, int layer, int chunk, const int* rows, int count, bool patched);
  void keep_chunk(const Unit&, int row, int head, int chunk, float top, float sum, const float* out);
  void place_projections(ThreadSpace&, int begin, int end, int layer);
  const uint8_t* round_to_cache(ThreadSpace&, const float* x, int count) const;
  void place_queries(int row, int begin, int end);
  void place_keys(ThreadSpace&, int row, int begin, int end, int layer);
  void place_values(ThreadSpace&, int row, int begin, int end, int layer);
  void point_chunk(const PassItem&, int layer, int head, int chunk, const void** keys, const void** values) const;
  void patch_chunk(ThreadSpace&, const PassItem&, int row, int layer, int head, int chunk, const void** keys, const void** values) const;
  const Input& attention_input(int index, int threads, const Layer&);
  void feed_forward(int index, int threads, const Layer&, const Input&);
  void score(int index, int threads);
  void linear(const Packed&, const Input&, int begin, int end, float* out, int stride, int rows) const;
  void linear_add(const Packed&, const Input&, int begin, int end, float* out, int stride, int rows) const;
  // The rows whose inputs this thread prepares. Rows of a tile share cache lines, so a tile is never split: with few
  // rows everybody prepares all of them for itself, which costs less than a barrier.
  std::pair<int, int> own_rows(int index, int threads, int count) const;
  // The place of one head's attention to one chunk; where units are rows, chunks are merged as they come.
  size_t part(const PassItem& item, int row, int head, int chunk) const {
    const size_t of_row = static_cast<size_t>(row * c_.heads + head);
    return by_chunk_ ? item.first_part + of_row * static_cast<size_t>(item.chunks) + static_cast<size_t>(chunk) : item.first_part + of_row;
  }
  bool local() const { return rows_ <= kLocalRows; }
  uint8_t* side_of(const PassItem&, int slot, int layer, int head) const;
  int wide() const { return (c_.heads + 2 * c_.kv_heads) * c_.head_dim; }
  float* projected(int row) const { return w_.qkv.get() + static_cast<size_t>(row) * static_cast<size_t>(wide()); }

  static constexpr int kLocalRows = kMaxTile;  // up to here every thread prepares all inputs for itself (own_rows)
  static constexpr int kChunkRows = 16;  // up to here chunks are spread over the threads; above, rows are
  static constexpr int kRowTile = 8;
  // Of a layer's weights, for a thread: with keys, values and rows this fits the second-level caches of today.
  static constexpr size_t kAheadBytes = 256 << 10;

  const Model& model_;
  const ModelConfig& c_;
  const CacheLayout& layout_;
  const RopeTable& rope_;
  const Kernels& k_;
  Pool& pool_;
  int threads_;
  Workspace& w_;
  std::vector<PassItem> items_;
  int rows_ = 0, group_ = 1;
  bool by_chunk_ = false;
  std::vector<const Row*> row_;       // [rows_]
  std::vector<const PassItem*> of_;   // [rows_]
  std::vector<int> wanted_;           // rows whose logits are computed
  std::vector<int> kept_;             // rows whose states are kept
  std::vector<Unit> units_;
  std::vector<std::atomic<int>> next_unit_;  // [layers, threads]: where each thread's share of the units stands
  std::shared_ptr<Scores> scores_;
  std::vector<float> best_;  // [threads, wanted]
  std::vector<int> best_at_;
  PhaseClock clock_;
};

}  // namespace outrider
