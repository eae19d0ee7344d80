// Products of packed matrices with rows: the drivers over panels and row tiles, and the float kernel.
// Included inside an instruction set's namespace (see simd_portable.h).

template <Format f, bool kAdd, int R>
INL void quant_tile_of(int n, const uint8_t* w, const Tile& x, int blocks, float* out, size_t stride) {
  if (n == R) {
    quant_tile<f, R, kAdd>(w, x, blocks, out, stride);
  } else if constexpr (R > 1) {
    quant_tile_of<f, kAdd, R - 1>(n, w, x, blocks, out, stride);
  }
}

template <Format f, bool kAdd>
void quant_panels(const Packed& m, const QuantRows& x, int rows, int begin, int end, float* out, size_t stride) {
  const int blocks = m.cols / kBlock;
  for (int panel = begin; panel < end; ++panel) {
    const uint8_t* w = m.data + static_cast<size_t>(panel) * m.panel_bytes;
    for (int r = 0; r < rows; r += kQuantTile) {
      const int n = rows - r < kQuantTile ? rows - r : kQuantTile;
      float* o = out + static_cast<size_t>(r) * stride + static_cast<size_t>(panel) * kLanes;
      quant_tile_of<f, kAdd, kQuantTile>(n, w, tile_at(x, r), blocks, o, stride);
    }
  }
}

template <bool kAdd>
void quant_linear(const Packed& m, const QuantRows& x, int rows, int begin, int end, float* out, size_t stride) {
  if (m.format == Format::Q4_1) return quant_panels<Format::Q4_1, kAdd>(m, x, rows, begin, end, out, stride);
  if (m.format == Format::Q4_0) return quant_panels<Format::Q4_0, kAdd>(m, x, rows, begin, end, out, stride);
  quant_panels<Format::Q8_0, kAdd>(m, x, rows, begin, end, out, stride);
}

template <Format f>
INL F load_weights(const uint8_t* w, int k) {
  if constexpr (f == Format::F32) return load(reinterpret_cast<const float*>(w) + k * kLanes);
  if constexpr (f == Format::F16) return load_f16(reinterpret_cast<const uint16_t*>(w) + k * kLanes);
  if constexpr (f == Format::BF16) return load_bf16(reinterpret_cast<const uint16_t*>(w) + k * kLanes);
}

// acc = fma(w, x, acc), k ascending: one chain an output, so that no tiling can change it
template <Format f, int R, bool kAdd>
void float_tile(const uint8_t* w, const float* x, int cols, float* out, size_t stride) {
  F acc[R];
  for (int r = 0; r < R; ++r) acc[r] = set1(0.0f);
  for (int k = 0; k < cols; ++k) {
    const F column = load_weights<f>(w, k);
    for (int r = 0; r < R; ++r) acc[r] = fma(column, set1(x[static_cast<size_t>(r) * static_cast<size_t>(cols) + static_cast<size_t>(k)]), acc[r]);
  }
  for (int r = 0; r < R; ++r) {
    float* o = out + static_cast<size_t>(r) * stride;
    store(o, kAdd ? add(load(o), acc[r]) : acc[r]);
  }
}

template <Format f, bool kAdd>
void float_panels(const Packed& m, const float* x, int rows, int begin, int end, float* out, size_t stride) {
  for (int panel = begin; panel < end; ++panel) {
    const uint8_t* w = m.data + static_cast<size_t>(panel) * m.panel_bytes;
    for (int r = 0; r < rows;) {
      const float* row = x + static_cast<size_t>(r) * static_cast<size_t>(m.cols);
      float* o = out + static_cast<size_t>(r) * stride + static_cast<size_t>(panel) * kLanes;
      const int left = rows - r;
      if (left >= 4) {
        float_tile<f, 4, kAdd>(w, row, m.cols, o, stride), r += 4;
      } else if (left >= 2) {
        float_tile<f, 2, kAdd>(w, row, m.cols, o, stride), r += 2;
      } else {
        float_tile<f, 1, kAdd>(w, row, m.cols, o, stride), r += 1;
      }
    }
  }
}

template <bool kAdd>
void float_linear(const Packed& m, const float* x, int rows, int begin, int end, float* out, size_t stride) {
  if (m.format == Format::F32) return float_panels<Format::F32, kAdd>(m, x, rows, begin, end, out, stride);
  if (m.format == Format::F16) return float_panels<Format::F16, kAdd>(m, x, rows, begin, end, out, stride);
  float_panels<Format::BF16, kAdd>(m, x, rows, begin, end, out, stride);
}

// One output's weights, exactly as stored: d * code (+ m), each one float32 rounding.
INL float weight_at(const Packed& m, const uint8_t* panel, int lane, int k) {
  if (m.format == Format::F32) return reinterpret_cast<const float*>(panel)[k * kLanes + lane];
  if (m.format == Format::F16) return half_to_float(reinterpret_cast<const uint16_t*>(panel)[k * kLanes + lane]);
  if (m.format == Format::BF16) {
    uint32_t u = static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(panel)[k * kLanes + lane]) << 16;
    float r;
    __builtin_memcpy(&r, &u, 4);
    return r;
  }
  const uint8_t* block = panel + static_cast<size_t>(k / kBlock) * static_cast<size_t>(block_bytes(m.format));
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(block + code_bytes(m.format));
  const float d = half_to_float(scales[lane]);
  const int i = k % kBlock;
  if (m.format == Format::Q8_0) return d * static_cast<float>(block[i / 4 * 64 + lane * 4 + i % 4] - 128);
  const int j = i % 16, both = block[j / 4 * 64 + lane * 4 + j % 4], code = i < 16 ? both & 15 : both >> 4;
  if (m.format == Format::Q4_0) return d * static_cast<float>(code - 8);
  return d * static_cast<float>(code) + half_to_float(scales[kLanes + lane]);
}

void dequant_row(const Packed& m, int row, float* out) {
  const uint8_t* panel = m.data + static_cast<size_t>(row / kLanes) * m.panel_bytes;
  for (int k = 0; k < m.cols; ++k) out[k] = weight_at(m, panel, row % kLanes, k);
}
