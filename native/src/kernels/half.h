// IEEE half precision in plain C++, round to nearest even: what vcvtph2ps and vcvtps2ph do.
// Included inside an instruction set's namespace (see simd_portable.h).
INL float half_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1Fu, fraction = h & 0x3FFu, out;
  if (exponent == 31) {
    out = sign | 0x7F800000u | (fraction << 13) | (fraction ? 0x400000u : 0u);  // the instruction quiets NaNs
  } else if (exponent) {
    out = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else {
    float f = static_cast<float>(fraction) * 0x1p-24f;  // exact
    __builtin_memcpy(&out, &f, 4);
    out |= sign;
  }
  float r;
  __builtin_memcpy(&r, &out, 4);
  return r;
}

INL uint16_t float_to_half(float f) {
  uint32_t x;
  __builtin_memcpy(&x, &f, 4);
  uint32_t sign = (x >> 16) & 0x8000u, a = x & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((a >> 13) & 0x3FFu));
  if (a >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7C00u);  // 65536 and above
  if (a < 0x38800000u) {                                               // subnormal in half: add rounds at 2^-24
    float magnitude;
    __builtin_memcpy(&magnitude, &a, 4);
    float shifted = magnitude + 0.5f;
    uint32_t s;
    __builtin_memcpy(&s, &shifted, 4);
    return static_cast<uint16_t>(sign | (s - 0x3F000000u));
  }
  uint32_t rounded = a + 0xFFFu + ((a >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));  // a carry into infinity is right
}
