// The phases of a head's work: reading positions, one step of its chains, the blocks of kind medusa.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "outrider/head.h"
#include "outrider/pool.h"
#include "pass.h"

namespace outrider {

// One position: its feature, and the token behind it.
struct HeadRow {
  HeadTrack* track = nullptr;
  int position = 0;
  int token = 0;
};

// Memory and phases for at most kRows rows at once; each thread makes the small inputs for itself, which costs less than
// a barrier, and computes its own outputs. What a row gives never depends on the others.
class HeadPass {
 public:
  HeadPass(Head& head, const Model& target, const RopeTable& rope, const Kernels& kernels, int threads);

  static constexpr int kRows = kMaxTile;

  // Keys and values of the rows, from their true features; the first `finals` of them also get logits. Those whose
  // states wait are fused, and the features kept.
  void read(std::vector<HeadRow> rows, int finals);
  // The next step of the first rows of the step before: what came out of them is their feature.
  void step(std::vector<HeadRow> rows);
  // The row `from` of the step before becomes row `to` of the next one.
  void move(int from, int to) { std::copy(x(from), x(from) + h_, x(to)); }
  // Medusa: logits of each row for the first `steps` blocks.
  void guess(std::vector<HeadRow> rows, int steps);

  const float* logits(int row, int step = 0) const { return logits_.get() + at(step * finals_ + row, stride_); }
  int largest(int row, int step = 0) const { return largest_[static_cast<size_t>(step * finals_ + row)]; }

 private:
  struct Space {
    Input fused, read, mixed, normed;
    Buffer<float> row, weights, out, top, sum;
    Buffer<uint8_t> element;
  };

  static size_t at(int row, int stride) { return static_cast<size_t>(row) * static_cast<size_t>(stride); }
  void begin(std::vector<HeadRow> rows, int finals, int scored);
  void finish(int scored);
  void work_read(int index, int threads);
  void work_step(int index, int threads);
  void work_guess(int index, int threads, int steps);
  void decode(int index, int threads);
  void gather(int index, int threads);
  void fuse_states(Space&, int row) const;
  void project(int index, int threads);
  void place(Space&, int begin, int end);
  void attend(int index, int threads);
  void attend_chunk(Space&, const HeadRow&, int row, int head, int chunk);
  void mix(int index, int threads);
  void feed_forward(int index, int threads);
  void score(int index, int threads, const Input& in, int count);
  void linear(const Packed&, const Input&, int begin, int end, float* out, int stride, int rows) const;
  void linear_add(const Packed&, const Input&, int begin, int end, float* out, int stride, int rows) const;
  Space& space(int index) const { return *spaces_[static_cast<size_t>(index)]; }
  float* x(int row) const { return x_.get() + at(row, h_); }
  size_t part(int row, int head, int chunk) const { return static_cast<size_t>((row * c_.heads + head) * chunks_ + chunk); }

  Head& head_;
  const HeadConfig& c_;
  const HeadWeights& w_;
  const Model& target_;
  const RopeTable& rope_;
  const Kernels& k_;
  Pool& pool_;
  int threads_, h_, wide_, stride_;
  std::vector<std::unique_ptr<Space>> spaces_;
  Buffer<float> x_, qkv_, up_, features_, logits_, part_out_, part_top_, part_sum_, ones_;
  Input down_;
  std::vector<HeadRow> rows_;
  std::vector<int> waiting_;  // rows whose states are fused first
  int finals_ = 0, chunks_ = 0;
  std::vector<float> best_;  // [threads, scored rows]
  std::vector<int> best_at_, largest_;
};

}  // namespace outrider
