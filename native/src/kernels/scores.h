// What sampling does to a whole row of scores: transforms, sums, and finding the few that matter.
// The same in numpy: core/sampling.py. Rows are padded with -inf to whole vectors, weights with 0.
// Included inside an instruction set's namespace (see simd_portable.h).

// out = x * factor, -inf where x is NaN or its bit of the mask is 0; padded
void scale_row(const float* x, int count, float factor, const uint32_t* mask, float* out) {
  const F scale = set1(factor), dropped = from_bits(set1_i(static_cast<int32_t>(0xFF800000u)));
  for (int i = 0; i < count; i += kLanes) {
    const F value = max(load_first(x + i, count - i), dropped);  // the second operand where the first is NaN
    const uint32_t allowed = mask ? mask[i / 32] >> (i % 32) : 0xFFFFu;
    store(out + i, mul(select(from_mask(allowed), value, dropped), scale));
  }
}

// weights = exp(x - best); returns their lane sum
float exp_sum(const float* x, int count, float best, float* weights) {
  const F top = set1(best), zero = set1(0.0f);
  F sum = zero;
  for (int i = 0; i < count; i += kLanes) {
    const F distance = sub(load(x + i), top);
    // after a filter most vectors have nothing left
    if (to_mask(less(distance, set1(-87.3f))) == 0xFFFF) {
      store(weights + i, zero);
      continue;
    }
    const F weight = exp(distance);
    store(weights + i, weight);
    sum = add(sum, weight);
  }
  return fold_add(sum);
}

INL F distance_of(const float* x, const float* weights, int i, F top) {
  const F zero = set1(0.0f);
  return select(less(zero, load(weights + i)), sub(load(x + i), top), zero);
}

// the lane sum of weights * (x - best) over what has a weight
float distance_sum(const float* x, const float* weights, int count, float best) {
  const F top = set1(best);
  F sum = set1(0.0f);
  for (int i = 0; i < count; i += kLanes) sum = add(sum, mul(load(weights + i), distance_of(x, weights, i, top)));
  return fold_add(sum);
}

// out = -|x - best - mean|, -inf where there is no weight
void nearness(const float* x, const float* weights, int count, float best, float mean, float* out) {
  const F top = set1(best), middle = set1(mean), dropped = from_bits(set1_i(static_cast<int32_t>(0xFF800000u)));
  for (int i = 0; i < count; i += kLanes) {
    const F off = sub(distance_of(x, weights, i, top), middle);
    const F near = min(off, mul(off, set1(-1.0f)));
    store(out + i, select(less(set1(0.0f), load(weights + i)), near, dropped));
  }
}

// x = -inf where its weight is under `least`
void drop_light(float* x, const float* weights, int count, float least) {
  const F bar = set1(least), dropped = from_bits(set1_i(static_cast<int32_t>(0xFF800000u)));
  for (int i = 0; i < count; i += kLanes) store(x + i, select(less(load(weights + i), bar), dropped, load(x + i)));
}

void divide(float* x, int count, float by) {
  const F divisor = set1(by);
  for (int i = 0; i < count; i += kLanes) store(x + i, div(load(x + i), divisor));
}

// The ids in [begin, end), whole vectors, with over < x <= upto, ascending, while another vector's surely fit in `room`
// (>= 16); returns where it stopped.
int gather(const float* x, int begin, int end, float over, float upto, int32_t* ids, int room, int* found) {
  const F low = set1(over), high = set1(upto);
  int n = 0, i = begin;
  for (; i < end && n + kLanes <= room; i += kLanes) {
    const F v = load(x + i);
    uint32_t inside = to_mask(less(low, v));
    if (inside == 0) continue;
    inside &= ~to_mask(less(high, v));
    for (; inside != 0; inside &= inside - 1) ids[n++] = i + __builtin_ctz(inside);
  }
  *found = n;
  return i;
}

float log_of(float x) { return lane0(log(set1(x))); }
