// What a head knows of its sequences, and how it drafts for them.
#include "outrider/head.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "head_pass.h"
#include "outrider/engine.h"

namespace outrider {
namespace {

// So many positions may wait to be read: a long prompt must not keep thousands of states.
constexpr int kMostWaiting = 32;
constexpr size_t kSlice = HeadPass::kRows;  // rows that are heard before it is asked whether too many wait

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

std::string text(int64_t n) { return std::to_string(n); }

void check(const HeadConfig& c, const ModelConfig& target) {
  const std::pair<const char*, int> sizes[] = {{"draft vocabulary", c.draft_vocab}, {"depth", c.depth}};
  for (const auto& [name, n] : sizes) require(n > 0 && n < (1 << 24), std::string(name) + " is " + text(n) + "; it must be between 1 and 16,777,215");
  require(c.hidden == target.hidden, "its hidden size is " + text(c.hidden) + " and the model's is " + text(target.hidden));
  require(!c.taps.empty() && (c.chain || c.taps.size() == 1), "it has " + text(static_cast<int64_t>(c.taps.size())) + " taps");
  for (int tap : c.taps) require(tap >= 0 && tap <= target.layers, "it taps state " + text(tap) + "; the model has 0 to " + text(target.layers));
  if (!c.chain) return;
  require(c.head_dim == target.head_dim, "its head size is " + text(c.head_dim) + " and the model's is " + text(target.head_dim));
  require(c.kv_heads > 0 && c.heads > 0 && c.heads < (1 << 16) && c.heads % c.kv_heads == 0 && c.heads / c.kv_heads <= kMaxGroup,
          "it has " + text(c.heads) + " heads and " + text(c.kv_heads) + " key heads");
  require(c.heads * c.head_dim % kBlock == 0, "heads times head size is not a multiple of 32");
  require(c.feed_forward > 0 && c.feed_forward < (1 << 24) && c.feed_forward % kBlock == 0, "its feed-forward size is " + text(c.feed_forward));
}

const HeadConfig& checked(const HeadConfig& c, const ModelConfig& target) {
  check(c, target);
  return c;
}

}  // namespace

// One draft in the making.
struct Head::Job {
  const HeadItem* item;
  HeadTrack* track;
  HeadDrawn* out;
  float chance = 1.0f;  // of the whole chain so far
};

Head::Head(const Model& target, const HeadConfig& config, const std::vector<HeadTensor>& tensors, const RopeTable& rope,
           const Kernels& kernels, int threads)
    : c_(checked(config, target.config)),
      w_(c_, tensors, target.config.dense),
      layout_{c_.chain ? 1 : 0, c_.kv_heads, c_.head_dim, target.cache_type == CacheType::F32 ? 4u : 2u},
      // behind a block's keys and values, the features of its positions: what was read can be read again
      pool_(std::make_shared<BlockPool>(layout_.block_bytes() + static_cast<size_t>(kCacheBlock) * static_cast<size_t>(c_.hidden) * sizeof(float))),
      sampler_(kernels) {
  for (int i = 0; i < c_.draft_vocab; ++i) {
    const int id = w_.ids.get()[i], before = i ? w_.ids.get()[i - 1] : -1;
    require(id > before && id < target.config.vocab, "entry " + text(i) + " of its ids is " + text(id) + "; they ascend below " + text(target.config.vocab));
  }
  pass_ = std::make_unique<HeadPass>(*this, target, rope, kernels, threads);
}

Head::~Head() = default;

float* Head::feature(const HeadTrack& t, int position) const {
  uint8_t* block = t.table.block(position) + layout_.block_bytes();
  return reinterpret_cast<float*>(block) + static_cast<size_t>(position % kCacheBlock) * static_cast<size_t>(c_.hidden);
}

bool Head::follows(int seq) const {
  const auto found = tracks_.find(seq);
  return found != tracks_.end() && found->second.whole;
}

bool Head::begin(int seq, int length) {
  const auto [found, fresh] = tracks_.try_emplace(seq);
  HeadTrack& t = found->second;
  if (fresh) t.length = length, t.whole = length == 0;
  return t.whole;
}

void Head::fork(int from, int to) {
  const auto found = tracks_.find(from);
  if (found == tracks_.end() || !found->second.whole) return;
  HeadTrack copy = found->second;
  tracks_.emplace(to, std::move(copy));
}

void Head::truncate(int seq, int length) {
  const auto found = tracks_.find(seq);
  if (found == tracks_.end() || !found->second.whole) return;
  HeadTrack& t = found->second;
  if (length >= t.length) return;
  t.length = length;
  if (t.read >= length) t.read = std::max(length - 1, 0);  // another token may follow the last position that is left
  t.fused = std::min(t.fused, length);
  if (c_.chain) t.inputs.resize(static_cast<size_t>(std::max(length - 1 - t.read, 0)));
  t.first = std::min(t.first, length);
  t.states.resize(static_cast<size_t>(length - t.first) * c_.taps.size() * static_cast<size_t>(c_.hidden));
  t.table.shrink(length);
}

void Head::hear(int seq, const Sequence& s, const std::vector<int>& path) {
  const auto found = tracks_.find(seq);
  if (found == tracks_.end() || !found->second.whole || path.empty()) return;
  HeadTrack& t = found->second;
  // a pass that began before anybody told to follow kept nothing
  bool heard = s.first_state >= 0 && std::all_of(c_.taps.begin(), c_.taps.end(), [&s](int tap) { return s.states.has(tap); });
  try {
    for (size_t row = 0; heard && row < path.size(); row += kSlice) {
      take(t, s, path.data() + row, std::min(kSlice, path.size() - row));
      if (t.length - 1 - (c_.chain ? t.read : t.fused) >= kMostWaiting) read_waiting(t, t.length - 1);
    }
  } catch (const std::bad_alloc&) {
    heard = false;
  }
  if (heard) return;
  t = HeadTrack();  // the target's own sequence is well: only drafting for it is over
  t.whole = false;
}

// States and tokens of newly committed rows.
void Head::take(HeadTrack& t, const Sequence& s, const int* path, size_t count) {
  const size_t size = c_.taps.size() * static_cast<size_t>(c_.hidden), had = t.states.size();
  t.states.resize(had + count * size);
  t.inputs.reserve(t.inputs.size() + count);
  float* to = t.states.data() + had;
  for (size_t i = 0; i < count; ++i) {
    const int r = path[i];
    const int token = s.rows[static_cast<size_t>(r)].token;
    if (c_.chain && t.length > 0) {
      if (t.read < t.length) t.inputs.push_back(token);
      else if (t.next != token) t.read = t.length - 1, t.inputs.assign(1, token);
    }
    s.states.copy(static_cast<size_t>(s.first_state + r), c_.taps, to);
    ++t.length;
    to += size;
  }
}

// Reads what waits before `end`, whose tokens are all known.
void Head::read_waiting(HeadTrack& t, int end) {
  const int from = c_.chain ? t.read : t.fused;
  t.table.own(*pool_, std::min(from, t.fused), end);
  for (int begin = from; begin < end; begin += HeadPass::kRows) {
    const int until = std::min(end, begin + HeadPass::kRows);
    std::vector<HeadRow> rows;
    for (int p = begin; p < until; ++p) rows.push_back({&t, p, c_.chain ? t.inputs[static_cast<size_t>(p - from)] : 0});
    pass_->read(std::move(rows), 0);
    settle(t, until);
  }
  t.inputs.erase(t.inputs.begin(), t.inputs.begin() + (c_.chain ? end - from : 0));
  drop_states(t);
}

// Everything before `end` is fused, and read where the head reads.
void Head::settle(HeadTrack& t, int end) {
  t.fused = std::max(t.fused, end);
  if (c_.chain) t.read = std::max(t.read, end);
}

// What is fused needs its states no more.
void Head::drop_states(HeadTrack& t) {
  const size_t size = c_.taps.size() * static_cast<size_t>(c_.hidden);
  t.states.erase(t.states.begin(), t.states.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(t.fused - t.first) * size));
  t.first = t.fused;
}

std::vector<HeadDrawn> Head::draft(const std::vector<HeadItem>& items) {
  std::vector<HeadDrawn> drawn(items.size());
  std::vector<Job> jobs;
  for (size_t i = 0; i < items.size(); ++i) {
    const HeadItem& item = items[i];
    const auto found = tracks_.find(item.seq);
    // Nothing is known of a sequence that it was not told to follow, or whose last token is not the next one.
    if (found == tracks_.end() || !found->second.whole) continue;
    HeadTrack& t = found->second;
    if (t.length > 0 && static_cast<uint32_t>(t.length) + 1 == item.position) jobs.push_back({&item, &t, &drawn[i], 1.0f});
  }
  for (size_t first = 0; first < jobs.size(); first += HeadPass::kRows) {
    const std::vector<Job> group(jobs.begin() + static_cast<std::ptrdiff_t>(first),
                           jobs.begin() + static_cast<std::ptrdiff_t>(std::min(jobs.size(), first + HeadPass::kRows)));
    try {
      std::vector<Job> going = group;
      c_.chain ? run_chains(going) : run_blocks(going);
    } catch (...) {
      for (const Job& job : group) job.track->table.shrink(job.track->length);
      throw;
    }
    for (const Job& job : group) job.track->table.shrink(job.track->length);
  }
  return drawn;
}

void Head::run_chains(std::vector<Job>& jobs) {
  const size_t room = static_cast<size_t>(HeadPass::kRows) - jobs.size();
  std::vector<HeadRow> rows;
  for (const Job& job : jobs) {
    HeadTrack& t = *job.track;
    if (static_cast<size_t>(std::max(t.length - 1 - t.read, 0)) > room / jobs.size()) read_waiting(t, t.length - 1);
    t.table.own(*pool_, std::min({t.read, t.fused, t.length - 1}), t.length - 1 + job.item->steps);
    rows.push_back({&t, t.length - 1, job.item->last});
  }
  for (const Job& job : jobs)
    for (int p = job.track->read; p < job.track->length - 1; ++p)
      rows.push_back({job.track, p, job.track->inputs[static_cast<size_t>(p - job.track->read)]});
  pass_->read(rows, static_cast<int>(jobs.size()));
  for (const Job& job : jobs) {
    settle(*job.track, job.track->length);
    drop_states(*job.track);
    job.track->inputs.clear();
    job.track->next = job.item->last;
  }
  rows.resize(jobs.size());
  for (int step = 0;; ++step) {
    size_t going = 0;  // those whose chain goes on are the first rows of the next step
    for (size_t i = 0; i < rows.size(); ++i) {
      const int row = static_cast<int>(i);
      if (!choose(pass_->logits(row), pass_->largest(row), jobs[i], step)) continue;
      if (going < i) pass_->move(row, static_cast<int>(going));
      jobs[going] = jobs[i];
      rows[going++] = {jobs[i].track, rows[i].position + 1, jobs[i].out->tokens.back()};
    }
    rows.resize(going);
    if (rows.empty()) break;
    pass_->step(rows);
  }
}

void Head::run_blocks(std::vector<Job>& jobs) {
  std::vector<HeadRow> rows;
  for (const Job& job : jobs) {
    HeadTrack& t = *job.track;
    if (t.fused < t.length - 1) read_waiting(t, t.length - 1);
    t.table.own(*pool_, std::min(t.fused, t.length - 1), t.length);
    rows.push_back({&t, t.length - 1, 0});
  }
  int steps = 0;
  for (const Job& job : jobs) steps = std::max(steps, std::min(job.item->steps, c_.depth));
  pass_->guess(std::move(rows), steps);
  for (size_t i = 0; i < jobs.size(); ++i) {
    settle(*jobs[i].track, jobs[i].track->length);
    drop_states(*jobs[i].track);
    const int row = static_cast<int>(i);
    for (int step = 0; step < steps; ++step)
      if (!choose(pass_->logits(row, step), pass_->largest(row, step), jobs[i], step)) break;
  }
}

// The chain's own token, and the likeliest; whether another step is to follow.
bool Head::choose(const float* logits, int largest, Job& job, int step) {
  const DrawSpec& draw = job.item->draw;
  const uint32_t position = job.item->position + static_cast<uint32_t>(step);
  FloatMode mode;
  const int place = sampler_.place(logits, w_.ids.get(), c_.draft_vocab, largest, draw, position);
  // Below temperature 1 a law is sharper, and its likeliest token no likelier to be right: at 0 it is right as often as the
  // head's own law says.
  const float factor = c_.inverse_temperature * (draw.greedy() ? 1.0f : std::min(draw.inverse_temperature, 1.0f));
  std::vector<std::pair<int, float>> likely = sampler_.likely(logits, c_.draft_vocab, factor, job.item->width);
  for (auto& [id, chance] : likely) id = w_.ids.get()[id];
  if (!likely.empty()) job.chance *= likely.front().second;
  job.out->tokens.push_back(w_.ids.get()[place]);
  job.out->likely.push_back(std::move(likely));
  return step + 1 < job.item->steps && job.chance >= job.item->least;
}

void Head::export_state(int seq, std::vector<uint8_t>* features, std::vector<uint8_t>* keys, std::vector<uint8_t>* values) const {
  const auto found = tracks_.find(seq);
  if (found == tracks_.end()) return;
  const HeadTrack& t = found->second;
  const size_t bytes = layout_.side_bytes() / 2, wide = static_cast<size_t>(c_.hidden) * sizeof(float);
  for (int p = 0; p < t.fused; ++p) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(feature(t, p));
    features->insert(features->end(), from, from + wide);
  }
  for (int head = 0; head < c_.kv_heads; ++head)
    for (int p = 0; p < t.read; ++p) {
      keys->resize(keys->size() + bytes);
      read_key(layout_, t.table.block(p) + layout_.keys_at(0, head), p, keys->data() + keys->size() - bytes);
      const uint8_t* from = t.table.block(p) + layout_.values_at(0, head) + layout_.value_offset(p);
      values->insert(values->end(), from, from + bytes);
    }
}

}  // namespace outrider
