// Sources and drafts for src/outrider/drafters. Included by bindings.cpp. Calls take microseconds and keep the GIL, which
// is also what guards the state.

nb::object ints(const std::vector<int>& values) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLong(values[i]));
  return made;
}

nb::object floats(const std::vector<double>& values) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), PyFloat_FromDouble(values[i]));
  return made;
}

nb::tuple grown(const Grown& draft) { return nb::make_tuple(ints(draft.tokens), ints(draft.parents), floats(draft.scores)); }

nb::tuple blended(const Grown& draft) { return nb::make_tuple(ints(draft.tokens), ints(draft.parents), floats(draft.scores), ints(draft.sources)); }

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Keeps the arrays that its index points into.
template <class T>
struct KeptIndex {
  Array<T> text;
  Array<uint32_t> places, starts;
  StoreIndex index;

  KeptIndex(Array<T> t, Array<uint32_t> p, Array<uint32_t> s)
      : text(std::move(t)), places(std::move(p)), starts(std::move(s)), index(arrays()) {}

  StoreIndex::Arrays arrays() const {
    StoreIndex::Arrays a{nullptr, nullptr, places.data(), starts.data(), static_cast<int>(text.size()), static_cast<int>(places.size()), static_cast<int>(starts.size()) - 1};
    if constexpr (sizeof(T) == 2)
      a.text16 = text.data();
    else
      a.text32 = text.data();
    return a;
  }
};

template <class T>
std::shared_ptr<StoreIndex> store_index(Array<T> text, Array<uint32_t> places, Array<uint32_t> starts) {
  const size_t most = static_cast<size_t>(std::numeric_limits<int>::max());
  check_kernel(starts.size() > 1 && text.size() <= most && places.size() <= most && starts.size() <= most, "starts must be [V + 1], and all arrays shorter than 2^31");
  const auto kept = std::make_shared<KeptIndex<T>>(std::move(text), std::move(places), std::move(starts));
  return {kept, &kept->index};
}

Slice slice_of(const std::tuple<int, int, int>& s) { return {std::get<0>(s), std::get<1>(s), std::get<2>(s)}; }
std::tuple<int, int, int> slice_out(const Slice& s) { return {s.length, s.low, s.high}; }

void bind_drafting(nb::module_& m) {
  nb::class_<Automaton>(m, "Automaton")
      .def(nb::init<>())
      .def("extend", [](Automaton& a, const std::vector<int>& tokens) { for (const int token : tokens) a.extend(token); }, nb::arg("tokens"))
      .def("tail", [](const Automaton& a) { const auto c = a.tail(); return std::pair(c.state, c.matched); })
      .def("advance", [](const Automaton& a, int state, int matched, int token) { const auto c = a.advance({state, matched}, token); return std::pair(c.state, c.matched); },
           nb::arg("state"), nb::arg("matched"), nb::arg("token"))
      .def("shorter", [](const Automaton& a, int state) { const auto c = a.shorter(state); return std::pair(c.state, c.matched); }, nb::arg("state"))
      .def("ahead", [](Automaton& a, int state) {
             Automaton::Ahead found;
             a.ahead(state, &found);
             std::vector<std::tuple<int, int, int>> followers;
             for (const auto& f : found.found) followers.emplace_back(f.count, f.recent, f.token);
             return std::tuple(found.total, found.different, followers);
           }, nb::arg("state"))
      .def_prop_ro("states", &Automaton::states)
      .def_prop_ro("size_bytes", &Automaton::size_bytes);

  nb::class_<Memory>(m, "Memory")
      .def(nb::init<size_t>(), nb::arg("limit"))
      .def("read", &Memory::read, nb::arg("scope"))
      .def("add", &Memory::add, nb::arg("scope"), nb::arg("answer"))
      .def_prop_ro("size_bytes", &Memory::size_bytes)
      .def_prop_ro("version", &Memory::version);

  nb::class_<StoreIndex>(m, "StoreIndex")
      .def(nb::new_(&store_index<uint16_t>), nb::arg("text").noconvert(), nb::arg("places").noconvert(), nb::arg("starts").noconvert())
      .def(nb::new_(&store_index<uint32_t>), nb::arg("text").noconvert(), nb::arg("places").noconvert(), nb::arg("starts").noconvert())
      .def("find", [](const StoreIndex& i, int token) { return slice_out(i.find(token)); }, nb::arg("token"))
      .def("longer", [](const StoreIndex& i, const std::tuple<int, int, int>& context, int token) { return slice_out(i.longer(slice_of(context), token)); },
           nb::arg("context"), nb::arg("token"))
      .def("continuations", [](StoreIndex& i, const std::tuple<int, int, int>& context) {
             const Continuations& found = i.continuations(slice_of(context));
             return std::tuple(found.total, found.distinct, found.commonest);
           }, nb::arg("context"));

  nb::class_<RecycleTable>(m, "RecycleTable")
      .def(nb::init<int>(), nb::arg("vocab"));

  nb::class_<Source>(m, "Source")
      .def("extend", &Source::extend, nb::arg("tokens"))
      .def("grow", [](Source& s, int nodes, int depth, int branches, double least, std::vector<double> floors) {
             return grown(grow(s, {nodes, depth, branches, least, std::move(floors)}));
           }, nb::arg("nodes"), nb::arg("depth"), nb::arg("branches"), nb::arg("least"), nb::arg("floors") = std::vector<double>());
  nb::class_<SuffixText, Source>(m, "SuffixText")
      .def("__init__", [](SuffixText* at, const std::vector<int>& prompt, std::shared_ptr<Memory> memory, double factor, double offset) {
             new (at) SuffixText(prompt, std::move(memory), {factor, offset});
           }, nb::arg("prompt"), nb::arg("memory").none(), nb::arg("factor"), nb::arg("offset"))
      .def("enter", &SuffixText::enter, nb::arg("scope"))
      .def("remember", &SuffixText::remember)
      .def_prop_ro("size_bytes", &SuffixText::size_bytes);
  nb::class_<StoreText, Source>(m, "StoreText")
      .def(nb::init<std::shared_ptr<StoreIndex>, int, int, const std::vector<int>&>(), nb::arg("index"), nb::arg("longest"), nb::arg("deepest"), nb::arg("prompt"));
  nb::class_<RecycleText, Source>(m, "RecycleText")
      .def(nb::init<int>(), nb::arg("last"))
      .def("enter", &RecycleText::enter, nb::arg("table"))
      .def("learn", [](RecycleText& text, const std::vector<int>& tokens, const std::vector<std::pair<int, std::vector<int>>>& followers) {
             text.extend(tokens);
             for (const auto& [token, likely] : followers) text.remember(token, likely);
           }, nb::arg("tokens"), nb::arg("followers"))
      .def_prop_ro("entered", &RecycleText::entered);

  using GuessTuple = std::pair<int, double>;
  nb::class_<Levels, Source>(m, "Levels")
      .def(nb::init<>())
      .def("set", [](Levels& l, const std::vector<std::vector<GuessTuple>>& levels, std::vector<int> chain, bool independent) {
             std::vector<std::vector<Guess>> given;
             for (const auto& level : levels) {
               given.emplace_back();
               for (const auto& [token, chance] : level) given.back().push_back({token, chance});
             }
             l.set(std::move(given), std::move(chain), independent);
           }, nb::arg("levels"), nb::arg("chain"), nb::arg("independent"))
      .def("clear", &Levels::clear);

  using WeightTuple = std::tuple<double, double, double>;
  nb::class_<Blend>(m, "Blend")
      .def("__init__", [](Blend* at, std::vector<std::shared_ptr<Source>> sources, const std::vector<WeightTuple>& weights, double bias, double rate) {
             std::vector<Mixer::Weight> given;
             for (const auto& [word, named, unsaid] : weights) given.push_back({word, named, unsaid});
             new (at) Blend(std::move(sources), Mixer(given, bias, rate));
           }, nb::arg("sources"), nb::arg("weights"), nb::arg("bias"), nb::arg("rate"))
      .def("grow", [](Blend& b, int nodes, int depth, int branches, double least, std::vector<double> floors) {
             return blended(b.grow({nodes, depth, branches, least, std::move(floors)}));
           }, nb::arg("nodes"), nb::arg("depth"), nb::arg("branches"), nb::arg("least"), nb::arg("floors") = std::vector<double>())
      .def("learn", &Blend::learn, nb::arg("tokens"))
      .def_prop_ro("weights", [](const Blend& b) {
             std::vector<WeightTuple> found;
             for (const auto& w : b.mixer().weights()) found.emplace_back(w.word, w.named, w.unsaid);
             return found;
           })
      .def_prop_ro("bias", [](const Blend& b) { return b.mixer().bias(); });
}
