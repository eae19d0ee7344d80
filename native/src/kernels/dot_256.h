// The quantised row kernel with 256-bit dot products: a panel is done in two halves of eight outputs.
// Included inside an instruction set's namespace that defines dot_blocks (see simd_portable.h).
constexpr int kQuantTile = 4;
constexpr int kTogether = 2;  // rows whose dots advance side by side; more would spill the sixteen registers

template <Format f>
INL void unpack_codes(const uint8_t* block, __m256i* code) {
  if constexpr (f == Format::Q8_0) {
    for (int j = 0; j < 8; ++j) code[j] = load_256(block + 64 * j);
  } else {
    const __m256i low = _mm256_set1_epi8(15);
    for (int j = 0; j < 4; ++j) {
      __m256i both = load_256(block + 64 * j);
      code[j] = _mm256_and_si256(both, low);
      code[j + 4] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
    }
  }
}

// One block of half a panel for rows [kFirst, kRows), their dots advancing kTogether at a time.
template <Format f, int kFirst, int kRows>
INL void add_block(const __m256i* code, const uint8_t* scales, const Tile& x, int block, __m256* acc) {
  constexpr int n = kRows - kFirst < kTogether ? kRows - kFirst : kTogether;
  const int at = block * kMaxTile + kFirst;
  __m256i dot[n];
  for (int r = 0; r < n; ++r)
    dot[r] = _mm256_set1_epi32(f == Format::Q4_1 ? 0 : f == Format::Q4_0 ? x.neg8[at + r] : x.neg128[at + r]);
  dot_blocks<f, n>(code, x.q + block * (kMaxTile * kBlock) + kFirst * kBlock, dot);
  const __m256 d = _mm256_cvtph_ps(load_128(scales));
  for (int r = 0; r < n; ++r) {
    __m256& to = acc[kFirst + r];
    to = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(dot[r]), d), _mm256_set1_ps(x.scale[at + r]), to);
  }
  if constexpr (f == Format::Q4_1) {
    const __m256 m = _mm256_cvtph_ps(load_128(scales + 2 * kLanes));
    for (int r = 0; r < n; ++r)
      acc[kFirst + r] = _mm256_fmadd_ps(m, _mm256_set1_ps(x.scaled[at + r]), acc[kFirst + r]);
  }
  if constexpr (kFirst + n < kRows) add_block<f, kFirst + n, kRows>(code, scales, x, block, acc);
}

template <Format f, int R>
INL void quant_half(const uint8_t* w, const Tile& x, int blocks, int half, __m256* acc) {
  for (int r = 0; r < R; ++r) acc[r] = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b, w += block_bytes(f)) {
    if (half == 0)
      for (int line = 0; line < block_bytes(f); line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(w + line + kFetchAhead), _MM_HINT_T1);
    __m256i code[8];
    unpack_codes<f>(w + 32 * half, code);
    add_block<f, 0, R>(code, w + code_bytes(f) + 16 * half, x, b, acc);
  }
}

template <Format f, int R, bool kAdd>
void quant_tile(const uint8_t* w, const Tile& x, int blocks, float* out, size_t stride) {
  for (int half = 0; half < 2; ++half) {
    __m256 acc[R];
    quant_half<f, R>(w, x, blocks, half, acc);
    for (int r = 0; r < R; ++r) {
      float* o = out + static_cast<size_t>(r) * stride + 8 * half;
      _mm256_storeu_ps(o, kAdd ? _mm256_add_ps(_mm256_loadu_ps(o), acc[r]) : acc[r]);
    }
  }
}
