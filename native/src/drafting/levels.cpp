// What a head said, level by level, as a source among others.
#include <algorithm>
#include <stdexcept>

#include "outrider/drafting.h"

namespace outrider {

void Levels::set(std::vector<std::vector<Guess>> levels, std::vector<int> chain, bool independent) {
  if (levels.size() != chain.size()) throw std::invalid_argument("each level of a chain has one token");
  levels_ = std::move(levels);
  chain_ = std::move(chain);
  independent_ = independent;
}

void Levels::ahead(int place, int most, std::vector<Guess>* found) {
  const std::vector<Guess>& level = levels_[static_cast<size_t>(place)];
  const size_t count = std::min(level.size(), static_cast<size_t>(std::max(most, 0)));
  found->assign(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(count));
}

int Levels::after(int place, int token) {
  const size_t next = static_cast<size_t>(place) + 1;
  return next < levels_.size() && (independent_ || chain_[next - 1] == token) ? static_cast<int>(next) : -1;
}

}  // namespace outrider
