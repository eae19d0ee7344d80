// Sequences and passes: what the Backend protocol (backends/base.py) promises, natively.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "outrider/cache.h"
#include "outrider/head.h"
#include "outrider/model.h"
#include "outrider/sampling.h"

namespace outrider {

enum Want : int { kNone = 0, kToken = 1, kLogits = 2 };

struct ExtendItem {
  int seq = 0;
  std::vector<int> tokens;
  std::vector<int> parents;  // empty: a chain
  std::vector<uint8_t> want;
  DrawSpec draw;
};

// Chain and Drawn of backends/base.py.
struct ChainItem {
  int seq = 0;
  std::vector<int> tokens;
  int count = 0;
  DrawSpec draw;
  uint32_t position = 0;
  const int32_t* ids = nullptr;  // [width], somebody else's; null: the model's own vocabulary
  int width = 0;
};

struct DrawnChain {
  std::vector<int> tokens;
  std::vector<float> best;
};

// A row of the pass in flight or awaiting its commit.
struct Row {
  int token = 0;
  int parent = -1;   // row of the same item
  int position = 0;  // absolute
  int side = -1;     // slot in the sequence's side memory; -1: it lies in its place in the cache
  bool patched = false;  // some row on its path lies in side memory
};

// The states that a pass kept: the residual stream entering block l, or leaving the last one (l = layers).
struct States {
  std::vector<int> layers;                // which l, ascending
  std::shared_ptr<Buffer<float>> values;  // [kept rows, layers, hidden]
  int hidden = 0;

  bool has(int layer) const { return std::find(layers.begin(), layers.end(), layer) != layers.end(); }
  size_t row_size() const { return layers.size() * static_cast<size_t>(hidden); }
  // The states of one kept row for the given l, one behind the other.
  void copy(int row, const std::vector<int>& of, float* out) const;
};

struct Sequence {
  int length = 0;  // committed positions
  CacheTable table;
  std::vector<Row> rows;      // uncommitted
  States states;              // of the rows, where a head follows; the first row's place among them, or -1
  int first_state = -1;
  Buffer<uint8_t> side;       // [slots, layers, kv_heads] of CacheLayout::side_bytes
  int slots = 0;
};

// The results of one pass. Keeps its logits alive; a later pass takes other memory while somebody holds this.
class Scores {
 public:
  struct Item {
    std::vector<int> slot;    // [rows] index among the wanted rows, -1 where nothing was wanted
    std::vector<int> want;
    std::vector<int> position;
    DrawSpec draw;
    int first_state = -1;  // place of its first row among the kept ones, -1 where they were not kept
  };
  // All throw std::invalid_argument for a row that did not want what is asked. Any number of threads may ask.
  int token(int item, int row);
  int token(int item, int row, const AdjustSpec&);
  const float* logits(int item, int row) const;
  void law(int item, int row, const AdjustSpec&, float* out) const;
  Logprobs logprobs(int item, int row, int chosen, int top, bool processed, const AdjustSpec&) const;
  std::vector<int> top(int item, int row, int count) const;
  size_t rows(int item) const;
  void copy_states(int item, float* out) const;  // [rows, taps, hidden]

  std::vector<Item> items;
  std::vector<int> tokens;   // [wanted rows], -1: not drawn yet
  std::vector<int> largest;  // [wanted rows] arg-max of the logits
  std::shared_ptr<Buffer<float>> values;
  size_t stride = 0;
  int vocab = 0;
  std::shared_ptr<SamplerPool> samplers;
  States states;
  std::vector<int> taps;  // the l that the caller asked for, in its order

 private:
  const Item& item_of(int item) const;
  size_t slot_of(int item, int row, int least) const;
  int drawn(int item, int row, size_t slot, const AdjustSpec&) const;
};

// Seconds of one pass by what they went into, as its first thread spent them; a wait for the others belongs to the work
// that it ends.
struct PhaseSeconds {
  double linear = 0, attention = 0, head = 0, other = 0;
};

class Workspace;

class Engine {
 public:
  Engine(const ModelConfig&, const std::string& path, const std::vector<TensorSource>&, const std::string& isa, int threads);
  ~Engine();

  int open();
  int fork(int seq);
  void truncate(int seq, int length);
  void close(int seq);
  int length(int seq);
  std::shared_ptr<Scores> extend(const std::vector<ExtendItem>& items, PhaseSeconds* phases = nullptr);
  void commit(const std::vector<std::pair<int, std::vector<int>>>& items);
  std::vector<DrawnChain> chain(const std::vector<ChainItem>& items);
  void tap(const std::vector<int>& layers);  // passes from now on keep these states of every row
  // A head for this model's sequences. It hears of what is committed to those that it follows, and keeps in step with
  // fork, truncate and close, for as long as somebody holds it.
  std::shared_ptr<Head> attach(const HeadConfig&, const std::vector<HeadTensor>&);
  bool follow(Head&, int seq);
  void unfollow(Head&, int seq);
  std::vector<HeadDrawn> draft(Head&, const std::vector<HeadItem>&);
  void export_head(const Head&, int seq, std::vector<uint8_t>* features, std::vector<uint8_t>* keys, std::vector<uint8_t>* values);
  // The committed keys and values [layers, kv_heads, length, d] as raw cache bytes, for tests of equality.
  void export_cache(int seq, std::vector<uint8_t>* keys, std::vector<uint8_t>* values);
  size_t open_sequences();
  size_t blocks_used();
  size_t block_bytes() const { return pool_->block_bytes(); }

  const Model& model() const { return model_; }
  const Kernels& kernels() const { return kernels_; }
  int threads() const { return threads_; }

 private:
  Sequence& find(int seq);
  void drop_rows(Sequence& s);
  void check(const std::vector<ExtendItem>& items);
  void check_chains(const std::vector<ChainItem>& items);
  std::shared_ptr<Scores> pass_over(const std::vector<ExtendItem>& items, PhaseSeconds* phases);
  void place_rows(const ExtendItem& item, Sequence& s);
  void keep_path(int seq, const std::vector<int>& path);
  std::vector<std::shared_ptr<Head>> heads();
  void check_head(const Head&);
  std::vector<int> kept_states(const std::vector<std::shared_ptr<Head>>&) const;

  std::mutex mutex_;
  int threads_;
  const Kernels& kernels_;
  Model model_;
  CacheLayout layout_;
  std::shared_ptr<BlockPool> pool_;
  RopeTable rope_;
  std::unordered_map<int, Sequence> sequences_;
  std::vector<int> taps_;
  std::vector<std::weak_ptr<Head>> heads_;
  int next_ = 0;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace outrider
