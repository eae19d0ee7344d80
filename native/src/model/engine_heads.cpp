// Drafting heads next to the engine's sequences.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "head_pass.h"
#include "outrider/engine.h"

namespace outrider {

std::shared_ptr<Head> Engine::attach(const HeadConfig& config, const std::vector<HeadTensor>& tensors) {
  std::lock_guard<std::mutex> hold(mutex_);
  heads_.reserve(heads_.size() + 1);
  auto head = std::make_shared<Head>(model_, config, tensors, rope_, kernels_, threads_);
  heads_.push_back(head);
  return head;
}

// Those that somebody still holds.
std::vector<std::shared_ptr<Head>> Engine::heads() {
  std::vector<std::shared_ptr<Head>> living;
  if (heads_.empty()) return living;
  for (const std::weak_ptr<Head>& known : heads_)
    if (std::shared_ptr<Head> head = known.lock()) living.push_back(std::move(head));
  std::erase_if(heads_, [](const std::weak_ptr<Head>& head) { return head.expired(); });
  return living;
}

// What a pass keeps where it keeps anything.
std::vector<int> Engine::kept_states(const std::vector<std::shared_ptr<Head>>& heads) const {
  std::vector<int> layers = taps_;
  for (const auto& head : heads) layers.insert(layers.end(), head->config().taps.begin(), head->config().taps.end());
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void Engine::check_head(const Head& head) {
  for (const auto& known : heads())
    if (known.get() == &head) return;
  throw std::invalid_argument("this head belongs to another engine");
}

bool Engine::follow(Head& head, int seq) {
  std::lock_guard<std::mutex> hold(mutex_);
  check_head(head);
  return head.begin(seq, find(seq).length);
}

void Engine::unfollow(Head& head, int seq) {
  std::lock_guard<std::mutex> hold(mutex_);
  head.end(seq);
}

std::vector<HeadDrawn> Engine::draft(Head& head, const std::vector<HeadItem>& items) {
  std::lock_guard<std::mutex> hold(mutex_);
  check_head(head);
  const auto require = [](bool ok, const std::string& what) {
    if (!ok) throw std::invalid_argument(what);
  };
  int end = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const HeadItem& item = items[i];
    for (size_t j = 0; j < i; ++j) require(items[j].seq != item.seq, "sequence " + std::to_string(item.seq) + " is named twice in one draft");
    require(item.last >= 0 && item.last < model_.config.vocab, "token id " + std::to_string(item.last) + " is outside the vocabulary of " + std::to_string(model_.config.vocab));
    require(item.steps >= 1 && item.width >= 1, "steps is " + std::to_string(item.steps) + " and width " + std::to_string(item.width) + "; both must be at least 1");
    const int64_t last = int64_t{find(item.seq).length} + item.steps - 2;
    if (last >= model_.config.context)
      throw std::runtime_error("position " + std::to_string(last) + " does not fit the context of " + std::to_string(model_.config.context));
    end = std::max(end, static_cast<int>(last) + 1);
  }
  rope_.grow(end);
  return head.draft(items);
}

void Engine::export_head(const Head& head, int seq, std::vector<uint8_t>* features, std::vector<uint8_t>* keys, std::vector<uint8_t>* values) {
  std::lock_guard<std::mutex> hold(mutex_);
  check_head(head);
  find(seq);
  head.export_state(seq, features, keys, values);
}

}  // namespace outrider
