// Single kernels for the tests of equality (tests/native). Included by bindings.cpp.

void check_kernel(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(what);
}

int vocabulary_of(const FloatIn& x) {
  check_kernel(x.ndim() == 1 && x.size() > 0, "x must be [V]");
  return static_cast<int>(x.size());
}

// Packs source rows (bytes of a GGUF tensor) and multiplies them with float rows, as a pass does; add: to `onto`.
nb::ndarray<nb::numpy, float> kernel_linear(const std::string& isa, const std::string& type, nb::bytes source, FloatIn x, int outputs, bool add, float onto) {
  const Kernels& k = kernels_for(isa);
  check_kernel(x.ndim() == 2 && x.shape(0) >= 1 && x.shape(1) % kBlock == 0 && x.shape(1) > 0, "x must be [rows, K], K a multiple of 32");
  const int rows = static_cast<int>(x.shape(0)), cols = static_cast<int>(x.shape(1));
  const Format format = format_of(type);
  Packed m = packed_layout(format, outputs, cols);
  const size_t row_bytes = source_row_bytes(format, cols);
  check_kernel(outputs >= 1 && source.size() == row_bytes * static_cast<size_t>(outputs), "the source has another size than the shape says");
  Buffer<uint8_t> packed(packed_bytes(m));
  Buffer<float> scratch(static_cast<size_t>(kLanes * cols));
  for (int p = 0; p < m.panels; ++p)
    pack_panel(format, false, static_cast<const uint8_t*>(source.data()) + row_bytes * static_cast<size_t>(p * kLanes),
               std::min(kLanes, outputs - p * kLanes), cols, scratch.get(), packed.get() + m.panel_bytes * static_cast<size_t>(p));
  m.data = packed.get();
  const size_t padded = static_cast<size_t>((rows + kMaxTile - 1) / kMaxTile * kMaxTile), blocks = static_cast<size_t>(cols / kBlock);
  Buffer<int8_t> q(padded * blocks * kBlock);
  Buffer<float> scale(padded * blocks), scaled(padded * blocks);
  Buffer<int32_t> neg8(padded * blocks), neg128(padded * blocks);
  float* out;
  auto result = fresh<float>({static_cast<size_t>(rows), static_cast<size_t>(m.panels * kLanes)}, &out);
  const size_t stride = static_cast<size_t>(m.panels * kLanes);
  std::fill(out, out + stride * static_cast<size_t>(rows), onto);
  FloatMode mode;
  if (is_quantised(format)) {
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
      const size_t at = r / kMaxTile * blocks * kMaxTile + r % kMaxTile;
      k.quantise(x.data() + r * static_cast<size_t>(cols), cols, q.get() + at * kBlock, scale.get() + at, scaled.get() + at, neg8.get() + at, neg128.get() + at);
    }
    const QuantRows in{q.get(), scale.get(), scaled.get(), neg8.get(), neg128.get(), cols};
    (add ? k.quant_linear_add : k.quant_linear)(m, in, rows, 0, m.panels, out, stride);
  } else {
    (add ? k.float_linear_add : k.float_linear)(m, x.data(), rows, 0, m.panels, out, stride);
  }
  return result;
}

nb::tuple kernel_quantise(const std::string& isa, FloatIn x) {
  const Kernels& k = kernels_for(isa);
  check_kernel(x.ndim() == 1 && x.size() % kBlock == 0, "x must be [K], K a multiple of 32");
  const size_t count = x.size(), blocks = count / kBlock;
  Buffer<int8_t> q(blocks * kMaxTile * kBlock);
  Buffer<float> scale(blocks * kMaxTile), scaled(blocks * kMaxTile);
  Buffer<int32_t> neg8(blocks * kMaxTile), neg128(blocks * kMaxTile);
  {
    FloatMode mode;
    k.quantise(x.data(), static_cast<int>(count), q.get(), scale.get(), scaled.get(), neg8.get(), neg128.get());
  }
  int8_t* codes;
  float* scales;
  int32_t* offsets;
  auto out_codes = fresh<int8_t>({count}, &codes);
  auto out_scales = fresh<float>({2, blocks}, &scales);
  auto out_offsets = fresh<int32_t>({2, blocks}, &offsets);
  for (size_t b = 0; b < blocks; ++b) {
    std::memcpy(codes + b * kBlock, q.get() + b * kMaxTile * kBlock, kBlock);
    scales[b] = scale.get()[b * kMaxTile];
    scales[blocks + b] = scaled.get()[b * kMaxTile];
    offsets[b] = neg8.get()[b * kMaxTile];
    offsets[blocks + b] = neg128.get()[b * kMaxTile];
  }
  return nb::make_tuple(out_codes, out_scales, out_offsets);
}

// One row kernel by name: norm(x, y), silu(x, y), rope(x, cos, sin packed in y), f16(x).
nb::ndarray<nb::numpy, float> kernel_row(const std::string& isa, const std::string& name, FloatIn x, FloatIn y, float number) {
  const Kernels& k = kernels_for(isa);
  const size_t n = x.size();
  check_kernel(x.ndim() == 1 && n % kLanes == 0 && n > 0, "x must be [n], n a multiple of 16");
  check_kernel(y.size() == (name == "rope" ? 2 * n : n), "y has the wrong size");
  float* out;
  auto result = fresh<float>({n}, &out);
  const int count = static_cast<int>(n);
  FloatMode mode;
  if (name == "norm") {
    k.rms_norm(x.data(), y.data(), number, count, out);
  } else if (name == "silu") {
    std::memcpy(out, x.data(), n * sizeof(float));
    k.silu_mul(out, y.data(), count);
  } else if (name == "rope") {
    k.rope(x.data(), y.data(), y.data() + n, number, count, out);
  } else if (name == "f16") {
    k.round_to_f16(x.data(), count, reinterpret_cast<uint16_t*>(out));
  } else {
    throw std::invalid_argument("no row kernel has that name");
  }
  return result;
}

// keys [16, d, 16] and values [16, 16, d] of one chunk, float32 or float16 bits; returns (top, sum, out)
template <class T>
nb::tuple attend_with(const Kernels& k, FloatIn queries, const std::vector<int>& visible, nb::ndarray<const T, nb::c_contig, nb::device::cpu> keys,
                      nb::ndarray<const T, nb::c_contig, nb::device::cpu> values, CacheType type) {
  check_kernel(queries.ndim() == 2, "queries must be [n, d]");
  const size_t n = queries.shape(0), d = queries.shape(1);
  check_kernel(d % kLanes == 0 && d <= kMaxHeadDim && visible.size() == n, "queries must be [n, d], d a multiple of 16 up to 256");
  check_kernel(keys.size() == kChunk * d && values.size() == kChunk * d, "keys and values must hold 256 positions");
  for (int v : visible) check_kernel(v >= 1 && v <= kChunk, "visible must be within 1 and 256");
  const void *key[kChunkGroups], *value[kChunkGroups];
  std::vector<const float*> query;
  for (size_t g = 0; g < kChunkGroups; ++g) key[g] = keys.data() + g * kLanes * d, value[g] = values.data() + g * kLanes * d;
  for (size_t i = 0; i < n; ++i) query.push_back(queries.data() + i * d);
  Buffer<float> weights(n * kChunk);
  float *top, *sum, *out;
  auto r_top = fresh<float>({n}, &top);
  auto r_sum = fresh<float>({n}, &sum);
  auto r_out = fresh<float>({n, d}, &out);
  FloatMode mode;
  k.attend({static_cast<int>(n), static_cast<int>(d), query.data(), visible.data(), key, value, weights.get(), top, sum, out}, type);
  return nb::make_tuple(r_top, r_sum, r_out);
}

nb::tuple kernel_attend(const std::string& isa, FloatIn queries, const std::vector<int>& visible, nb::ndarray<const float, nb::c_contig, nb::device::cpu> keys,
                        nb::ndarray<const float, nb::c_contig, nb::device::cpu> values) {
  return attend_with<float>(kernels_for(isa), queries, visible, keys, values, CacheType::F32);
}

nb::tuple kernel_attend_f16(const std::string& isa, FloatIn queries, const std::vector<int>& visible, nb::ndarray<const uint16_t, nb::c_contig, nb::device::cpu> keys,
                            nb::ndarray<const uint16_t, nb::c_contig, nb::device::cpu> values) {
  return attend_with<uint16_t>(kernels_for(isa), queries, visible, keys, values, CacheType::F16);
}

nb::ndarray<nb::numpy, float> kernel_merge(const std::string& isa, FloatIn first, FloatIn second) {  // each [2 + d]: top, sum, out
  check_kernel(first.size() == second.size() && first.size() > 2 && (first.size() - 2) % kLanes == 0, "both must be [2 + d]");
  const Kernels& k = kernels_for(isa);
  float* out;
  auto result = fresh<float>({first.size()}, &out);
  std::memcpy(out, first.data(), first.size() * sizeof(float));
  const int d = static_cast<int>(first.size()) - 2;
  FloatMode mode;
  k.merge(out, out + 1, out + 2, second.data()[0], second.data()[1], second.data() + 2, d);
  k.finish(out + 2, out[1], d, out + 2);
  return result;
}

// inverse temperature 0 is the arg-max
int kernel_draw(const std::string& isa, FloatIn x, float inverse_temperature, uint64_t seed, uint32_t sample, uint32_t position) {
  const Kernels& k = kernels_for(isa);
  const int n = vocabulary_of(x);
  int index;
  FloatMode mode;
  if (inverse_temperature == 0.0f) {
    float best;
    k.argmax(x.data(), 0, n, &best, &index);
  } else {
    float best;
    k.argmax(x.data(), 0, n, &best, &index);
    k.draw(x.data(), n, inverse_temperature, {seed, position, sample, 0}, index, &index);
  }
  return index;
}

// the place of the token drawn from entries that stand for ids
int kernel_place(const std::string& isa, FloatIn x, const ArrayIn<int32_t>& ids, const DrawTuple& draw, uint32_t position) {
  const int count = vocabulary_of(x), padded = (count + kLanes - 1) / kLanes * kLanes;
  check_kernel(ids.size() == x.size(), "x and ids must be equally long");
  const Kernels& k = kernels_for(isa);
  Buffer<float> logits(static_cast<size_t>(padded));
  Buffer<int32_t> own(static_cast<size_t>(padded));
  std::fill(logits.get(), logits.get() + padded, -std::numeric_limits<float>::infinity());
  std::copy(x.data(), x.data() + count, logits.get());
  std::copy(ids.data(), ids.data() + count, own.get());
  FloatMode mode;
  float best;
  int largest;
  k.argmax(logits.get(), 0, count, &best, &largest);
  return Sampler(k).place(logits.get(), own.get(), count, largest, draw_of(draw), position);
}

// core.sampling's token, law and logprobs of a row
int kernel_token(const std::string& isa, FloatIn x, const DrawTuple& draw, uint32_t position, const AdjustIn& adjust) {
  const int vocab = vocabulary_of(x);
  const AdjustSpec spec = adjust_of(adjust, vocab);
  const Kernels& k = kernels_for(isa);
  FloatMode mode;
  float best;
  int largest;
  k.argmax(x.data(), 0, vocab, &best, &largest);
  return Sampler(k).token(x.data(), vocab, largest, draw_of(draw), position, spec);
}

nb::ndarray<nb::numpy, float> kernel_law(const std::string& isa, FloatIn x, const DrawTuple& draw, const AdjustIn& adjust) {
  const int vocab = vocabulary_of(x);
  const AdjustSpec spec = adjust_of(adjust, vocab);
  float* out;
  auto result = fresh<float>({x.size()}, &out);
  FloatMode mode;
  Sampler(kernels_for(isa)).law(x.data(), vocab, draw_of(draw), spec, out);
  return result;
}

LogprobsOut kernel_logprobs(const std::string& isa, FloatIn x, int chosen, int top, const std::optional<DrawTuple>& draw, const AdjustIn& adjust) {
  const int vocab = vocabulary_of(x);
  check_kernel(chosen >= 0 && chosen < vocab && top >= 0, "chosen must be an id and top at least 0");
  const AdjustSpec spec = adjust_of(adjust, vocab);
  const DrawSpec processed = draw ? draw_of(*draw) : DrawSpec();
  FloatMode mode;
  const Logprobs found = Sampler(kernels_for(isa)).logprobs(x.data(), vocab, chosen, top, draw ? &processed : nullptr, spec);
  return {found.chosen, found.top};
}

std::vector<int> kernel_top(const std::string& isa, FloatIn x, int count) {
  check_kernel(count >= 0, "count must be at least 0");
  FloatMode mode;
  return Sampler(kernels_for(isa)).top(x.data(), vocabulary_of(x), count);
}

void bind_kernels(nb::module_& m) {
  m.def("kernel_linear", &kernel_linear, nb::arg("isa"), nb::arg("type"), nb::arg("source"), nb::arg("x"), nb::arg("outputs"), nb::arg("add") = false, nb::arg("onto") = 0.0f);
  m.def("kernel_quantise", &kernel_quantise, nb::arg("isa"), nb::arg("x"));
  m.def("kernel_row", &kernel_row, nb::arg("isa"), nb::arg("name"), nb::arg("x"), nb::arg("y"), nb::arg("number") = 1.0f);
  m.def("kernel_attend", &kernel_attend, nb::arg("isa"), nb::arg("queries"), nb::arg("visible"), nb::arg("keys"), nb::arg("values"));
  m.def("kernel_attend_f16", &kernel_attend_f16, nb::arg("isa"), nb::arg("queries"), nb::arg("visible"), nb::arg("keys"), nb::arg("values"));
  m.def("kernel_merge", &kernel_merge, nb::arg("isa"), nb::arg("first"), nb::arg("second"));
  m.def("kernel_draw", &kernel_draw, nb::arg("isa"), nb::arg("x"), nb::arg("inverse_temperature"), nb::arg("seed"), nb::arg("sample"), nb::arg("position"));
  m.def("kernel_token", &kernel_token, nb::arg("isa"), nb::arg("x"), nb::arg("draw"), nb::arg("position"), nb::arg("adjust") = nb::none());
  m.def("kernel_place", &kernel_place, nb::arg("isa"), nb::arg("x"), nb::arg("ids"), nb::arg("draw"), nb::arg("position"));
  m.def("kernel_law", &kernel_law, nb::arg("isa"), nb::arg("x"), nb::arg("draw"), nb::arg("adjust") = nb::none());
  m.def("kernel_logprobs", &kernel_logprobs, nb::arg("isa"), nb::arg("x"), nb::arg("chosen"), nb::arg("top"), nb::arg("draw").none(), nb::arg("adjust") = nb::none());
  m.def("kernel_top", &kernel_top, nb::arg("isa"), nb::arg("x"), nb::arg("count"));
}
