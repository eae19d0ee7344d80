// The target's runner-up candidates behind each token (Token Recycling, 2408.08696).
#include <algorithm>

#include "outrider/drafting.h"

namespace outrider {
namespace {

constexpr double kLeast = 0.01;  // what is never tried could never be found to be right again
// How often the followers of each rank were the next token in answers of the default model at temperature 0
// (benchmarks/blending.py), and for how many tries these figures count: a sequence soon has its own.
constexpr double kPrior[RecycleTable::kFollowers] = {0.4, 0.085, 0.05, 0.03, 0.023, 0.019, 0.013, 0.01};
constexpr double kPriorTries = 40.0, kMemory = 256.0;  // tries after which the old ones count half, for texts change

}  // namespace

void RecycleTable::remember(int token, const std::vector<int>& followers) {
  if (token < 0 || token >= vocab_) return;
  int* row = table_.data() + static_cast<size_t>(token) * kFollowers;
  const size_t count = std::min(followers.size(), size_t{kFollowers});
  std::copy(followers.begin(), followers.begin() + static_cast<std::ptrdiff_t>(count), row);
  std::fill(row + count, row + kFollowers, kUnknown);
}

const int* RecycleTable::of(int token) const {
  return token < 0 || token >= vocab_ ? nullptr : table_.data() + static_cast<size_t>(token) * kFollowers;
}

RecycleText::RecycleText(int last) : last_(last) {
  tries_.fill(kPriorTries);
  for (size_t rank = 0; rank < kept_.size(); ++rank) kept_[rank] = kPriorTries * kPrior[rank];
}

// Each token shows of which rank it was, whether or not it was drafted.
void RecycleText::extend(const std::vector<int>& tokens) {
  for (const int token : tokens) {
    const int* row = this->row(last_);
    last_ = token;
    for (size_t rank = 0; row && rank < tries_.size() && row[rank] != RecycleTable::kUnknown; ++rank) {
      if (tries_[rank] >= kMemory) tries_[rank] /= 2.0, kept_[rank] /= 2.0;
      tries_[rank] += 1.0;
      kept_[rank] += row[rank] == token;
    }
  }
}

void RecycleText::remember(int token, const std::vector<int>& followers) {
  if (table_) table_->remember(token, followers);
}

int RecycleText::start() { return last_; }

int RecycleText::after(int, int token) { return token; }

void RecycleText::ahead(int place, int most, std::vector<Guess>* found) {
  found->clear();
  const int* row = this->row(place);
  double least = 1.0;  // chances never rise with the rank, whatever luck a lower one had
  for (int rank = 0; row && rank < std::min(most, RecycleTable::kFollowers) && row[rank] != RecycleTable::kUnknown; ++rank) {
    const size_t r = static_cast<size_t>(rank);
    least = std::max(std::min(least, kept_[r] / tries_[r]), kLeast);
    found->push_back({row[rank], least});
  }
}

}  // namespace outrider
