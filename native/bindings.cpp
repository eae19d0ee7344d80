// The C++ engine's Python face (src/outrider/_native.pyi). Checks what C++ would trust; passes run without the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "outrider/engine.h"
#include "outrider/growing.h"
#include "outrider/policy.h"
#include "outrider/pool.h"

namespace nb = nanobind;
using namespace outrider;

namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using FloatIn = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T> fresh(std::vector<size_t> shape, T** data) {
  size_t count = 1;
  for (size_t n : shape) count *= n;
  auto* owner = new Buffer<T>(count + 1);
  *data = owner->get();
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<Buffer<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owner->get(), shape.size(), shape.data(), capsule);
}

ModelConfig config_of(const nb::dict& d) {
  ModelConfig c;
  const auto number = [&](const char* key) { return nb::cast<int>(d[key]); };
  c.layers = number("layers");
  c.hidden = number("hidden");
  c.heads = number("heads");
  c.kv_heads = number("kv_heads");
  c.head_dim = number("head_dim");
  c.feed_forward = number("feed_forward");
  c.vocab = number("vocab");
  c.context = number("context");
  c.norm_eps = nb::cast<float>(d["norm_eps"]);
  c.rope_base = nb::cast<double>(d["rope_base"]);
  c.rope_linear_factor = nb::cast<double>(d["rope_linear_factor"]);
  c.rope_factors = nb::cast<std::string>(d["rope_factors"]);
  c.tied_head = nb::cast<bool>(d["tied_head"]);
  c.dense = nb::cast<bool>(d["dense"]);
  return c;
}

using TensorTuple = std::tuple<std::string, std::string, std::vector<int64_t>, int64_t>;
// inverse temperature, seed, sample, top_k, top_p, min_p, typical_p
using DrawTuple = std::tuple<float, uint64_t, uint32_t, int, double, float, double>;
using ExtendTuple = std::tuple<int, std::vector<int>, std::vector<int>, std::vector<uint8_t>, DrawTuple>;
template <class T>
using ArrayIn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// ids, divisors, offsets, mask
using AdjustIn = std::optional<std::tuple<ArrayIn<int32_t>, ArrayIn<float>, ArrayIn<float>, std::optional<ArrayIn<uint32_t>>>>;
// seq, tokens, count, draw, position, ids
using ChainTuple = std::tuple<int, std::vector<int>, int, DrawTuple, uint32_t, std::optional<ArrayIn<int32_t>>>;
using LogprobsOut = std::pair<float, std::vector<std::pair<int, float>>>;

DrawSpec draw_of(const DrawTuple& draw) {
  const auto& [inverse_temperature, seed, sample, top_k, top_p, min_p, typical_p] = draw;
  if (!(inverse_temperature >= 0.0f) || top_k < 0)
    throw std::invalid_argument("a draw has temperature >= 0 and top_k >= 0");
  return {inverse_temperature, seed, sample, top_k, top_p, min_p, typical_p};
}

// The arrays stay the caller's.
AdjustSpec adjust_of(const AdjustIn& adjust, int vocab) {
  AdjustSpec spec;
  if (!adjust) return spec;
  const auto& [ids, divisors, offsets, mask] = *adjust;
  spec.count = ids.size();
  if (divisors.size() != spec.count || offsets.size() != spec.count)
    throw std::invalid_argument(std::to_string(spec.count) + " ids need as many divisors and offsets, not " +
                                std::to_string(divisors.size()) + " and " + std::to_string(offsets.size()));
  for (size_t i = 0; i < spec.count; ++i)
    if (ids.data()[i] < 0 || ids.data()[i] >= vocab)
      throw std::invalid_argument("adjusted id " + std::to_string(ids.data()[i]) + " is outside the vocabulary of " + std::to_string(vocab));
  if (mask && mask->size() != static_cast<size_t>((vocab + 31) / 32))
    throw std::invalid_argument("a mask of " + std::to_string(mask->size()) + " words does not cover a vocabulary of " +
                                std::to_string(vocab) + ": ceil(V / 32) words do");
  spec.ids = ids.data();
  spec.divisors = divisors.data();
  spec.offsets = offsets.data();
  spec.mask = mask ? mask->data() : nullptr;
  return spec;
}

Engine* make_engine(const nb::dict& config, const std::string& path, const std::vector<TensorTuple>& tensors,
                    const std::string& isa, int threads) {
  if (threads < 1 || threads > kMaxThreads) throw std::invalid_argument("threads must be between 1 and 256");
  const ModelConfig c = config_of(config);
  std::vector<TensorSource> sources;
  for (const auto& [name, type, shape, offset] : tensors) sources.push_back({name, type, shape, offset});
  nb::gil_scoped_release release;
  return new Engine(c, path, sources, isa, threads);
}

std::vector<ExtendItem> items_of(const std::vector<ExtendTuple>& items) {
  std::vector<ExtendItem> native;
  native.reserve(items.size());
  for (const auto& [seq, tokens, parents, want, draw] : items)
    native.push_back({seq, tokens, parents, want, draw_of(draw)});
  return native;
}

std::shared_ptr<Scores> extend(Engine& engine, const std::vector<ExtendTuple>& items) {
  const std::vector<ExtendItem> native = items_of(items);
  nb::gil_scoped_release release;
  return engine.extend(native);
}

std::tuple<double, double, double, double> phase_seconds(Engine& engine, const std::vector<ExtendTuple>& items) {
  const std::vector<ExtendItem> native = items_of(items);
  nb::gil_scoped_release release;
  PhaseSeconds spent;
  engine.extend(native, &spent);
  return {spent.linear, spent.attention, spent.head, spent.other};
}

// The ids stay the caller's.
std::vector<std::pair<std::vector<int>, std::vector<float>>> chain(Engine& engine, const std::vector<ChainTuple>& items) {
  std::vector<ChainItem> native;
  native.reserve(items.size());
  for (const auto& [seq, tokens, count, draw, position, ids] : items) {
    const bool own = !ids;
    if (!own && ids->size() > static_cast<size_t>(std::numeric_limits<int>::max())) throw std::invalid_argument("ids is too long");
    native.push_back({seq, tokens, count, draw_of(draw), position, own ? nullptr : ids->data(), own ? 0 : static_cast<int>(ids->size())});
  }
  std::vector<std::pair<std::vector<int>, std::vector<float>>> found;
  nb::gil_scoped_release release;
  for (DrawnChain& drawn : engine.chain(native)) found.emplace_back(std::move(drawn.tokens), std::move(drawn.best));
  return found;
}

nb::ndarray<nb::numpy, const float> logits(const std::shared_ptr<Scores>& scores, int item, int row) {
  const float* data = scores->logits(item, row);
  nb::capsule keep(new std::shared_ptr<Scores>(scores),
                   [](void* p) noexcept { delete static_cast<std::shared_ptr<Scores>*>(p); });
  const size_t shape[1] = {static_cast<size_t>(scores->vocab)};
  return nb::ndarray<nb::numpy, const float>(data, 1, shape, keep);
}

// Keeps the GIL: a draw takes microseconds, and beside a busy thread each time that the GIL is given away it comes back
// only after a switch interval, which is milliseconds (benchmarks/lock.py).
int token(Scores& scores, int item, int row, const AdjustIn& adjust) {
  return adjust ? scores.token(item, row, adjust_of(adjust, scores.vocab)) : scores.token(item, row);
}

nb::ndarray<nb::numpy, float> law(const Scores& scores, int item, int row, const AdjustIn& adjust) {
  const AdjustSpec spec = adjust_of(adjust, scores.vocab);
  float* out;
  auto result = fresh<float>({static_cast<size_t>(scores.vocab)}, &out);
  nb::gil_scoped_release release;
  scores.law(item, row, spec, out);
  return result;
}

LogprobsOut logprobs(const Scores& scores, int item, int row, int chosen, int top, bool processed, const AdjustIn& adjust) {
  const AdjustSpec spec = adjust_of(adjust, scores.vocab);
  nb::gil_scoped_release release;
  const Logprobs found = scores.logprobs(item, row, chosen, top, processed, spec);
  return {found.chosen, found.top};
}

nb::ndarray<nb::numpy, float> states(const Scores& scores, int item) {
  float* out;
  auto result = fresh<float>({scores.rows(item), scores.taps.size() * static_cast<size_t>(scores.states.hidden)}, &out);
  nb::gil_scoped_release release;
  scores.copy_states(item, out);
  return result;
}

nb::tuple export_cache(Engine& engine, int seq) {
  std::vector<uint8_t> keys, values;
  {
    nb::gil_scoped_release release;
    engine.export_cache(seq, &keys, &values);
  }
  return nb::make_tuple(nb::bytes(keys.data(), keys.size()), nb::bytes(values.data(), values.size()));
}

#include "bindings_head.h"
#include "bindings_kernels.h"
#include "bindings_drafting.h"
#include "bindings_policy.h"

}  // namespace

NB_MODULE(_native, m) {
  m.def("isas", &usable_isas);
  m.def("usable_cores", &usable_cores);
  bind_kernels(m);
  bind_drafting(m);
  bind_policy(m);

  nb::class_<Scores>(m, "Scores")
      .def("token", &token, nb::arg("item"), nb::arg("row"), nb::arg("adjust") = nb::none())
      .def("logits", &logits, nb::arg("item"), nb::arg("row"))
      .def("law", &law, nb::arg("item"), nb::arg("row"), nb::arg("adjust") = nb::none())
      .def("logprobs", &logprobs, nb::arg("item"), nb::arg("row"), nb::arg("chosen"), nb::arg("top"), nb::arg("processed"),
           nb::arg("adjust") = nb::none())
      .def("top", &Scores::top, nb::arg("item"), nb::arg("row"), nb::arg("count"))
      .def("states", &states, nb::arg("item"));

  nb::class_<Engine> engine(m, "Engine");
  bind_head(m, engine);
  engine.def(nb::new_(&make_engine), nb::arg("config"), nb::arg("path"), nb::arg("tensors"), nb::arg("isa"), nb::arg("threads"))
      .def("open", &Engine::open, Release())
      .def("fork", &Engine::fork, nb::arg("seq"), Release())
      .def("truncate", &Engine::truncate, nb::arg("seq"), nb::arg("length"), Release())
      .def("close", &Engine::close, nb::arg("seq"), Release())
      .def("length", &Engine::length, nb::arg("seq"), Release())
      .def("extend", &extend, nb::arg("items"))
      .def("phase_seconds", &phase_seconds, nb::arg("items"))
      .def("commit", &Engine::commit, nb::arg("items"), Release())
      .def("chain", &chain, nb::arg("items"))
      .def("tap", &Engine::tap, nb::arg("layers"), Release())
      .def("export_cache", &export_cache, nb::arg("seq"))
      .def_prop_ro("open_sequences", &Engine::open_sequences, Release())
      .def_prop_ro("blocks_used", &Engine::blocks_used, Release())
      .def_prop_ro("block_bytes", &Engine::block_bytes)
      .def_prop_ro("block_tokens", [](const Engine&) { return kCacheBlock; })
      .def_prop_ro("isa", [](const Engine& e) { return std::string(e.kernels().name); })
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("weight_bytes", [](const Engine& e) { return e.model().weight_bytes; });
}
