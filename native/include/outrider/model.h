// The weights of a model, repacked once at load for the row kernels.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "outrider/buffer.h"
#include "outrider/isa.h"
#include "outrider/types.h"

namespace outrider {

constexpr int kMaxGroup = 64;  // query heads that share a key head

struct ModelConfig {
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, feed_forward = 0, vocab = 0, context = 0;
  float norm_eps = 0.0f;
  double rope_base = 0.0, rope_linear_factor = 1.0;
  std::string rope_factors;  // name of the tensor of divisors, or empty
  bool tied_head = false;
  bool dense = false;  // float32 weights and cache: to compare with a reference, not for speed
};

struct TensorSource {
  std::string name, type;
  std::vector<int64_t> shape;  // outputs, inputs
  int64_t offset = 0;          // bytes from the start of the file
};

struct Layer {
  const float *attn_norm = nullptr, *ffn_norm = nullptr;
  Packed q, k, v, o, gate, up, down;
};

// Positions' cosines and sines, computed in double by fixed polynomials, grown as positions are asked for.
class RopeTable {
 public:
  RopeTable(const ModelConfig& config, const float* factors);
  void grow(int positions);
  const float* cosines(int position) const { return cos_.data() + static_cast<size_t>(position) * dim_; }
  const float* sines(int position) const { return sin_.data() + static_cast<size_t>(position) * dim_; }

 private:
  size_t dim_;
  int positions_ = 0, context_;
  std::vector<float> frequency_, cos_, sin_;
};

class Model {
 public:
  // Reads and repacks; throws std::invalid_argument for a configuration the kernels cannot run, std::runtime_error
  // where the file cannot be read.
  Model(const ModelConfig&, const std::string& path, const std::vector<TensorSource>&, int threads);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  ModelConfig config;
  std::vector<Layer> layers;
  Packed embedding, head;
  const float *output_norm = nullptr, *rope_factors = nullptr;
  size_t weight_bytes = 0;
  CacheType cache_type = CacheType::F16;

 private:
  friend class Loader;
  Arena arena_;
  size_t arena_bytes_ = 0;
};

Format format_of(const std::string& type);  // throws std::invalid_argument
Packed packed_layout(Format, int rows, int cols);
inline size_t packed_bytes(const Packed& p) { return p.panel_bytes * static_cast<size_t>(p.panels); }
size_t source_row_bytes(Format, int cols);
// Packs 16 source rows (fewer at the end) into one panel; dense turns every format into F32 first. scratch: [16, K].
void pack_panel(Format source, bool dense, const uint8_t* rows, int count, int cols, float* scratch, uint8_t* panel);
bool is_quantised(Format);

}  // namespace outrider
