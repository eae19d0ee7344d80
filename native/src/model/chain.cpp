// Chains of drawn tokens: what a model that drafts does all day, in one call.
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "outrider/engine.h"
#include "outrider/pool.h"

namespace outrider {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// core.sampling.renamed
void rename(const float* logits, int vocab, const ChainItem& item, std::vector<float>* row) {
  row->resize(static_cast<size_t>(item.width));
  for (int i = 0; i < item.width; ++i) {
    const int32_t id = item.ids[i];
    (*row)[static_cast<size_t>(i)] = id >= 0 && id < vocab ? logits[id] : kImpossible;
  }
}

// Adds a token drawn after a row of logits [vocab] and returns the id that the model reads for it; -1, and nothing is
// added, where it has none.
int draw_next(Sampler& sampler, const float* logits, int vocab, int largest, const ChainItem& item, DrawnChain* out) {
  const uint32_t position = item.position + static_cast<uint32_t>(out->tokens.size());
  const int token = sampler.token(logits, item.ids ? item.width : vocab, largest, item.draw, position, {});
  const int own = item.ids ? item.ids[token] : token;
  if (own < 0 || own >= vocab) return -1;
  DrawSpec law = item.draw;
  if (law.greedy()) law.inverse_temperature = 1.0f, law.top_k = 0, law.top_p = 1.0, law.min_p = 0.0f, law.typical_p = 1.0;
  out->tokens.push_back(token);
  out->best.push_back(sampler.logprobs(logits, item.ids ? item.width : vocab, 0, 1, &law, {}).top[0].second);
  return own;
}

}  // namespace

void Engine::check_chains(const std::vector<ChainItem>& items) {
  if (items.empty()) throw std::invalid_argument("a call needs at least one chain");
  std::vector<ExtendItem> first;
  for (const ChainItem& item : items) {
    if (item.count < 1) throw std::invalid_argument("a chain of " + std::to_string(item.count) + " tokens is asked for; draw at least 1");
    if (item.ids && item.width < 1) throw std::invalid_argument("ids is empty; leave it out to draw from the model's own vocabulary");
    first.push_back({item.seq, item.tokens, {}, std::vector<uint8_t>(item.tokens.size(), kNone), {}});
  }
  check(first);
  for (const ChainItem& item : items) {
    const int64_t last = int64_t{find(item.seq).length} + static_cast<int64_t>(item.tokens.size()) + item.count - 2;
    if (last >= model_.config.context)
      throw std::runtime_error("position " + std::to_string(last) + " does not fit the context of " + std::to_string(model_.config.context));
  }
}

std::vector<DrawnChain> Engine::chain(const std::vector<ChainItem>& items) {
  std::lock_guard<std::mutex> hold(mutex_);
  check_chains(items);
  std::vector<DrawnChain> drawn(items.size());
  std::vector<int> before;
  for (const ChainItem& item : items) before.push_back(find(item.seq).length);
  try {
    std::vector<ExtendItem> rows;
    std::vector<size_t> chain_of;
    const auto add = [&](size_t i, std::vector<int> tokens) {
      std::vector<uint8_t> want(tokens.size(), kNone);
      want.back() = kLogits;
      rows.push_back({items[i].seq, std::move(tokens), {}, std::move(want), {}});
      chain_of.push_back(i);
    };
    for (size_t i = 0; i < items.size(); ++i) add(i, items[i].tokens);
    std::vector<float> renamed;
    while (!rows.empty()) {
      const std::shared_ptr<Scores> scores = pass_over(rows, nullptr);
      const std::vector<ExtendItem> read = std::exchange(rows, {});
      const std::vector<size_t> of = std::exchange(chain_of, {});
      FloatMode mode;
      SamplerPool::Lease sampler(*scores->samplers);
      for (size_t r = 0; r < read.size(); ++r) {
        std::vector<int> path(read[r].tokens.size());
        std::iota(path.begin(), path.end(), 0);
        keep_path(read[r].seq, path);
        const ChainItem& item = items[of[r]];
        const int index = static_cast<int>(r);
        const float* logits = scores->logits(index, path.back());
        int largest = scores->token(index, path.back());
        if (item.ids) {
          float best;
          rename(logits, scores->vocab, item, &renamed);
          kernels_.argmax(logits = renamed.data(), 0, item.width, &best, &largest);
        }
        const int own = draw_next(*sampler, logits, scores->vocab, largest, item, &drawn[of[r]]);
        if (own >= 0 && static_cast<int>(drawn[of[r]].tokens.size()) < item.count) add(of[r], {own});
      }
    }
  } catch (...) {  // out of memory: as if nothing had been read
    for (size_t i = 0; i < items.size(); ++i) {
      Sequence& s = find(items[i].seq);
      for (const auto& head : heads()) head->truncate(items[i].seq, before[i]);
      s.length = before[i];
      drop_rows(s);
    }
    throw;
  }
  return drawn;
}

}  // namespace outrider
