// A token from a row of logits: arg-max, or the Gumbel-max whose noise is keyed by position and vocabulary id.
// The same in numpy: core/noise.py, core/sampling.py. Included inside an instruction set's namespace (simd_portable.h).

struct Best {
  F value;
  I index;
};

INL Best best_start() { return {from_bits(set1_i(static_cast<int32_t>(0xFF800000u))), set1_i(INT32_MAX)}; }

// a strictly greater value wins, so within a lane the lowest index stays; NaN compares false and never wins
INL void best_update(Best& best, F value, I index) {
  const M wins = less(best.value, value);
  best.value = select(wins, value, best.value);
  best.index = select_i(wins, index, best.index);
}

INL void best_of_lanes(const Best& best, int otherwise, float* value, int* index) {
  float v[kLanes];
  int32_t at[kLanes];
  store(v, best.value);
  store_i(at, best.index);
  *value = v[0];
  *index = at[0];
  for (int i = 1; i < kLanes; ++i)
    if (v[i] > *value || (v[i] == *value && at[i] < *index)) *value = v[i], *index = at[i];
  if (*index == INT32_MAX) *index = otherwise;
}

INL F load_first(const float* x, int n) {
  if (n >= kLanes) return load(x);
  float part[kLanes];
  for (int i = 0; i < kLanes; ++i) part[i] = i < n ? x[i] : __builtin_nanf("");
  return load(part);
}

void argmax(const float* x, int begin, int end, float* value, int* index) {
  Best best = best_start();
  for (int i = begin; i < end; i += kLanes)
    best_update(best, load_first(x + i, end - i), add_i(lanes(), set1_i(i)));
  best_of_lanes(best, begin, value, index);
}

// Philox4x32-10 (Salmon et al. 2011): sixteen counters at once, word w of counter c is the noise of id 4 c + w.
INL void philox(I counter, const DrawKey& key, I* word) {
  word[0] = counter;
  word[1] = set1_i(static_cast<int32_t>(key.position));
  word[2] = set1_i(static_cast<int32_t>(key.sample));
  word[3] = set1_i(static_cast<int32_t>(key.purpose));
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    I hi0, lo0, hi1, lo1;
    mul_wide(word[0], 0xD2511F53u, hi0, lo0);
    mul_wide(word[2], 0xCD9E8D57u, hi1, lo1);
    word[0] = xor_i(xor_i(hi1, word[1]), set1_i(static_cast<int32_t>(k0)));
    word[2] = xor_i(xor_i(hi0, word[3]), set1_i(static_cast<int32_t>(k1)));
    word[1] = lo1;
    word[3] = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

INL F gumbel(I word) {
  // the two halves are exact, so their sum rounds once: the conversion of an unsigned 32-bit integer
  const F high = mul(to_float(srl<16>(word)), set1(65536.0f)), low = to_float(and_i(word, set1_i(0xFFFF)));
  const F v = mul(add(add(high, low), set1(0.5f)), set1(0x1p-32f));
  const F e = mul(log1p_neg(min(v, set1(0x1.fffffep-1f))), set1(-1.0f));
  return mul(log(e), set1(-1.0f));
}

void draw(const float* x, int count, float inverse_temperature, const DrawKey& key, int* index) {
  Best best = best_start();
  const F scale = set1(inverse_temperature);
  for (int i = 0; i < count; i += 4 * kLanes) {
    I word[4];
    philox(add_i(lanes(), set1_i(i / 4)), key, word);
    float noise[4][kLanes];
    for (int w = 0; w < 4; ++w) store(noise[w], gumbel(word[w]));
    for (int part = 0; part < 4 && i + part * kLanes < count; ++part) {
      float g[kLanes];
      for (int l = 0; l < kLanes; ++l) g[l] = noise[l % 4][part * 4 + l / 4];
      const int at = i + part * kLanes;
      best_update(best, add(mul(load_first(x + at, count - at), scale), load(g)), add_i(lanes(), set1_i(at)));
    }
  }
  float value;
  best_of_lanes(best, 0, &value, index);
}
