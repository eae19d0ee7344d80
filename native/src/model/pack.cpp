// From the rows of a file to panels of 16 outputs. Codes and scales stay as stored; only their places change.
#include <cstring>
#include <stdexcept>

#include "outrider/model.h"

namespace outrider {
namespace {

#define INL static inline
#include "../kernels/half.h"
#undef INL

struct SourceBlock {
  int bytes, scales, codes;  // bytes of a block, of the scales in front of it, of its codes
};

SourceBlock source_block(Format f) {
  switch (f) {
    case Format::Q4_0: return {18, 2, 16};
    case Format::Q4_1: return {20, 4, 16};
    case Format::Q8_0: return {34, 2, 32};
    default: throw std::logic_error("not a block format");
  }
}

void pack_quantised(Format f, const uint8_t* rows, int count, int cols, uint8_t* panel) {
  const SourceBlock s = source_block(f);
  const size_t row_bytes = source_row_bytes(f, cols), block = static_cast<size_t>(s.codes * kLanes + 2 * kLanes * (s.scales / 2));
  const uint32_t flip = f == Format::Q8_0 ? 0x80808080u : 0u;  // signed codes become unsigned with offset 128
  for (int lane = 0; lane < count; ++lane) {
    const uint8_t* in = rows + static_cast<size_t>(lane) * row_bytes;
    uint8_t* out = panel;
    for (int b = 0; b < cols / kBlock; ++b, in += s.bytes, out += block) {
      for (int g = 0; g < s.codes / 4; ++g) {
        uint32_t four;
        std::memcpy(&four, in + s.scales + 4 * g, 4);
        four ^= flip;
        std::memcpy(out + 64 * g + 4 * lane, &four, 4);
      }
      for (int i = 0; i < s.scales / 2; ++i)
        std::memcpy(out + s.codes * kLanes + 2 * kLanes * i + 2 * lane, in + 2 * i, 2);
    }
  }
}

float read_half(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return half_to_float(h);
}

// The row as float32: d * code (+ m), each one rounding, as every reader of these formats has it.
void dequantise(Format f, const uint8_t* in, int cols, float* out) {
  if (f == Format::F32) {
    std::memcpy(out, in, static_cast<size_t>(cols) * 4);
  } else if (f == Format::F16) {
    for (int k = 0; k < cols; ++k) out[k] = read_half(in + 2 * k);
  } else if (f == Format::BF16) {
    for (int k = 0; k < cols; ++k) {
      const uint32_t u = static_cast<uint32_t>(in[2 * k] | in[2 * k + 1] << 8) << 16;
      std::memcpy(out + k, &u, 4);
    }
  } else {
    const SourceBlock s = source_block(f);
    for (int b = 0; b < cols / kBlock; ++b, in += s.bytes, out += kBlock) {
      const float d = read_half(in), m = f == Format::Q4_1 ? read_half(in + 2) : 0.0f;
      const uint8_t* code = in + s.scales;
      for (int i = 0; i < kBlock; ++i) {
        if (f == Format::Q8_0) {
          out[i] = d * static_cast<float>(static_cast<int8_t>(code[i]));
        } else {
          const int c = i < 16 ? code[i] & 15 : code[i - 16] >> 4;
          out[i] = f == Format::Q4_0 ? d * static_cast<float>(c - 8) : d * static_cast<float>(c) + m;
        }
      }
    }
  }
}

template <class T>
void pack_columns(const uint8_t* rows, size_t row_bytes, int count, int cols, uint8_t* panel) {
  for (int lane = 0; lane < count; ++lane)
    for (int k = 0; k < cols; ++k)
      std::memcpy(panel + sizeof(T) * static_cast<size_t>(k * kLanes + lane),
                  rows + static_cast<size_t>(lane) * row_bytes + sizeof(T) * static_cast<size_t>(k), sizeof(T));
}

}  // namespace

bool is_quantised(Format f) { return f == Format::Q8_0 || f == Format::Q4_0 || f == Format::Q4_1; }

Format format_of(const std::string& type) {
  static const std::unordered_map<std::string, Format> known = {
      {"F32", Format::F32},   {"F16", Format::F16},   {"BF16", Format::BF16},
      {"Q8_0", Format::Q8_0}, {"Q4_0", Format::Q4_0}, {"Q4_1", Format::Q4_1}};
  const auto found = known.find(type);
  if (found == known.end()) throw std::invalid_argument("tensor type '" + type + "' is not supported");
  return found->second;
}

size_t source_row_bytes(Format f, int cols) {
  const size_t k = static_cast<size_t>(cols);
  if (f == Format::F32) return 4 * k;
  if (!is_quantised(f)) return 2 * k;
  return k / kBlock * static_cast<size_t>(source_block(f).bytes);
}

Packed packed_layout(Format f, int rows, int cols) {
  Packed p;
  p.format = f;
  p.rows = rows;
  p.cols = cols;
  p.panels = (rows + kLanes - 1) / kLanes;
  p.panel_bytes = source_row_bytes(f, cols) * kLanes;  // the same bytes in another order
  return p;
}

void pack_panel(Format source, bool dense, const uint8_t* rows, int count, int cols, float* scratch, uint8_t* panel) {
  const size_t row_bytes = source_row_bytes(source, cols);
  if (!dense && is_quantised(source)) return pack_quantised(source, rows, count, cols, panel);
  if (!dense && source != Format::F32) return pack_columns<uint16_t>(rows, row_bytes, count, cols, panel);
  for (int lane = 0; lane < count; ++lane)
    dequantise(source, rows + static_cast<size_t>(lane) * row_bytes, cols, scratch + static_cast<size_t>(lane) * static_cast<size_t>(cols));
  pack_columns<float>(reinterpret_cast<const uint8_t*>(scratch), static_cast<size_t>(cols) * 4, count, cols, panel);
}

}  // namespace outrider
