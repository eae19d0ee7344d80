// The goodput policy for src/outrider/policy. Included by bindings.cpp. Its parts are there for their tests.

Seen seen(std::vector<int> tokens, std::vector<int> parents, std::vector<double> scores, int forced) {
  check_kernel(tokens.size() == parents.size() && (scores.empty() || scores.size() == tokens.size()), "give each node a token, a parent and a score");
  for (size_t node = 0; node < parents.size(); ++node) check_kernel(parents[node] >= -1 && parents[node] < static_cast<int>(node), "a parent comes before its node");
  return {std::move(tokens), std::move(parents), std::move(scores), forced};
}

void bind_policy(nb::module_& m) {
  const auto own = [](const Counts& c, bool hits) {
    const auto& values = hits ? c.hits : c.tries;
    return std::vector<double>(values.begin(), values.end());
  };
  nb::class_<Seen>(m, "Seen")
      .def("__init__", [](Seen* at, std::vector<int> tokens, std::vector<int> parents, std::vector<double> scores, int forced) {
             new (at) Seen(seen(std::move(tokens), std::move(parents), std::move(scores), forced));
           }, nb::arg("tokens"), nb::arg("parents"), nb::arg("scores"), nb::arg("forced"))
      .def("keys", &keys_of, nb::arg("asked"));
  nb::class_<Counts>(m, "Counts")
      .def(nb::init<double>(), nb::arg("keep"))
      .def("fade_reach", &Counts::fade_reach, nb::arg("keep"))
      .def_prop_ro("tries", [own](const Counts& c) { return own(c, false); })
      .def_prop_ro("hits", [own](const Counts& c) { return own(c, true); });
  m.def("survival", [](const Seen& draft, const std::vector<int>& keys, const Counts& mine, const Counts& shared, double least) {
          check_kernel(keys.size() == draft.tokens.size(), "give each node a key");
          for (const int key : keys) check_kernel(key >= 0 && key < kKeys, "no such key");
          return survival(draft, keys, mine, shared, least);
        }, nb::arg("draft"), nb::arg("keys"), nb::arg("own"), nb::arg("shared"), nb::arg("least"));
  m.def("reach", &reach, nb::arg("depth"), nb::arg("own"), nb::arg("shared"), nb::arg("least"));
  nb::class_<Trace>(m, "Trace")
      .def("__init__", [](Trace* at, const Seen& draft, int asked) { new (at) Trace(draft, keys_of(draft, asked), asked); }, nb::arg("draft"), nb::arg("asked"))
      .def("follow", &Trace::follow, nb::arg("tokens"), nb::arg("own"), nb::arg("shared"))
      .def_prop_ro("depth", &Trace::depth);
  nb::class_<PassTimes>(m, "PassTimes")
      .def(nb::init<PassTimes::Cost, bool>(), nb::arg("cost"), nb::arg("measured"))
      .def("table", &PassTimes::table, nb::arg("sequences"), nb::arg("rows"), nb::arg("extra"), nb::arg("context"))
      .def("learn", &PassTimes::learn, nb::arg("sequences"), nb::arg("rows"), nb::arg("context"), nb::arg("seconds"))
      .def("plain_is_due", &PassTimes::plain_is_due, nb::arg("rows"));
  nb::class_<DraftTimes>(m, "DraftTimes")
      .def(nb::init<>())
      .def("learn", &DraftTimes::learn, nb::arg("allowed"), nb::arg("nodes"), nb::arg("seconds"))
      .def("learn_idle", &DraftTimes::learn_idle, nb::arg("seconds"))
      .def_prop_ro("node_s", &DraftTimes::node_s)
      .def_prop_ro("ask_s", &DraftTimes::ask_s)
      .def_prop_ro("mean_s", &DraftTimes::mean_s)
      .def_prop_ro("filled", &DraftTimes::filled)
      .def_prop_ro("asked", &DraftTimes::asked);
  nb::class_<Goodput>(m, "Goodput")
      .def(nb::init<PassTimes::Cost, bool, int, bool>(), nb::arg("cost"), nb::arg("measured"), nb::arg("most"), nb::arg("weighs"))
      .def("budgets", &Goodput::budgets, nb::arg("seqs"), nb::arg("lengths"), nb::arg("sequences"), nb::arg("rows"))
      .def("floors", &Goodput::floors)
      .def_prop_ro("stepping", &Goodput::stepping)
      .def("show", [](Goodput& g, int seq, std::vector<int> tokens, std::vector<int> parents, std::vector<double> scores, int forced) {
             g.show(seq, seen(std::move(tokens), std::move(parents), std::move(scores), forced));
           }, nb::arg("seq"), nb::arg("tokens"), nb::arg("parents"), nb::arg("scores"), nb::arg("forced"))
      .def("admit", &Goodput::admit)
      .def("shown", &Goodput::shown, nb::arg("seq"))
      .def("took", [](Goodput& g, int seq, std::vector<int> tokens, std::vector<int> parents, std::vector<double> scores, int forced) {
             if (!g.shown(seq)) g.took(seq, seen(std::move(tokens), std::move(parents), std::move(scores), forced));
           }, nb::arg("seq"), nb::arg("tokens"), nb::arg("parents"), nb::arg("scores"), nb::arg("forced"))
      .def("outcome", &Goodput::outcome, nb::arg("seq"), nb::arg("rows"), nb::arg("tokens"))
      .def("close", &Goodput::close, nb::arg("total_s"), nb::arg("draft_s"), nb::arg("target_s"));
}
