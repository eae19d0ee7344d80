#include <algorithm>
#include <cmath>

#include "outrider/policy.h"

namespace outrider {
namespace {

constexpr double kFreeShare = 0.022;  // of a plain step: a drafter that costs less is asked always, there is nothing to probe
constexpr double kProbeShare = 0.008;  // of the time may go into asking a drafter that is not expected to pay
constexpr double kLongestWaitShare = 0.005;  // of the time, for probes that keep failing
constexpr double kPurseSteps = 8.0;  // plain steps' worth of probing time that can be saved up, unless one probe costs more
constexpr double kWaitKeep = 0.98;   // of what is known of a sequence, for each step without news
constexpr int kFirstNodes = 4;       // asked for while nothing is known of the drafter's time
constexpr double kLate = 4.0;        // a step that took more than so many times what was expected counts as so late
constexpr double kNegligible = 0.01;  // chance of a node that is not worth a look
constexpr int kLongestWait = 1 << 20;  // steps
constexpr size_t kMostStates = 512;
// Of numbers of nodes whose goodput differs by less than this the largest is taken: T is known no better, and on the
// default model's answers (benchmarks/admitting.py) that brings 1 % more tokens a pass at the same speed.
constexpr double kEven = 0.995;
constexpr double kFloor = 0.75;  // of the chance that admit would ask for: it may believe more of a node than its drafter does

// A node that would be had: where it is, and its chance. Sorted by falling chance, else as found; a node is found after
// the one above it, so of two equal chances the upper node's is first.
struct Wish {
  double chance;
  size_t place;
  int node;
};

std::vector<double> sorted(std::vector<Wish>* wishes) {
  std::stable_sort(wishes->begin(), wishes->end(), [](const Wish& a, const Wish& b) { return a.chance > b.chance; });
  std::vector<double> chances;
  for (const Wish& wish : *wishes) chances.push_back(wish.chance);
  return chances;
}

}  // namespace

Goodput::Goodput(PassTimes::Cost cost, bool measured, int most, bool weighs)
    : most_(most), weighs_(weighs), passes_(std::move(cost), measured), shared_(Counts::kSharedKeep) {}

std::vector<int> Goodput::budgets(const std::vector<int>& seqs, const std::vector<int>& lengths, int sequences, int rows) {
  std::vector<int> found(seqs.size(), 0);
  if (seqs.empty() || !most_) return found;
  double context = 0.0;
  for (const int length : lengths) context += length;
  context /= static_cast<double>(lengths.size());
  step_ = Step{sequences, rows, static_cast<int>(seqs.size()), context, 0.0, rows};
  step_->plain_s = times(0)[0] + other_s_;
  shown_.clear();
  if (states_.size() > kMostStates)
    for (auto s = states_.begin(); s != states_.end();)
      s = std::find(seqs.begin(), seqs.end(), s->first) == seqs.end() ? states_.erase(s) : std::next(s);
  std::vector<State*> states;
  for (size_t i = 0; i < seqs.size(); ++i) states.push_back(&state(seqs[i], lengths[i]));
  ask(states);
  for (size_t i = 0; i < seqs.size(); ++i) step_->largest = std::max(step_->largest, found[i] = states[i]->asked);
  return found;
}

// A node that is taken is the first of a run of nodes that are no likelier, and best has to find the run at least even: it
// brings no more than its first node's chance for each node, and no step is worth less than a plain one. Of one sequence's
// nodes the k-th is the k-th of all, so every run from there on counts; among those of others it may be any from the k-th on,
// so the cheapest row does.
std::vector<double> Goodput::floors() {
  const int most = step_ ? step_->largest : 0;
  std::vector<double> found(static_cast<size_t>(most));
  if (!most) return found;
  const int each = step_->sequences, all = most * each;
  const std::vector<double> pass_s = times(all);
  const double spent_s = other_s_ + ask_s();
  const auto price = [&](int from, int to) {
    const double more_s = pass_s[static_cast<size_t>(to)] - pass_s[static_cast<size_t>(from)];
    const double even_s = kEven * more_s - (1.0 - kEven) * (pass_s[static_cast<size_t>(from)] + spent_s);
    return kFloor * each * even_s / ((pass_s[0] + spent_s) * (to - from));
  };
  double cheapest = 1.0;
  for (int from = all - 1; from >= 0; --from) {
    double least = price(from, from + 1);
    for (int to = from + 2; each == 1 && to <= all; ++to) least = std::min(least, price(from, to));
    cheapest = std::min(cheapest, least);
    if (from < most) found[static_cast<size_t>(from)] = std::max(0.0, each == 1 ? least : cheapest);
  }
  return found;
}

Goodput::State& Goodput::state(int seq, int length) {
  std::unique_ptr<State>& found = states_[seq];
  if (!found || found->length != length) found = std::make_unique<State>(length);
  found->asked = 0;
  found->has = found->probing = false;
  return *found;
}

// Sets what each sequence asks for.
void Goodput::ask(const std::vector<State*>& states) {
  // A pass that also reads a prompt tells nothing, so it is no time to look.
  if (step_->load_rows == step_->load_sequences && passes_.plain_is_due(step_->load_rows)) return;
  if (drafting_.asked() < DraftTimes::kFirstAsks) {
    for (State* s : states) s->asked = std::min(most_, kFirstNodes);
    return;
  }
  const double free_s = kFreeShare * step_->plain_s;
  std::vector<State*> rest = states;
  if (drafting_.mean_s() <= free_s) {
    rest.clear();
    for (State* s : states) {
      s->asked = s->cuts ? most_ : 0;
      if (!s->cuts) rest.push_back(s);
    }
  }
  if (rest.empty()) return;
  buy(rest, rest.size() < states.size() ? 0.0 : ask_s());
  bool asked = false;
  for (const State* s : states) asked = asked || s->asked;
  probe(rest, asked);
  if (asked_node_s() * most_ * static_cast<double>(states.size()) > free_s) return;
  // Rows are chosen once drafts are there; until then a node costs next to nothing.
  for (State* s : rest)
    if (s->asked && s->cuts && !s->probing) s->asked = most_;
}

// Asks for as many nodes as are expected to save more time than they and the asking (ask_s) take.
void Goodput::buy(const std::vector<State*>& states, double ask_s) {
  std::vector<Wish> wishes;
  // Below, a node does not even pay for its own drafting.
  const double least = std::max(kNegligible, step_->sequences * asked_node_s() / step_->plain_s);
  for (size_t place = 0; place < states.size(); ++place)
    for (const double chance : reach(most_, states[place]->own, shared_, least)) wishes.push_back({chance, place, 0});
  const int count = best(sorted(&wishes), 0.0, ask_s, asked_node_s());
  for (int i = 0; i < count; ++i) ++states[wishes[static_cast<size_t>(i)].place]->asked;
}

// Asks now and then for sequences that nothing is expected of, within the time that may be spent on it.
void Goodput::probe(const std::vector<State*>& states, bool asked) {
  const double each_s = node_s(), plain_s = step_->plain_s;
  int nodes = std::min(most_, kFirstNodes);
  while (nodes > 1 && each_s * nodes > ask_s()) --nodes;
  const std::vector<double> pass_s = times(nodes);
  const double rows_s = std::max(0.0, pass_s.back() - pass_s[0]);
  std::vector<State*> order = states;
  std::stable_sort(order.begin(), order.end(), [](const State* a, const State* b) { return a->idle > b->idle; });
  for (State* s : order) {
    if (s->asked) {
      s->idle = 0, s->wait = 1;
      continue;
    }
    ++s->idle;
    double cost_s = each_s * nodes + (asked ? 0.0 : ask_s()) + (s->cuts ? 0.0 : rows_s);
    // What a probe is expected to bring after all is no loss.
    double tokens = 0.0;
    for (const double chance : reach(nodes, s->own, shared_, kNegligible)) tokens += chance;
    cost_s = std::max(0.0, cost_s - tokens * plain_s / step_->sequences);
    purse_s_ = std::min(purse_s_, std::max(cost_s, kPurseSteps * kProbeShare * plain_s));
    const double longest = std::max(1.0, cost_s / (kLongestWaitShare * plain_s));
    // After a probe that came true the next one follows at once, saved up or not: the text may have turned.
    if (!s->hot && (s->idle < std::min<double>(s->wait, longest) || purse_s_ < cost_s)) continue;
    purse_s_ -= cost_s;
    s->own.fade_reach(std::pow(kWaitKeep, s->idle));
    s->asked = nodes;
    s->probing = asked = true;
    s->idle = 0;
  }
}

// Seconds of the step's pass with 0, 1, ... extra nodes. What reading a prompt takes is left out: it is spent once whatever
// is drafted, and a token saved saves a share of a pass without prompts. In proportion to the whole pass every node would
// look cheap.
std::vector<double> Goodput::times(int extra) {
  const Step& step = *step_;
  std::vector<double> found = passes_.table(step.load_sequences, step.load_rows, extra, step.context);
  if (step.load_rows == step.load_sequences) return found;
  const double prompt_s = found[0] - passes_.table(step.load_sequences, step.load_sequences, 0, step.context)[0];
  for (double& seconds : found) seconds -= prompt_s;
  return found;
}

// How many of the chances, highest first, make tokens / seconds of the step highest; of even numbers the largest. Besides
// the pass, spent_s is spent in any case, ask_s where there is a node at all, node_s for each.
int Goodput::best(const std::vector<double>& chances, double spent_s, double ask_s, double node_s) {
  const int most = static_cast<int>(chances.size());
  const std::vector<double> pass_s = times(most);
  spent_s += other_s_;
  double tokens = step_->sequences, highest = tokens / (pass_s[0] + spent_s);
  spent_s += ask_s;
  int found = 0;
  for (int count = 1; count <= most; ++count) {
    tokens += chances[static_cast<size_t>(count - 1)];
    spent_s += node_s;
    const double goodput = tokens / (pass_s[static_cast<size_t>(count)] + spent_s);
    if (goodput > kEven * highest) found = count, highest = std::max(highest, goodput);
  }
  return found;
}

void Goodput::show(int seq, Seen draft) {
  const auto found = states_.find(seq);
  if (!step_ || found == states_.end()) return;
  State& s = *found->second;
  s.keys = keys_of(draft, s.asked);
  s.drafted = std::move(draft);
  s.has = s.cuts = true;
  shown_.push_back(seq);
}

std::vector<std::vector<int>> Goodput::admit() {
  std::vector<Wish> wishes;
  std::vector<std::vector<int>> chosen(shown_.size());
  int nodes = 0;
  for (size_t place = 0; place < shown_.size(); ++place) {
    const State& s = *states_.at(shown_[place]);
    nodes += s.drafted.size();
    const std::vector<double> chances = survival(s.drafted, s.keys, s.own, shared_, kNegligible);
    for (size_t node = 0; node < chances.size(); ++node)
      if (chances[node] >= kNegligible) wishes.push_back({chances[node], place, static_cast<int>(node)});
  }
  const int count = best(sorted(&wishes), ask_s() + node_s() * nodes, 0.0, 0.0);
  for (int i = 0; i < count; ++i) chosen[wishes[static_cast<size_t>(i)].place].push_back(wishes[static_cast<size_t>(i)].node);
  for (std::vector<int>& part : chosen) std::sort(part.begin(), part.end());
  return chosen;
}

bool Goodput::shown(int seq) const {
  const auto found = states_.find(seq);
  return !step_ || found == states_.end() || !found->second->asked || found->second->has;
}

void Goodput::took(int seq, Seen draft) {
  State& s = *states_.at(seq);
  s.keys = keys_of(draft, s.asked);
  s.cuts = s.cuts && draft.tokens.empty();
  s.drafted = std::move(draft);
  s.has = true;
}

void Goodput::outcome(int seq, int rows, const std::vector<int>& tokens) {
  if (!step_) return;
  ++step_->outcomes;
  step_->rows += rows;
  const auto found = states_.find(seq);
  if (found == states_.end()) return;
  State& s = *found->second;
  step_->allowed += s.asked;
  s.length += static_cast<int>(tokens.size());
  if (s.trace && !s.trace->follow(tokens, s.own, shared_)) s.trace.reset();
  if (!s.asked || !s.has) return;
  step_->nodes += s.drafted.size();
  Trace trace(std::move(s.drafted), std::move(s.keys), s.asked);
  const bool goes_on = trace.follow(tokens, s.own, shared_);
  if (s.probing) {
    s.hot = trace.depth() > 0;
    s.wait = s.hot ? 1 : std::min(2 * s.wait, kLongestWait);
  }
  // One at a time: the deep nodes of a draft are decided steps later, when it has many successors.
  if (goes_on && !s.trace) s.trace = std::move(trace);
}

void Goodput::close(double total_s, double draft_s, double target_s) {
  if (!step_) return;
  const Step step = *step_;
  step_.reset();
  if (!step.outcomes) return;
  if (step.allowed)
    drafting_.learn(step.allowed, step.nodes, draft_s);
  else
    drafting_.learn_idle(draft_s);
  if (step.load_rows != step.load_sequences) return;  // it also read a prompt, which tells nothing of drafts
  passes_.learn(step.load_sequences, step.rows, step.context, target_s);
  const double other_s = total_s - draft_s - target_s;
  if (!(total_s > 0.0) || !std::isfinite(total_s) || !std::isfinite(other_s)) return;
  other_s_ += (std::min(std::max(0.0, other_s), step.plain_s) - other_s_) / 16;
  purse_s_ += kProbeShare * std::min(total_s, kLate * step.plain_s);
}

}  // namespace outrider
