// What the kernels and the model share: storage formats, packed matrices, quantised rows.
// Dimensions: N outputs, K inputs, V vocabulary, d elements of an attention head.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

constexpr int kLanes = 16;   // outputs side by side in a panel, positions in a key group, lanes of every float sum
constexpr int kBlock = 32;   // values of K that share a scale
constexpr int kChunk = 256;  // absolute positions whose attention is computed together
constexpr int kChunkGroups = kChunk / kLanes;
constexpr int kMaxHeadDim = 256;
constexpr int kFetchAhead = 8192;  // bytes of weights that are on their way from memory
constexpr int kLine = 64;          // bytes of a cache line
constexpr int kMaxTile = 16;  // rows of a tile of the quantised layout

enum class Format : uint8_t { F32, F16, BF16, Q8_0, Q4_0, Q4_1 };

enum class CacheType : uint8_t { F16, F32 };

// A matrix [N, K], repacked: panels of 16 outputs, each a run of K blocks (or of K single values for float formats).
struct Packed {
  Format format = Format::F32;
  int rows = 0;    // N
  int cols = 0;    // K
  int panels = 0;  // ceil(N / 16); outputs past N are zero
  size_t panel_bytes = 0;
  const uint8_t* data = nullptr;
};

// Rows quantised to symmetric int8 in blocks of 32 (docs/numerics.md), block-major in tiles of 16 rows: block b of row r
// of tile t is number (t * K / 32 + b) * 16 + r. Every pointer is to the first block of row 0.
struct QuantRows {
  const int8_t* q = nullptr;        // [tiles, K / 32, 16, 32]
  const float* scale = nullptr;     // [tiles, K / 32, 16]
  const float* scaled = nullptr;    // [tiles, K / 32, 16] scale * float(sum of q), for formats with minima
  const int32_t* neg8 = nullptr;    // [tiles, K / 32, 16] -8 * sum of q
  const int32_t* neg128 = nullptr;  // [tiles, K / 32, 16] -128 * sum of q
  int cols = 0;
};

// Memory that is to be brought into the second-level cache on the side; at moves on.
struct Fetch {
  const uint8_t* at = nullptr;
  const uint8_t* end = nullptr;
};

// One after the other; next moves on.
struct FetchList {
  Fetch* next = nullptr;
  Fetch* end = nullptr;
};

// The queries that attend together to one chunk of 256 positions and read the same keys.
struct AttendTile {
  int queries = 0;
  int dim = 0;
  const float* const* query = nullptr;  // [queries] -> [d], rotated and scaled
  const int* visible = nullptr;         // [queries] positions of the chunk that the query sees, 1..256
  const void* const* keys = nullptr;    // [16] -> [d, 16 positions]
  const void* const* values = nullptr;  // [16] -> [16 positions, d]
  float* weights = nullptr;             // scratch [queries, 256]
  float* top = nullptr;                 // [queries] maximum of the scores
  float* sum = nullptr;                 // [queries] sum of exp(score - maximum)
  float* out = nullptr;                 // [queries, d] sum of exp(score - maximum) * value
  FetchList* fetch = nullptr;           // what comes after; may be nothing
};

struct DrawKey {
  uint64_t seed = 0;
  uint32_t position = 0;
  uint32_t sample = 0;
  uint32_t purpose = 0;
};

// One numerics, several instruction sets: every entry of every table gives the same bits (docs/numerics.md).
struct Kernels {
  const char* name;
  // out[r, panel * 16 + lane] = (or +=) W x_r for the panels [begin, end) and all rows; a row never sees the others
  void (*quant_linear)(const Packed&, const QuantRows&, int rows, int begin, int end, float* out, size_t stride);
  void (*quant_linear_add)(const Packed&, const QuantRows&, int rows, int begin, int end, float* out, size_t stride);
  void (*float_linear)(const Packed&, const float* x, int rows, int begin, int end, float* out, size_t stride);
  void (*float_linear_add)(const Packed&, const float* x, int rows, int begin, int end, float* out, size_t stride);
  // one row; its blocks lie kMaxTile apart (QuantRows)
  void (*quantise)(const float* x, int count, int8_t* q, float* scale, float* scaled, int32_t* neg8, int32_t* neg128);
  void (*rms_norm)(const float* x, const float* weight, float eps, int count, float* out);
  void (*silu_mul)(float* gate, const float* up, int count);  // gate = silu(gate) * up
  void (*rope)(const float* x, const float* cosines, const float* sines, float factor, int dim, float* out);
  void (*attend)(const AttendTile&, CacheType);
  void (*merge)(float* top, float* sum, float* out, float top2, float sum2, const float* out2, int dim);
  void (*finish)(const float* out, float sum, int dim, float* result);  // result = out * (1 / sum)
  void (*round_to_f16)(const float* x, int count, uint16_t* out);
  void (*dequant_row)(const Packed&, int row, float* out);  // one output's weights as float32, for embeddings
  // arg-max of x[begin, end) with the lowest index on ties; NaN counts as -inf
  void (*argmax)(const float* x, int begin, int end, float* best, int* index);
  // arg-max of x * inverse_temperature + noise; likely: an id whose logit is large, which costs nothing but time
  void (*draw)(const float* x, int count, float inverse_temperature, const DrawKey&, int likely, int* index);
  // as draw, of entries that stand for ids [count], ascending; count in whole vectors
  void (*draw_ids)(const float* x, const int32_t* ids, int count, float inverse_temperature, const DrawKey&, int likely, int* index);
  // The sampling transforms (sampling.h). Rows of scores are padded to whole vectors.
  void (*scale_row)(const float* x, int count, float factor, const uint32_t* mask, float* out);
  float (*exp_sum)(const float* x, int count, float best, float* weights);
  float (*distance_sum)(const float* x, const float* weights, int count, float best);
  void (*nearness)(const float* x, const float* weights, int count, float best, float mean, float* out);
  void (*drop_light)(float* x, const float* weights, int count, float least);
  void (*divide)(float* x, int count, float by);
  int (*gather)(const float* x, int begin, int end, float over, float upto, int32_t* ids, int room, int* found);
  float (*log_of)(float x);
};

}  // namespace outrider
