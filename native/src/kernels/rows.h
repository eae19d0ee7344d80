// What happens to one row between the matrices: norm, quantisation, SiLU, rotation.
// Included inside an instruction set's namespace (see simd_portable.h).

// Symmetric int8 in blocks of 32: scale = max|x| / 127, q = round-to-nearest-even(x * (127 / max|x|)).
// A block whose maximum is under 1e-30 counts as zero; one with an infinity or a NaN has scale NaN and codes 0.
static void quantise(const float* x, int count, int8_t* q, float* scale, float* scaled, int32_t* neg8, int32_t* neg128) {
  const I magnitude = set1_i(0x7FFFFFFF);
  for (int b = 0; b < count / kBlock; ++b) {
    const F x0 = load(x + b * kBlock), x1 = load(x + b * kBlock + kLanes);
    // as integers, magnitudes of floats keep their order, and NaN is above all
    const int32_t top = fold_max_i(max_i(and_i(bits(x0), magnitude), and_i(bits(x1), magnitude)));
    float biggest;
    __builtin_memcpy(&biggest, &top, 4);
    const bool finite = top < 0x7F800000, used = finite && biggest >= 1e-30f;
    const float s = used ? biggest / 127.0f : finite ? 0.0f : __builtin_nanf("");
    const F inverse = set1(used ? 127.0f / biggest : 0.0f);
    I q0 = set1_i(0), q1 = set1_i(0);
    if (used) q0 = to_int(mul(x0, inverse)), q1 = to_int(mul(x1, inverse));
    const int32_t sum = fold_add_i(add_i(q0, q1));
    store_i8(q + b * (kMaxTile * kBlock), q0);
    store_i8(q + b * (kMaxTile * kBlock) + kLanes, q1);
    scale[b * kMaxTile] = s;
    scaled[b * kMaxTile] = s * static_cast<float>(sum);
    neg8[b * kMaxTile] = -8 * sum;
    neg128[b * kMaxTile] = -128 * sum;
  }
}

void rms_norm(const float* x, const float* weight, float eps, int count, float* out) {
  F sum = set1(0.0f);
  for (int i = 0; i < count; i += kLanes) {
    const F v = load(x + i);
    sum = fma(v, v, sum);
  }
  const float mean = fold_add(sum) / static_cast<float>(count);
  const F r = set1(1.0f / __builtin_sqrtf(mean + eps));
  for (int i = 0; i < count; i += kLanes) store(out + i, mul(mul(load(x + i), r), load(weight + i)));
}

void silu_mul(float* gate, const float* up, int count) {
  const F one = set1(1.0f), minus = set1(-1.0f);
  for (int i = 0; i < count; i += kLanes) {
    const F g = load(gate + i);
    store(gate + i, mul(div(g, add(one, exp(mul(g, minus)))), load(up + i)));
  }
}

// Interleaved pairs: (a, b) -> (a cos - b sin, b cos + a sin), times factor. The tables hold each value twice, the
// sine of the first of a pair negated.
void rope(const float* x, const float* cosines, const float* sines, float factor, int dim, float* out) {
  const F f = set1(factor);
  for (int i = 0; i < dim; i += kLanes) {
    const F v = load(x + i);
    store(out + i, mul(add(mul(v, load(cosines + i)), mul(swap_pairs(v), load(sines + i))), f));
  }
}

void round_to_f16(const float* x, int count, uint16_t* out) {
  for (int i = 0; i < count; i += kLanes) store_f16(out + i, load(x + i));
}
