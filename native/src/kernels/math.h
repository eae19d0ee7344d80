// exp and log of our own: float32 multiply and add only, so that numpy in core/ can equal them bit for bit.
// Polynomials: Cephes expf and logf (S. Moshier). Included inside an instruction set's namespace (simd_portable.h).

// x < -87.3 gives 0, x > 88.37 gives infinity, NaN gives NaN
INL F exp(F x) {
  const F clamped = max(set1(-87.3f), min(set1(88.37f), x));  // second operand where NaN: NaN stays
  const F biased = add(mul(clamped, set1(1.44269504088896341f)), set1(12582912.0f));
  const F n = sub(biased, set1(12582912.0f));
  F r = sub(clamped, mul(n, set1(0.693359375f)));
  r = sub(r, mul(n, set1(-2.12194440e-4f)));
  F y = set1(1.9875691500e-4f);
  y = add(mul(y, r), set1(1.3981999507e-3f));
  y = add(mul(y, r), set1(8.3334519073e-3f));
  y = add(mul(y, r), set1(4.1665795894e-2f));
  y = add(mul(y, r), set1(1.6666665459e-1f));
  y = add(mul(y, r), set1(5.0000001201e-1f));
  y = add(add(mul(y, mul(r, r)), r), set1(1.0f));
  // the low bits of the biased sum are n in two's complement
  const F scale = from_bits(add_i(shl<23>(bits(biased)), set1_i(127 << 23)));
  y = mul(y, scale);
  y = select(less(x, set1(-87.3f)), set1(0.0f), y);
  return select(less(set1(88.37f), x), from_bits(set1_i(0x7F800000)), y);
}

INL F log_finish(F f, I e) {
  const F z = mul(f, f);
  F y = set1(7.0376836292e-2f);
  y = add(mul(y, f), set1(-1.1514610310e-1f));
  y = add(mul(y, f), set1(1.1676998740e-1f));
  y = add(mul(y, f), set1(-1.2420140846e-1f));
  y = add(mul(y, f), set1(1.4249322787e-1f));
  y = add(mul(y, f), set1(-1.6668057665e-1f));
  y = add(mul(y, f), set1(2.0000714765e-1f));
  y = add(mul(y, f), set1(-2.4999993993e-1f));
  y = add(mul(y, f), set1(3.3333331174e-1f));
  y = mul(mul(y, f), z);
  const F ef = to_float(e);
  y = add(y, mul(ef, set1(-2.12194440e-4f)));
  y = add(y, mul(set1(-0.5f), z));
  return add(add(f, y), mul(ef, set1(0.693359375f)));
}

INL void log_split(F x, F& m, I& e) {  // m in [sqrt(1/2), sqrt(2)), x = m * 2^e
  const I ix = bits(x);
  e = sra<23>(sub_i(ix, set1_i(0x3F3504F3)));
  m = from_bits(sub_i(ix, shl<23>(e)));
}

INL F log(F x) {  // positive normal x
  F m;
  I e;
  log_split(x, m, e);
  return log_finish(sub(m, set1(1.0f)), e);
}

INL F log1p_neg(F v) {  // log(1 - v) for 0 < v < 1; where e is 0 (v up to 1 - sqrt(1/2)) the fraction is -v, unrounded
  F m;
  I e;
  log_split(sub(set1(1.0f), v), m, e);
  return log_finish(select(is_zero(e), from_bits(xor_i(bits(v), set1_i(INT32_MIN))), sub(m, set1(1.0f))), e);
}
