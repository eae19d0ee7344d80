// Attention over one chunk of 256 absolute positions, and the merging of chunks.
// Scores: positions are the lanes, d ascending. Output: elements of the head are the lanes, positions ascending.
// Included inside an instruction set's namespace (see simd_portable.h).

template <CacheType t>
INL F load_kv(const void* p, int at) {
  if constexpr (t == CacheType::F16) return load_f16(static_cast<const uint16_t*>(p) + at);
  if constexpr (t == CacheType::F32) return load(static_cast<const float*>(p) + at);
}

// What a loop brings into the second-level cache on the side, a line each step: memory brings about as much meanwhile.
struct Fetching {
  const uint8_t* line;
  size_t step;
};

// Where nothing is left, a line that is there anyway, again and again: cheaper than a branch.
INL Fetching fetching_for(const AttendTile& a) {
  if (a.fetch) {
    while (a.fetch->next != a.fetch->end && a.fetch->next->at >= a.fetch->next->end) ++a.fetch->next;
    if (a.fetch->next != a.fetch->end) return {a.fetch->next->at, kLine};
  }
  return {reinterpret_cast<const uint8_t*>(a.weights), 0};
}

INL void fetch_line(Fetching& f) {
  __builtin_prefetch(f.line, 0, 2);
  f.line += f.step;
}

INL void fetched(const AttendTile& a, const Fetching& f) {
  if (f.step) a.fetch->next->at = f.line;
}

// The queries of a call at a constant distance, so that one address serves all of them: with a pointer for each, gcc
// fetched pointers out of vector registers in every step.
struct alignas(64) Side {
  float x[kScoreQueries][kMaxHeadDim];
};

// Q queries against G groups of keys: the load and conversion of a key serves all of them
template <CacheType t, int Q, int G>
INL void score_block(const AttendTile& a, const Side& side, int query, int group) {
  F acc[Q][G];
  for (int q = 0; q < Q; ++q)
    for (int g = 0; g < G; ++g) acc[q][g] = set1(0.0f);
  const void* keys[G];
  for (int g = 0; g < G; ++g) keys[g] = a.keys[group + g];
  Fetching fetching = fetching_for(a);
  for (int d = 0; d < a.dim; ++d) {
    fetch_line(fetching);
    F key[G];
    for (int g = 0; g < G; ++g) key[g] = load_kv<t>(keys[g], d * kLanes);
    for (int q = 0; q < Q; ++q) {
      const F v = set1(side.x[q][d]);
      for (int g = 0; g < G; ++g) acc[q][g] = fma(key[g], v, acc[q][g]);
    }
  }
  fetched(a, fetching);
  for (int q = 0; q < Q; ++q)
    for (int g = 0; g < G; ++g) store(a.weights + (query + q) * kChunk + (group + g) * kLanes, acc[q][g]);
}

template <CacheType t, int Q, int G>
INL void score_groups(const AttendTile& a, const Side& side, int query, int group, int groups) {
  for (; group + G <= groups; group += G) score_block<t, Q, G>(a, side, query, group);
  if constexpr (G > 1) {
    if (group < groups) score_groups<t, Q, G / 2>(a, side, query, group, groups);
  }
}

// Exactly n queries, 1 <= n <= Q: as many groups side by side as the registers have accumulators for.
template <CacheType t, int Q>
INL void score_exactly(int n, const AttendTile& a, const Side& side, int query, int groups) {
  if (n == Q) {
    constexpr int fit = kScoreSums / Q;
    score_groups<t, Q, fit >= 4 ? 4 : fit >= 2 ? 2 : 1>(a, side, query, 0, groups);
  } else if constexpr (Q > 1) {
    score_exactly<t, Q - 1>(n, a, side, query, groups);
  }
}

// The next share of `left` queries when each call takes at most `most`: even shares, no call with one left over.
INL int even_share(int left, int most) {
  const int calls = (left + most - 1) / most;
  return (left + calls - 1) / calls;
}

template <CacheType t>
void scores(const AttendTile& a) {
  int most = 0;
  for (int q = 0; q < a.queries; ++q) most = a.visible[q] > most ? a.visible[q] : most;
  const int groups = (most + kLanes - 1) / kLanes;
  Side side;
  for (int q = 0, n; q < a.queries; q += n) {
    n = even_share(a.queries - q, kScoreQueries);
    for (int i = 0; i < n; ++i) __builtin_memcpy(side.x[i], a.query[q + i], static_cast<size_t>(a.dim) * sizeof(float));
    score_exactly<t, kScoreQueries>(n, a, side, q, groups);
  }
}

// exp(score - maximum) in place; lanes past the last visible position become exact zeros
INL void softmax_row(float* w, int visible, float* top, float* sum) {
  const F never = from_bits(set1_i(static_cast<int32_t>(0xFF800000u)));
  F best = never;
  for (int i = 0; i < visible; i += kLanes) {
    const F s = select(first(visible - i), load(w + i), never);
    store(w + i, s);
    best = max(best, s);
  }
  const float most = fold_max(best);
  const F shift = set1(most);
  F total = set1(0.0f);
  for (int i = 0; i < visible; i += kLanes) {
    const F e = exp(sub(load(w + i), shift));
    store(w + i, e);
    total = add(total, e);
  }
  *top = most;
  *sum = fold_add(total);
}

template <CacheType t, int Q, int E>
INL void output_block(const AttendTile& a, int query, int element) {
  F acc[Q][E];
  int shared = kChunk;
  for (int q = 0; q < Q; ++q) {
    shared = a.visible[query + q] < shared ? a.visible[query + q] : shared;
    for (int e = 0; e < E; ++e) acc[q][e] = set1(0.0f);
  }
  const float* w = a.weights + query * kChunk;
  Fetching fetching = fetching_for(a);
  for (int p = 0; p < shared; ++p) {
    fetch_line(fetching);
    F value[E];
    for (int e = 0; e < E; ++e) value[e] = load_kv<t>(a.values[p / kLanes], p % kLanes * a.dim + element + e * kLanes);
    for (int q = 0; q < Q; ++q) {
      const F x = set1(w[q * kChunk + p]);
      for (int e = 0; e < E; ++e) acc[q][e] = fma(x, value[e], acc[q][e]);
    }
  }
  fetched(a, fetching);
  for (int q = 0; q < Q; ++q) {
    for (int p = shared; p < a.visible[query + q]; ++p)
      for (int e = 0; e < E; ++e)
        acc[q][e] = fma(set1(w[q * kChunk + p]),
                        load_kv<t>(a.values[p / kLanes], p % kLanes * a.dim + element + e * kLanes), acc[q][e]);
    for (int e = 0; e < E; ++e) store(a.out + (query + q) * a.dim + element + e * kLanes, acc[q][e]);
  }
}

template <CacheType t, int Q>
INL void output_queries(const AttendTile& a, int query) {
  int e = 0;
  for (; e + kOutputVectors * kLanes <= a.dim; e += kOutputVectors * kLanes) output_block<t, Q, kOutputVectors>(a, query, e);
  for (; e < a.dim; e += kLanes) output_block<t, Q, 1>(a, query, e);
}

template <CacheType t, int Q>
INL void output_exactly(int n, const AttendTile& a, int query) {
  if (n == Q) {
    output_queries<t, Q>(a, query);
  } else if constexpr (Q > 1) {
    output_exactly<t, Q - 1>(n, a, query);
  }
}

template <CacheType t>
void attend_as(const AttendTile& a) {
  scores<t>(a);
  for (int q = 0; q < a.queries; ++q) softmax_row(a.weights + q * kChunk, a.visible[q], a.top + q, a.sum + q);
  for (int q = 0, n; q < a.queries; q += n) {
    n = even_share(a.queries - q, kOutputQueries);
    output_exactly<t, kOutputQueries>(n, a, q);
  }
}

void attend(const AttendTile& a, CacheType t) {
  return t == CacheType::F16 ? attend_as<CacheType::F16>(a) : attend_as<CacheType::F32>(a);
}

// Folds a later chunk's (maximum, sum, output) into an earlier one's.
void merge(float* top, float* sum, float* out, float top2, float sum2, const float* out2, int dim) {
  const F most = max(set1(*top), set1(top2));
  const F a = exp(sub(set1(*top), most)), b = exp(sub(set1(top2), most));
  for (int i = 0; i < dim; i += kLanes) store(out + i, add(mul(load(out + i), a), mul(load(out2 + i), b)));
  *sum = lane0(add(mul(set1(*sum), a), mul(set1(sum2), b)));
  *top = lane0(most);
}

void finish(const float* out, float sum, int dim, float* result) {
  const F inverse = set1(1.0f / sum);
  for (int i = 0; i < dim; i += kLanes) store(result + i, mul(load(out + i), inverse));
}
