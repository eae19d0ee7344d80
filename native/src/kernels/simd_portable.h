// Sixteen lanes in plain C++: this file defines what the other instruction sets must equal.
// Included inside an instruction set's namespace; uses no std templates, so that no code compiled for one
// instruction set can be chosen by the linker for another.
#define OUTRIDER_FOR for (int i = 0; i < 16; ++i)

struct F {
  float v[16];
};
struct I {
  int32_t v[16];
};
struct M {
  bool v[16];
};

INL F load(const float* p) { F r; OUTRIDER_FOR r.v[i] = p[i]; return r; }
INL void store(float* p, F a) { OUTRIDER_FOR p[i] = a.v[i]; }
INL void store_i(int32_t* p, I a) { OUTRIDER_FOR p[i] = a.v[i]; }
INL F set1(float x) { F r; OUTRIDER_FOR r.v[i] = x; return r; }
INL I set1_i(int32_t x) { I r; OUTRIDER_FOR r.v[i] = x; return r; }
INL I lanes() { I r; OUTRIDER_FOR r.v[i] = i; return r; }
INL F add(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] + b.v[i]; return a; }
INL F sub(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] - b.v[i]; return a; }
INL F mul(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] * b.v[i]; return a; }
INL F div(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] / b.v[i]; return a; }
INL F fma(F a, F b, F c) { OUTRIDER_FOR a.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]); return a; }
// as the x86 instructions: the second operand where either is NaN
INL F max(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return a; }
INL F min(F a, F b) { OUTRIDER_FOR a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i]; return a; }
INL I bits(F a) { I r; __builtin_memcpy(&r, &a, 64); return r; }
INL F from_bits(I a) { F r; __builtin_memcpy(&r, &a, 64); return r; }
INL F to_float(I a) { F r; OUTRIDER_FOR r.v[i] = static_cast<float>(a.v[i]); return r; }
// round to nearest even for |x| < 2^22, by the constant 1.5 * 2^23 whose ulp is one
INL I to_int(F a) { I r; OUTRIDER_FOR r.v[i] = static_cast<int32_t>((a.v[i] + 12582912.0f) - 12582912.0f); return r; }
INL I add_i(I a, I b) { OUTRIDER_FOR a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])); return a; }
INL I sub_i(I a, I b) { OUTRIDER_FOR a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i])); return a; }
INL I and_i(I a, I b) { OUTRIDER_FOR a.v[i] &= b.v[i]; return a; }
INL I xor_i(I a, I b) { OUTRIDER_FOR a.v[i] ^= b.v[i]; return a; }
INL I max_i(I a, I b) { OUTRIDER_FOR a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return a; }
template <int n> INL I shl(I a) { OUTRIDER_FOR a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n); return a; }
template <int n> INL I sra(I a) { OUTRIDER_FOR a.v[i] >>= n; return a; }
template <int n> INL I srl(I a) { OUTRIDER_FOR a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n); return a; }
INL void mul_wide(I a, uint32_t m, I& hi, I& lo) {
  OUTRIDER_FOR {
    uint64_t p = static_cast<uint64_t>(static_cast<uint32_t>(a.v[i])) * m;
    hi.v[i] = static_cast<int32_t>(static_cast<uint32_t>(p >> 32));
    lo.v[i] = static_cast<int32_t>(static_cast<uint32_t>(p));
  }
}
INL M less(F a, F b) { M r; OUTRIDER_FOR r.v[i] = a.v[i] < b.v[i]; return r; }
INL M is_zero(I a) { M r; OUTRIDER_FOR r.v[i] = a.v[i] == 0; return r; }
INL M first(int n) { M r; OUTRIDER_FOR r.v[i] = i < n; return r; }
INL M from_mask(uint32_t m) { M r; OUTRIDER_FOR r.v[i] = (m >> i) & 1; return r; }
INL uint32_t to_mask(M m) { uint32_t r = 0; OUTRIDER_FOR r |= static_cast<uint32_t>(m.v[i]) << i; return r; }
INL F select(M m, F a, F b) { OUTRIDER_FOR a.v[i] = m.v[i] ? a.v[i] : b.v[i]; return a; }
INL I select_i(M m, I a, I b) { OUTRIDER_FOR a.v[i] = m.v[i] ? a.v[i] : b.v[i]; return a; }
INL F load_f16(const uint16_t* p) { F r; OUTRIDER_FOR r.v[i] = half_to_float(p[i]); return r; }
INL void store_f16(uint16_t* p, F a) { OUTRIDER_FOR p[i] = float_to_half(a.v[i]); }
INL F load_bf16(const uint16_t* p) { I r; OUTRIDER_FOR r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16); return from_bits(r); }
INL void store_i8(int8_t* p, I a) { OUTRIDER_FOR p[i] = static_cast<int8_t>(a.v[i]); }
// swaps the two elements of each pair
INL F swap_pairs(F a) { F r; OUTRIDER_FOR r.v[i] = a.v[i ^ 1]; return r; }
// the fixed tree in which sixteen lanes become one: i with i + 8, then + 4, + 2, + 1
INL float fold_add(F a) {
  for (int h = 8; h; h >>= 1)
    for (int i = 0; i < h; ++i) a.v[i] = a.v[i] + a.v[i + h];
  return a.v[0];
}
INL float fold_max(F a) {
  for (int h = 8; h; h >>= 1)
    for (int i = 0; i < h; ++i) a.v[i] = a.v[i] > a.v[i + h] ? a.v[i] : a.v[i + h];
  return a.v[0];
}
INL int32_t fold_add_i(I a) { int32_t s = 0; OUTRIDER_FOR s += a.v[i]; return s; }
INL int32_t fold_max_i(I a) { int32_t s = a.v[0]; OUTRIDER_FOR s = a.v[i] > s ? a.v[i] : s; return s; }
INL float lane0(F a) { return a.v[0]; }
// in each group of four lanes, lane i of vector j becomes lane j of vector i
INL void transpose_fours(I* x) {
  for (int group = 0; group < 16; group += 4)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < i; ++j) {
        const int32_t other = x[i].v[group + j];
        x[i].v[group + j] = x[j].v[group + i];
        x[j].v[group + i] = other;
      }
}
#undef OUTRIDER_FOR
