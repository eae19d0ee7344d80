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

// the first n <= kLanes values, NaN behind them
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

// At least gumbel(word), and at most 0.11 more where that is above 3 (seen over all 2^32 words, but for the first few
// thousand). -log(-log(1 - v)) <= -log(v); v >= h 2^-24 with h = word >> 8; and the bits of the float h, as a number,
// are at most 2^23 (127 + log2 h), for f <= log2(1 + f). The 0.001 is far more than all roundings together.
INL F gumbel_bound(I word) {
  const F above = to_float(bits(to_float(srl<8>(word))));
  return sub(set1(151.0f * 0.69314718f + 0.001f), mul(above, set1(0.69314718f * 0x1p-23f)));
}
constexpr float kGumbelMost = 23.0f;  // word 0 has 22.87

// sixty-four ids from `at` on: x -> their logits. An addition of floats is monotone, so where the sum with a bound of
// the noise is under `bar`, a value already found, so is the sum with the noise.
INL void draw_block(const float* x, int at, F scale, const DrawKey& key, Best& best, F& bar) {
  F score[4];
  F top = from_bits(set1_i(static_cast<int32_t>(0xFF800000u)));
  for (int part = 0; part < 4; ++part) {
    score[part] = mul(load(x + part * kLanes), scale);
    top = max(score[part], top);  // the second operand where the first is NaN
  }
  if (to_mask(less(add(top, set1(kGumbelMost)), bar)) == 0xFFFF) return;
  // lane 4 k + j counts 4 j + k, so that transposing fours puts ids in order
  const I order = add_i(shl<2>(and_i(lanes(), set1_i(3))), srl<2>(lanes()));
  I word[4];
  philox(add_i(order, set1_i(at / 4)), key, word);
  transpose_fours(word);
  for (int part = 0; part < 4; ++part) {
    if (to_mask(less(add(score[part], gumbel_bound(word[part])), bar)) == 0xFFFF) continue;
    best_update(best, add(score[part], gumbel(word[part])), add_i(lanes(), set1_i(at + part * kLanes)));
    bar = max(set1(fold_max(best.value)), bar);
  }
}

// likely: an id whose value is probably near the largest; what is far below it costs no noise
void draw(const float* x, int count, float inverse_temperature, const DrawKey& key, int likely, int* index) {
  Best best = best_start();
  const F scale = set1(inverse_temperature);
  I word[4];
  philox(set1_i(likely / 4), key, word);
  F bar = add(mul(set1(x[likely]), scale), gumbel(word[likely % 4]));
  bar = max(bar, best.value);  // not NaN
  int at = 0;
  for (; at + 4 * kLanes <= count; at += 4 * kLanes) draw_block(x + at, at, scale, key, best, bar);
  if (at < count) {
    float rest[4 * kLanes];
    for (int i = 0; i < 4 * kLanes; ++i) rest[i] = at + i < count ? x[at + i] : __builtin_nanf("");
    draw_block(rest, at, scale, key, best, bar);
  }
  float value;
  best_of_lanes(best, 0, &value, index);
}

// The same where entry i stands for the id ids[i], ascending: what `draw` finds in a row of all ids in which the others
// are -inf. count is whole vectors; likely and *index are places.
void draw_ids(const float* x, const int32_t* ids, int count, float inverse_temperature, const DrawKey& key, int likely, int* index) {
  Best best = best_start();
  const F scale = set1(inverse_temperature);
  I word[4];
  philox(set1_i(ids[likely] / 4), key, word);
  F bar = add(mul(set1(x[likely]), scale), gumbel(word[ids[likely] % 4]));
  bar = max(bar, best.value);  // not NaN
  for (int at = 0; at < count; at += kLanes) {
    const F score = mul(load(x + at), scale);
    if (to_mask(less(add(score, set1(kGumbelMost)), bar)) == 0xFFFF) continue;
    float raw[kLanes];
    __builtin_memcpy(raw, ids + at, sizeof raw);
    const I id = bits(load(raw));
    philox(srl<2>(id), key, word);
    const M odd = is_zero(sub_i(and_i(id, set1_i(1)), set1_i(1))), upper = is_zero(sub_i(and_i(id, set1_i(2)), set1_i(2)));
    const I own = select_i(upper, select_i(odd, word[3], word[2]), select_i(odd, word[1], word[0]));
    if (to_mask(less(add(score, gumbel_bound(own)), bar)) == 0xFFFF) continue;
    best_update(best, add(score, gumbel(own)), add_i(lanes(), set1_i(at)));
    bar = max(set1(fold_max(best.value)), bar);
  }
  float value;
  best_of_lanes(best, 0, &value, index);
}
