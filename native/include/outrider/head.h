// A drafting head: a small network that guesses from the target's own states what comes behind its next token.
// What it computes: docs/numerics.md. Dimensions: H hidden size of the target, T taps, D draft vocabulary.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/buffer.h"
#include "outrider/cache.h"
#include "outrider/model.h"
#include "outrider/sampling.h"

namespace outrider {

struct Sequence;

struct HeadConfig {
  bool chain = true;  // eagle3: one decoder layer, fed with its own states; else medusa: independent blocks
  std::vector<int> taps;
  int hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, feed_forward = 0, draft_vocab = 0, depth = 0;
  float norm_eps = 0.0f;
  float inverse_temperature = 1.0f;  // a chance is softmax(logits * this)
};

// A tensor in memory that stays the caller's: a matrix [rows, cols], a vector of F32 or I32 where cols is 0.
struct HeadTensor {
  std::string name, type;
  int rows = 0, cols = 0;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

struct HeadWeights {
  HeadWeights(const HeadConfig&, const std::vector<HeadTensor>&, bool dense);

  const float *tap_norm = nullptr, *embed_norm = nullptr, *state_norm = nullptr, *ffn_norm = nullptr, *out_norm = nullptr;
  Packed fc, q, k, v, o, gate, up, down, head;
  std::vector<Packed> blocks;  // medusa: one for each step
  Buffer<int32_t> ids;         // [D] in whole vectors: the target's ids, ascending
  size_t bytes = 0;

 private:
  Arena arena_;
};

// HeadChain and HeadDrawn of backends/base.py.
struct HeadItem {
  int seq = 0;
  int last = 0;  // the token behind what is committed
  int steps = 0;
  DrawSpec draw;
  uint32_t position = 0;
  int width = 0;
  float least = 0.0f;
};

struct HeadDrawn {
  std::vector<int> tokens;
  std::vector<std::vector<std::pair<int, float>>> likely;  // [tokens] of at most width (id, chance), best first
};

// What a head knows of one sequence. Positions below `fused` have their fused feature in the blocks, those below `read`
// their key and value too; the states of the others wait. Position i is read with the token at i + 1.
struct HeadTrack {
  int length = 0, fused = 0, read = 0;
  int next = -1;               // read == length > 0: the token that the last position was read with
  bool whole = true;           // false: states of some position never came, so it cannot draft
  CacheTable table;
  std::vector<int> inputs;     // tokens at read + 1 .. length - 1
  int first = 0;               // the position whose states are the first ones held; at most `fused`
  std::vector<float> states;   // [length - first, T * H]
};

class HeadPass;

// Weights, and what is known of each sequence that it was told to follow. The engine's lock guards it.
class Head {
 public:
  Head(const Model& target, const HeadConfig&, const std::vector<HeadTensor>&, const RopeTable&, const Kernels&, int threads);
  ~Head();

  bool follows(int seq) const;  // and can still draft for it, so that states are of use
  // From now on; false where `length` positions are committed already whose states it never saw.
  bool begin(int seq, int length);
  void end(int seq) { tracks_.erase(seq); }
  void fork(int from, int to);
  void truncate(int seq, int length);
  void hear(int seq, const Sequence&, const std::vector<int>& path);  // rows of the last pass that are committed
  std::vector<HeadDrawn> draft(const std::vector<HeadItem>&);
  // The fused features [read, H], keys and values [kv_heads, read, d] as bytes, for tests of equality.
  void export_state(int seq, std::vector<uint8_t>* features, std::vector<uint8_t>* keys, std::vector<uint8_t>* values) const;

  const HeadConfig& config() const { return c_; }
  const HeadWeights& weights() const { return w_; }
  size_t sequences() const { return tracks_.size(); }

 private:
  struct Job;

  void take(HeadTrack&, const Sequence&, const int* path, size_t count);
  void read_waiting(HeadTrack&, int end);
  void settle(HeadTrack&, int end);
  void drop_states(HeadTrack&);
  void run_chains(std::vector<Job>&);
  void run_blocks(std::vector<Job>&);
  bool choose(const float* logits, int largest, Job&, int step);
  float* feature(const HeadTrack&, int position) const;

  HeadConfig c_;
  HeadWeights w_;
  CacheLayout layout_;
  std::shared_ptr<BlockPool> pool_;
  Sampler sampler_;
  std::unique_ptr<HeadPass> pass_;
  std::unordered_map<int, HeadTrack> tracks_;

  friend class HeadPass;
};

}  // namespace outrider
