// Sixteen lanes as two 256-bit registers. Included inside an instruction set's namespace (see simd_portable.h).
struct F {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
struct M {
  __m256i a, b;  // all ones or all zeros
};

INL F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INL void store(float* p, F x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
INL __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
INL void store_256(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
INL void store_i(int32_t* p, I x) { store_256(p, x.a), store_256(p + 8, x.b); }
INL F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INL I set1_i(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INL I lanes() { return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)}; }
INL F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INL F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INL F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INL F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INL F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INL F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INL F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INL I bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
INL F from_bits(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INL F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
INL I to_int(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
INL I add_i(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INL I sub_i(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
INL I and_i(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INL I xor_i(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
INL I max_i(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
template <int n> INL I shl(I x) { return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)}; }
template <int n> INL I sra(I x) { return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)}; }
template <int n> INL I srl(I x) { return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)}; }
INL void mul_wide_256(__m256i x, __m256i k, __m256i& hi, __m256i& lo) {
  __m256i even = _mm256_mul_epu32(x, k), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), k);
  lo = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  hi = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
INL void mul_wide(I x, uint32_t m, I& hi, I& lo) {
  __m256i k = _mm256_set1_epi64x(m);
  mul_wide_256(x.a, k, hi.a, lo.a);
  mul_wide_256(x.b, k, hi.b, lo.b);
}
INL M less(F x, F y) {
  return {_mm256_castps_si256(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)), _mm256_castps_si256(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
INL M is_zero(I x) {
  __m256i z = _mm256_setzero_si256();
  return {_mm256_cmpeq_epi32(x.a, z), _mm256_cmpeq_epi32(x.b, z)};
}
INL M first(int n) {
  __m256i k = _mm256_set1_epi32(n);
  I l = lanes();
  return {_mm256_cmpgt_epi32(k, l.a), _mm256_cmpgt_epi32(k, l.b)};
}
INL M from_mask(uint32_t m) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), low = _mm256_set1_epi32(static_cast<int>(m)),
                high = _mm256_set1_epi32(static_cast<int>(m >> 8));
  return {_mm256_cmpeq_epi32(_mm256_and_si256(low, bit), bit), _mm256_cmpeq_epi32(_mm256_and_si256(high, bit), bit)};
}
INL uint32_t to_mask(M m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(m.a))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(m.b))) << 8;
}
INL F select(M m, F x, F y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(m.a)), _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(m.b))};
}
INL I select_i(M m, I x, I y) { return {_mm256_blendv_epi8(y.a, x.a, m.a), _mm256_blendv_epi8(y.b, x.b, m.b)}; }
INL __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
INL F load_f16(const uint16_t* p) { return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))}; }
INL void store_f16(uint16_t* p, F x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
INL F load_bf16(const uint16_t* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p + 8)), 16))};
}
INL void store_i8(int8_t* p, I x) {
  __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
INL F swap_pairs(F x) { return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)}; }
INL float fold_add(F x) {
  __m256 b = _mm256_add_ps(x.a, x.b);
  __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
INL float fold_max(F x) {
  __m256 b = _mm256_max_ps(x.a, x.b);
  __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
INL int32_t fold_add_i(I x) {
  __m256i b = _mm256_add_epi32(x.a, x.b);
  __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xB1)));
}
INL int32_t fold_max_i(I x) {
  __m256i b = _mm256_max_epi32(x.a, x.b);
  __m128i c = _mm_max_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xB1)));
}
INL float lane0(F x) { return _mm256_cvtss_f32(x.a); }
INL void transpose_fours_256(__m256i& x0, __m256i& x1, __m256i& x2, __m256i& x3) {
  const __m256i a = _mm256_unpacklo_epi32(x0, x1), b = _mm256_unpackhi_epi32(x0, x1);
  const __m256i c = _mm256_unpacklo_epi32(x2, x3), d = _mm256_unpackhi_epi32(x2, x3);
  x0 = _mm256_unpacklo_epi64(a, c), x1 = _mm256_unpackhi_epi64(a, c);
  x2 = _mm256_unpacklo_epi64(b, d), x3 = _mm256_unpackhi_epi64(b, d);
}
INL void transpose_fours(I* x) {
  transpose_fours_256(x[0].a, x[1].a, x[2].a, x[3].a);
  transpose_fours_256(x[0].b, x[1].b, x[2].b, x[3].b);
}
// four bytes, everywhere
INL __m256i four_of(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  return _mm256_set1_epi32(four);
}
