// A drafting head's Python face. Included by bindings.cpp.

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>;
using HeadTensorTuple = std::tuple<std::string, std::string, int, int, AnyArray>;  // name, type, rows, cols, data
using HeadTuple = std::tuple<int, int, int, DrawTuple, uint32_t, int, float>;  // seq, last, steps, draw, position, width, least
using HeadDrawnTuple = std::pair<std::vector<int>, std::vector<std::vector<std::pair<int, float>>>>;

std::shared_ptr<Head> attach(Engine& engine, const nb::dict& d, const std::vector<HeadTensorTuple>& tensors) {
  HeadConfig c;
  const auto number = [&](const char* key) { return nb::cast<int>(d[key]); };
  c.chain = nb::cast<bool>(d["chain"]);
  c.taps = nb::cast<std::vector<int>>(d["taps"]);
  c.hidden = number("hidden");
  c.heads = number("heads");
  c.kv_heads = number("kv_heads");
  c.head_dim = number("head_dim");
  c.feed_forward = number("feed_forward");
  c.draft_vocab = number("draft_vocab");
  c.depth = number("depth");
  c.norm_eps = nb::cast<float>(d["norm_eps"]);
  c.inverse_temperature = nb::cast<float>(d["inverse_temperature"]);
  std::vector<HeadTensor> native;
  for (const auto& [name, type, rows, cols, data] : tensors)
    native.push_back({name, type, rows, cols, static_cast<const uint8_t*>(data.data()), data.nbytes()});
  nb::gil_scoped_release release;
  return engine.attach(c, native);
}

std::vector<HeadDrawnTuple> draft(Engine& engine, Head& head, const std::vector<HeadTuple>& items) {
  std::vector<HeadItem> native;
  native.reserve(items.size());
  for (const auto& [seq, last, steps, draw, position, width, least] : items)
    native.push_back({seq, last, steps, draw_of(draw), position, width, least});
  std::vector<HeadDrawnTuple> found;
  nb::gil_scoped_release release;
  for (HeadDrawn& drawn : engine.draft(head, native)) found.emplace_back(std::move(drawn.tokens), std::move(drawn.likely));
  return found;
}

nb::tuple export_head(Engine& engine, const Head& head, int seq) {
  std::vector<uint8_t> features, keys, values;
  {
    nb::gil_scoped_release release;
    engine.export_head(head, seq, &features, &keys, &values);
  }
  return nb::make_tuple(nb::bytes(features.data(), features.size()), nb::bytes(keys.data(), keys.size()), nb::bytes(values.data(), values.size()));
}

void bind_head(nb::module_& m, nb::class_<Engine>& engine) {
  nb::class_<Head>(m, "Head")
      .def_prop_ro("weight_bytes", [](const Head& head) { return head.weights().bytes; })
      .def_prop_ro("sequences", &Head::sequences);
  engine.def("attach", &attach, nb::arg("config"), nb::arg("tensors"))
      .def("follow", &Engine::follow, nb::arg("head"), nb::arg("seq"), Release())
      .def("unfollow", &Engine::unfollow, nb::arg("head"), nb::arg("seq"), Release())
      .def("draft", &draft, nb::arg("head"), nb::arg("items"))
      .def("export_head", &export_head, nb::arg("head"), nb::arg("seq"));
}
