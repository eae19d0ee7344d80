// A suffix automaton that grows token by token: who follows each of its strings, how often and how lately.
#include <algorithm>

#include "outrider/drafting.h"

namespace outrider {
namespace {

size_t hash_of(int state, int token) {
  uint64_t x = static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32 | static_cast<uint32_t>(token);
  x *= 0x9E3779B97F4A7C15u;  // Fibonacci hashing: the high bits mix all of the key
  return static_cast<size_t>(x >> 32 ^ x);
}

}  // namespace

Automaton::Automaton() : states_{{0, -1, 0, 0, -1, 0}}, slots_(16, -1) {}

size_t Automaton::size_bytes() const {
  return sizeof(Automaton) + 2 * sizeof(State) * states_.size() + (2 * sizeof(Edge) + 4 * sizeof(int)) * edges_.size() +
         16 * sizeof(int) + 192 * ranked_.size();
}

int Automaton::find(int state, int token) const {
  for (size_t slot = hash_of(state, token) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
    const int edge = slots_[slot];
    if (edge < 0) return -1;
    const Edge& e = edges_[static_cast<size_t>(edge)];
    if (e.state == state && e.token == token) return edge;
  }
}

void Automaton::rehash(size_t slots) {
  slots_.assign(slots, -1);
  for (size_t edge = 0; edge < edges_.size(); ++edge) {
    size_t slot = hash_of(edges_[edge].state, edges_[edge].token) & (slots - 1);
    while (slots_[slot] >= 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = static_cast<int>(edge);
  }
}

void Automaton::connect(int state, int token, int to) {
  State& from = states_[static_cast<size_t>(state)];
  edges_.push_back({state, token, to, from.first});
  from.first = static_cast<int>(edges_.size()) - 1;
  ++from.followers;
  if (2 * edges_.size() > slots_.size()) return rehash(2 * slots_.size());
  size_t slot = hash_of(state, token) & (slots_.size() - 1);
  while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = from.first;
}

Automaton::Cursor Automaton::tail() const {
  const int state = std::max(states_[static_cast<size_t>(last_)].link, kRoot);
  return {state, states_[static_cast<size_t>(state)].length};
}

Automaton::Cursor Automaton::shorter(int state) const {
  const int link = std::max(states_[static_cast<size_t>(state)].link, kRoot);
  return {link, states_[static_cast<size_t>(link)].length};
}

Automaton::Cursor Automaton::advance(Cursor at, int token) const {
  int edge = find(at.state, token);
  while (edge < 0 && at.state != kRoot) {
    at = shorter(at.state);
    edge = find(at.state, token);
  }
  if (edge < 0) return {};
  const int child = edges_[static_cast<size_t>(edge)].to;
  // At the text's end nothing follows yet, but something did where its suffix stood before.
  return child == last_ ? tail() : Cursor{child, at.matched + 1};
}

Automaton::Follower Automaton::follower(int edge) const {
  const Edge& e = edges_[static_cast<size_t>(edge)];
  const State& child = states_[static_cast<size_t>(e.to)];
  return {child.count, child.recent, e.token};
}

void Automaton::ahead(int state, Ahead* out) {
  const State& here = states_[static_cast<size_t>(state)];
  out->found.clear();
  out->total = 0;
  out->different = here.followers;
  if (here.followers <= kMostScanned) {
    for (int edge = here.first; edge >= 0; edge = edges_[static_cast<size_t>(edge)].next) {
      out->found.push_back(follower(edge));
      out->total += out->found.back().count;
    }
    return;
  }
  out->total = here.count;
  auto [ranked, fresh] = ranked_.try_emplace(state);
  if (fresh) {  // once for a state: from now on, met() keeps the list
    std::vector<Follower> all;
    for (int edge = here.first; edge >= 0; edge = edges_[static_cast<size_t>(edge)].next) all.push_back(follower(edge));
    const auto more = [](const Follower& a, const Follower& b) {
      return std::pair(a.count, a.recent) > std::pair(b.count, b.recent);
    };
    std::partial_sort(all.begin(), all.begin() + kMostRanked, all.end(), more);
    for (int i = 0; i < kMostRanked; ++i) ranked->second.push_back(all[static_cast<size_t>(i)].token);
  }
  for (const int token : ranked->second) out->found.push_back(follower(find(state, token)));
}

void Automaton::extend(int token) {
  const int last = last_, made = states();
  const int length = states_[static_cast<size_t>(last)].length + 1;
  states_.push_back({length, kRoot, 1, length, -1, 0});
  int above = last, edge = -1;
  while (above >= 0 && (edge = find(above, token)) < 0) {
    connect(above, token, made);
    above = states_[static_cast<size_t>(above)].link;
  }
  if (above >= 0) {
    const int child = edges_[static_cast<size_t>(edge)].to;
    const bool whole = states_[static_cast<size_t>(child)].length == states_[static_cast<size_t>(above)].length + 1;
    const int link = whole ? child : split(above, token, child);
    states_[static_cast<size_t>(made)].link = link;
  }
  last_ = made;
  met(last, token, made);
}

// The strings of child that are no longer than above's and the token get a state of their own.
int Automaton::split(int above, int token, int child) {
  const int clone = states();
  State copy = states_[static_cast<size_t>(child)];
  copy.length = states_[static_cast<size_t>(above)].length + 1;
  const int first = copy.first;
  copy.first = -1;
  copy.followers = 0;
  states_.push_back(copy);
  for (int edge = first; edge >= 0; edge = edges_[static_cast<size_t>(edge)].next) {
    const Edge e = edges_[static_cast<size_t>(edge)];
    connect(clone, e.token, e.to);
  }
  if (const auto ranked = ranked_.find(child); ranked != ranked_.end()) {
    std::vector<int> same = ranked->second;
    ranked_.emplace(clone, std::move(same));
  }
  states_[static_cast<size_t>(child)].link = clone;
  for (int edge; above >= 0 && (edge = find(above, token)) >= 0 && edges_[static_cast<size_t>(edge)].to == child;
       above = states_[static_cast<size_t>(above)].link)
    edges_[static_cast<size_t>(edge)].to = clone;
  return clone;
}

// Counts the token behind every suffix of the text before it.
void Automaton::met(int last, int token, int made) {
  const int place = states_[static_cast<size_t>(made)].recent;
  int above = states_[static_cast<size_t>(last)].link, counted = made;
  for (int links = 0; links < kMostLinks && above >= 0; ++links) {
    const int child = edges_[static_cast<size_t>(find(above, token))].to;
    if (child != counted) {
      ++states_[static_cast<size_t>(child)].count;
      states_[static_cast<size_t>(child)].recent = place;
      counted = child;
    }
    if (states_[static_cast<size_t>(above)].followers > kMostScanned)
      if (const auto ranked = ranked_.find(above); ranked != ranked_.end()) rank(&ranked->second, above, token);
    above = states_[static_cast<size_t>(above)].link;
  }
}

// Puts a follower that was just counted in the place of the weakest one, if it is as strong now.
void Automaton::rank(std::vector<int>* ranked, int state, int token) {
  if (std::find(ranked->begin(), ranked->end(), token) != ranked->end()) return;
  size_t weakest = 0;
  int least = -1;
  for (size_t i = 0; i < ranked->size(); ++i) {
    const int count = follower(find(state, (*ranked)[i])).count;
    if (least < 0 || count < least) weakest = i, least = count;
  }
  if (follower(find(state, token)).count >= least) (*ranked)[weakest] = token;
}

}  // namespace outrider
