// From a row of logits to the target's token, its law and log-probabilities: core/sampling.py, bit for bit.
// Dimensions: V vocabulary.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "outrider/buffer.h"
#include "outrider/types.h"

namespace outrider {

// Draw of core/sampling.py.
struct DrawSpec {
  float inverse_temperature = 0.0f;  // 0: arg-max
  uint64_t seed = 0;
  uint32_t sample = 0;
  int top_k = 0;  // 0: off
  double top_p = 1.0;  // 1: off
  float min_p = 0.0f;  // 0: off
  double typical_p = 1.0;  // 1: off

  bool greedy() const { return inverse_temperature == 0.0f; }
  bool filters() const { return !greedy() && (top_k > 0 || top_p < 1.0 || min_p > 0.0f || typical_p < 1.0); }
};

// Adjust of core/sampling.py; the arrays are somebody else's.
struct AdjustSpec {
  const int32_t* ids = nullptr;
  const float* divisors = nullptr;
  const float* offsets = nullptr;
  size_t count = 0;
  const uint32_t* mask = nullptr;  // null: all may be chosen
};

struct Logprobs {
  float chosen = 0.0f;
  std::vector<std::pair<int, float>> top;  // best first
};

// Computes from one row at a time; the caller sets the floating-point mode. Logits are not read past V.
class Sampler {
 public:
  explicit Sampler(const Kernels& kernels) : k_(kernels) {}

  // largest: the arg-max of the logits
  int token(const float* logits, int vocab, int largest, const DrawSpec&, uint32_t position, const AdjustSpec&);
  // The place of the token drawn from entries that stand for ids [count], ascending, both padded to whole vectors, the
  // logits with -inf: that of `token` on a row of all ids, but for sums of the filters' weights.
  int place(const float* logits, const int32_t* ids, int count, int largest, const DrawSpec&, uint32_t position);
  // The `width` likeliest of softmax(logits * factor) with their chances, best first; none where no logit is finite.
  std::vector<std::pair<int, float>> likely(const float* logits, int count, float factor, int width);
  void law(const float* logits, int vocab, const DrawSpec&, const AdjustSpec&, float* out);  // out [V]
  // draw null: of the model's own law
  Logprobs logprobs(const float* logits, int vocab, int chosen, int top, const DrawSpec* draw, const AdjustSpec&);
  std::vector<int> top(const float* logits, int vocab, int count);  // the ids of the largest logits, best first

 private:
  using Items = std::vector<uint64_t>;  // an order in the high half, an id in the low one

  void score(const float* logits, int vocab, const DrawSpec&, const AdjustSpec&);
  void load(const float* logits, int vocab, float factor, const AdjustSpec&);
  void find_best();
  bool point() const;
  void keep_largest(int count);
  void keep_share(double share);
  void keep_typical(double share);
  void keep(size_t count);
  void largest(const float* values, int vocab, size_t count);
  void band(const float* values, float over, float upto);
  void sort_items();
  void push(const float* values, int id);
  void settle_ties();

  const Kernels& k_;
  int vocab_ = 0, padded_ = 0;
  float best_ = 0.0f;  // the largest score, and the first id that has it
  int best_at_ = 0;
  Buffer<float> scores_, weights_, nearness_;  // [V] in whole vectors
  std::vector<int32_t> ids_;
  std::vector<float> kept_;
  Items items_, other_, order_;
};

// Samplers that nobody uses just now: their memory is dear to make anew for each row.
class SamplerPool {
 public:
  explicit SamplerPool(const Kernels& kernels) : kernels_(kernels) {}

  // A sampler for as long as the lease lives; any number of threads may hold one.
  class Lease {
   public:
    explicit Lease(SamplerPool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Sampler* operator->() const { return sampler_.get(); }
    Sampler& operator*() const { return *sampler_; }

   private:
    SamplerPool& pool_;
    std::unique_ptr<Sampler> sampler_;
  };

 private:
  const Kernels& kernels_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Sampler>> idle_;
  size_t made_ = 0;
};

}  // namespace outrider
