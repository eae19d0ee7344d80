// The quantised row kernel in plain C++. Included inside an instruction set's namespace (see simd_portable.h).
constexpr int kQuantTile = 4;

template <Format f>
INL void unpack_codes(const uint8_t* block, uint8_t code[8][64]) {
  if constexpr (f == Format::Q8_0) {
    __builtin_memcpy(code, block, 512);
  } else {
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 64; ++i) {
        code[j][i] = block[64 * j + i] & 15;
        code[j + 4][i] = block[64 * j + i] >> 4;
      }
  }
}

template <Format f, int R, bool kAdd>
void quant_tile(const uint8_t* w, const Tile& x, int blocks, float* out, size_t stride) {
  F acc[R];
  for (int r = 0; r < R; ++r) acc[r] = set1(0.0f);
  for (int b = 0; b < blocks; ++b) {
    uint8_t code[8][64];
    unpack_codes<f>(w, code);
    uint16_t scales[2 * kLanes];
    __builtin_memcpy(scales, w + code_bytes(f), static_cast<size_t>(block_bytes(f) - code_bytes(f)));
    const F d = load_f16(scales);
    const int at = b * kMaxTile;
    for (int r = 0; r < R; ++r) {
      const int8_t* q = x.q + b * (kMaxTile * kBlock) + r * kBlock;
      I dot = set1_i(f == Format::Q4_1 ? 0 : f == Format::Q4_0 ? x.neg8[at + r] : x.neg128[at + r]);
      for (int j = 0; j < 8; ++j)
        for (int lane = 0; lane < kLanes; ++lane)
          for (int k = 0; k < 4; ++k) dot.v[lane] += static_cast<int32_t>(code[j][4 * lane + k]) * q[4 * j + k];
      acc[r] = fma(mul(to_float(dot), d), set1(x.scale[at + r]), acc[r]);
      if constexpr (f == Format::Q4_1) acc[r] = fma(load_f16(scales + kLanes), set1(x.scaled[at + r]), acc[r]);
    }
    w += block_bytes(f);
  }
  for (int r = 0; r < R; ++r) {
    float* o = out + static_cast<size_t>(r) * stride;
    store(o, kAdd ? add(load(o), acc[r]) : acc[r]);
  }
}
