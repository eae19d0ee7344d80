// The quantised row kernel with 512-bit dot products: sixteen outputs are the lanes, four values of K a step.
// Included inside an instruction set's namespace (see simd_portable.h).
constexpr int kQuantTile = 16;
constexpr int kTogether = 5;  // rows whose dots advance side by side, at most; four chains hide the latency of one

template <Format f>
INL void unpack_codes(const uint8_t* block, __m512i* code) {
  if constexpr (f == Format::Q8_0) {
    for (int j = 0; j < 8; ++j) code[j] = _mm512_loadu_si512(block + 64 * j);
  } else {
    const __m512i low = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; ++j) {
      __m512i both = _mm512_loadu_si512(block + 64 * j);
      code[j] = _mm512_and_si512(both, low);
      code[j + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
  }
}

// One block of a panel for rows [kFirst, kRows), their dots advancing in even shares: a row left alone would wait for
// itself (5 rows at once, not 4 and 1: 2 to 5 % of their products).
template <Format f, int kFirst, int kRows>
INL void add_block(const __m512i* code, __m512 d, __m512 m, const Tile& x, int block, __m512* acc) {
  constexpr int left = kRows - kFirst, shares = (left + kTogether - 1) / kTogether, n = (left + shares - 1) / shares;
  const int8_t* q = x.q + block * (kMaxTile * kBlock) + kFirst * kBlock;
  const int at = block * kMaxTile + kFirst;
  __m512i dot[n];
  for (int r = 0; r < n; ++r)
    dot[r] = f == Format::Q4_1   ? _mm512_setzero_si512()
             : f == Format::Q4_0 ? _mm512_set1_epi32(x.neg8[at + r])
                                 : _mm512_set1_epi32(x.neg128[at + r]);
  for (int j = 0; j < 8; ++j)
    for (int r = 0; r < n; ++r) {
      int32_t four;
      __builtin_memcpy(&four, q + r * kBlock + 4 * j, 4);
      dot[r] = _mm512_dpbusd_epi32(dot[r], code[j], _mm512_set1_epi32(four));
    }
  for (int r = 0; r < n; ++r) {
    __m512& to = acc[kFirst + r];
    to = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(dot[r]), d), _mm512_set1_ps(x.scale[at + r]), to);
    if constexpr (f == Format::Q4_1) to = _mm512_fmadd_ps(m, _mm512_set1_ps(x.scaled[at + r]), to);
  }
  if constexpr (kFirst + n < kRows) add_block<f, kFirst + n, kRows>(code, d, m, x, block, acc);
}

// R rows times one panel. x is block-major inside a tile of 16 rows: one pointer serves every row.
template <Format f, int R, bool kAdd>
void quant_tile(const uint8_t* w, const Tile& x, int blocks, float* out, size_t stride) {
  __m512 acc[R];
  for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
  for (int b = 0; b < blocks; ++b, w += block_bytes(f)) {
    // The hardware's stream stops at a page's end; this far ahead it starts anew in time. Into the second level: in the
    // first, weights would push out the rows (15 % of a pass of 5 rows on Zen 4).
    for (int line = 0; line < block_bytes(f); line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(w + line + kFetchAhead), _MM_HINT_T1);
    __m512i code[8];
    unpack_codes<f>(w, code);
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(w + code_bytes(f));
    const __m512 m = f == Format::Q4_1 ? load_f16(scales + kLanes).v : _mm512_setzero_ps();
    add_block<f, 0, R>(code, load_f16(scales).v, m, x, b, acc);
  }
  for (int r = 0; r < R; ++r) {
    float* o = out + static_cast<size_t>(r) * stride;
    _mm512_storeu_ps(o, kAdd ? _mm512_add_ps(_mm512_loadu_ps(o), acc[r]) : acc[r]);
  }
}
