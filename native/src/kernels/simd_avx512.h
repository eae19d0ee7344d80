// Sixteen lanes as one 512-bit register. Included inside an instruction set's namespace (see simd_portable.h).
struct F {
  __m512 v;
};
struct I {
  __m512i v;
};
struct M {
  __mmask16 v;
};

INL F load(const float* p) { return {_mm512_loadu_ps(p)}; }
INL void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
INL void store_i(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
INL F set1(float x) { return {_mm512_set1_ps(x)}; }
INL I set1_i(int32_t x) { return {_mm512_set1_epi32(x)}; }
INL I lanes() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
INL F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
INL F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
INL F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
INL F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
INL F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
INL F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
INL F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
INL I bits(F a) { return {_mm512_castps_si512(a.v)}; }
INL F from_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
INL F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
INL I to_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }
INL I add_i(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
INL I sub_i(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
INL I and_i(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
INL I xor_i(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
INL I max_i(I a, I b) { return {_mm512_max_epi32(a.v, b.v)}; }
template <int n> INL I shl(I a) { return {_mm512_slli_epi32(a.v, n)}; }
template <int n> INL I sra(I a) { return {_mm512_srai_epi32(a.v, n)}; }
template <int n> INL I srl(I a) { return {_mm512_srli_epi32(a.v, n)}; }
INL void mul_wide(I a, uint32_t m, I& hi, I& lo) {
  __m512i k = _mm512_set1_epi64(m);
  __m512i even = _mm512_mul_epu32(a.v, k), odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), k);
  lo.v = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  hi.v = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
INL M less(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
INL M is_zero(I a) { return {_mm512_testn_epi32_mask(a.v, a.v)}; }
INL M first(int n) { return {static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1u << n) - 1u)}; }
INL M from_mask(uint32_t m) { return {static_cast<__mmask16>(m)}; }
INL uint32_t to_mask(M m) { return m.v; }
INL F select(M m, F a, F b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
INL I select_i(M m, I a, I b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }
INL F load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
INL void store_f16(uint16_t* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INL F load_bf16(const uint16_t* p) {
  __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(w, 16))};
}
INL void store_i8(int8_t* p, I a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
INL F swap_pairs(F a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
INL float fold_add(F a) {
  __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_shuffle_ps(c, c, 1)));
}
INL float fold_max(F a) {
  __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  c = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
INL int32_t fold_add_i(I a) { return _mm512_reduce_add_epi32(a.v); }
INL int32_t fold_max_i(I a) { return _mm512_reduce_max_epi32(a.v); }
INL float lane0(F a) { return _mm512_cvtss_f32(a.v); }
INL void transpose_fours(I* x) {
  const __m512i a = _mm512_unpacklo_epi32(x[0].v, x[1].v), b = _mm512_unpackhi_epi32(x[0].v, x[1].v);
  const __m512i c = _mm512_unpacklo_epi32(x[2].v, x[3].v), d = _mm512_unpackhi_epi32(x[2].v, x[3].v);
  x[0].v = _mm512_unpacklo_epi64(a, c), x[1].v = _mm512_unpackhi_epi64(a, c);
  x[2].v = _mm512_unpacklo_epi64(b, d), x[3].v = _mm512_unpackhi_epi64(b, d);
}
