// What steps cost here and now: a profile, corrected by the steps themselves.
//
// A profile was measured at another time, perhaps on a busier machine, and there may be none. So each pass is compared with
// what was predicted: one factor follows the machine's load, and a second one for each number of rows follows the shape of
// T(n). Both move by bounded steps in the logarithm, so that a pass that took ten times as long (another process, a page
// fault) counts like one that was a little late.
#include <algorithm>
#include <cmath>

#include "outrider/policy.h"

namespace outrider {
namespace {

constexpr size_t kLargestTables = 64;  // (sequences, context) pairs that are remembered
constexpr double kLeastS = 1e-9;
constexpr double kLoadGain = 1.0 / 16, kShapeGain = 1.0 / 12;
constexpr int kShapeDoubt = 1;
constexpr int kNear = 16;            // rows that a neighbour is at most away
constexpr double kLeastRise = 0.5;   // of what is known of T(n + 1) - T(n) from before: noise must not make a row free
constexpr double kMostBend = 4.0;
constexpr double kFirstOutlier = 0.7, kOutlier = 0.25;  // of the logarithm: what is further off counts as this far
constexpr double kMostOff = 300.0;  // the quotient, and the exponential of more, may be out of the range of a double
constexpr int kForget = 512;  // passes, after which the number of those seen is halved
// Passes between two plain ones, if there is always something to draft; the wait doubles from the first, or from the
// second where there is a profile.
constexpr int kFirstCheck = 4, kMeasuredCheck = 32, kLongestCheck = 256;
constexpr int kFirstPasses = 4;  // of a factor that nothing has corrected yet may be far off, so they count in full
constexpr double kDraftGain = 1.0 / 16;
constexpr double kDoubt = 1.0;  // of the line's slope, in squared nodes
constexpr double kSlower = 3.0, kSlackS = 2e-5;  // a step that drafted far slower than the line counts as this much slower

bool a_time(double seconds) { return std::isfinite(seconds) && seconds >= 0.0; }

}  // namespace

PassTimes::PassTimes(Cost cost, bool measured)
    : cost_(std::move(cost)), check_wait_(measured ? kMeasuredCheck : kFirstCheck) {
  shape_.fill(1.0);
  latest_.fill(measured ? 0 : -kLongestCheck);
}

std::vector<double> PassTimes::table(int sequences, int rows, int extra, double context) {
  const std::vector<double>& known = base(sequences, rows + extra + 1, context);
  const auto bent = [&](int n) {
    return load_ * known[static_cast<size_t>(n)] * (n <= kShapedRows ? shape_[static_cast<size_t>(n)] : 1.0);
  };
  std::vector<double> found = {bent(rows)};
  for (int n = rows + 1; n <= rows + extra; ++n)
    found.push_back(std::max(bent(n), found.back() + kLeastRise * load_ * (known[static_cast<size_t>(n)] - known[static_cast<size_t>(n - 1)])));
  return found;
}

void PassTimes::learn(int sequences, int rows, double context, double seconds) {
  if (!a_time(seconds) || seconds == 0.0) return;
  const bool shaped = rows <= kShapedRows;
  const size_t r = static_cast<size_t>(rows);
  const double predicted = load_ * base(sequences, rows + 1, context)[r] * (shaped ? shape_[r] : 1.0);
  double off = std::clamp(std::log(seconds) - std::log(predicted), -kMostOff, kMostOff);
  if (++learned_ > kFirstPasses) {
    const double most = shaped && seen_[r] < 2 ? kFirstOutlier : kOutlier;
    off = std::clamp(off, -most, most);
  }
  const double step = off * std::max(kLoadGain, 1.0 / learned_);
  load_ = std::clamp(load_ * std::exp(step), kLeastS, 1.0 / kLeastS);
  if (shaped) {
    ++seen_[r];
    ever_[r] = true;
    latest_[r] = learned_;
    const double bend = (off - step) * std::max(kShapeGain, 1.0 / (seen_[r] + kShapeDoubt));
    shape_[r] = std::clamp(shape_[r] * std::exp(bend), 1.0 / kMostBend, kMostBend);
    spread(rows);
  }
  if (learned_ % kForget == 0)
    for (int& count : seen_) count /= 2;
}

// True seldom, also where the rows change from step to step, and never again once the pass was learned from.
bool PassTimes::plain_is_due(int rows) {
  if (rows > kShapedRows) return false;
  if (strange(rows)) return true;
  if (learned_ < check_at_ || learned_ - latest_[static_cast<size_t>(rows)] < check_wait_) return false;
  check_wait_ = std::min(2 * check_wait_, kLongestCheck);
  check_at_ = learned_ + check_wait_;
  return true;
}

// Whether no pass of about so many rows was seen.
bool PassTimes::strange(int rows) const {
  const auto first = ever_.begin() + (rows - rows / 5), end = ever_.begin() + std::min(rows + rows / 4, kShapedRows) + 1;
  return learned_ > 0 && std::find(first, end, true) == end;
}

// Numbers of rows that no pass had yet bend like their neighbours that some had, by distance between two.
void PassTimes::spread(int rows) {
  const double here = shape_[static_cast<size_t>(rows)];
  for (const int way : {-1, 1}) {
    const int end = way < 0 ? std::max(0, rows - kNear) : std::min(kShapedRows, rows + kNear) + 1;
    int last = rows + way;
    while (last != end && !seen_[static_cast<size_t>(last)]) last += way;
    const double slope = last == end ? 0.0 : (shape_[static_cast<size_t>(last)] - here) / (last - rows);
    for (int n = rows + way; n != last; n += way) shape_[static_cast<size_t>(n)] = here + slope * (n - rows);
  }
}

// The uncorrected seconds by number of rows, at least [count]; those below `sequences` rows mean nothing.
const std::vector<double>& PassTimes::base(int sequences, int count, double context) {
  const std::pair<int, int> place(sequences, static_cast<int>(context) / kContextBlock);
  if (tables_.size() >= kLargestTables && !tables_.count(place)) tables_.clear();
  std::vector<double>& table = tables_[place];
  while (static_cast<int>(table.size()) < count) {
    const int rows = static_cast<int>(table.size());
    const double found = cost_(std::max(sequences, 1), std::max({rows, sequences, 1}), (place.second + 0.5) * kContextBlock);
    table.push_back(found > kLeastS && std::isfinite(found) ? found : kLeastS);
  }
  return table;
}

// The line is a least-squares one through the steps so far, older ones fading. While all drafts were of one length nothing
// says how the seconds divide; then half of them are taken to be the nodes'.
double DraftTimes::node_s() const {
  if (nodes_ == 0.0) return 0.0;
  const double slope = (slope_ + kDoubt * 0.5 * seconds_ / (nodes_ + 1.0)) / (spread_ + kDoubt);
  return std::min(std::max(slope, 0.0), seconds_ / nodes_);
}

// What a drafter and a policy cost in a step that asks for nothing is spent anyway, and no part of it.
double DraftTimes::ask_s() const { return std::max(0.0, seconds_ - node_s() * nodes_ - idle_s_.value_or(0.0)); }

double DraftTimes::mean_s() const { return std::max(0.0, seconds_ - idle_s_.value_or(0.0)); }

// A step that asked it for at most `allowed` nodes (above 0), and got so many.
void DraftTimes::learn(int allowed, int nodes, double seconds) {
  if (!a_time(seconds)) return;
  ++asked_;
  filled_ += (std::min(static_cast<double>(nodes) / allowed, 1.0) - filled_) * kDraftGain;
  if (asked_ <= kFirstAsks) {
    // A first call may open files or compile: until some more were seen, the quickest one counts.
    if (asked_ == 1 || seconds < seconds_) nodes_ = nodes, seconds_ = seconds;
    return;
  }
  const double expected = ask_s() + node_s() * nodes + idle_s_.value_or(0.0);
  const double more_nodes = nodes - nodes_, more_s = std::min(seconds, kSlower * expected + kSlackS) - seconds_;
  nodes_ += kDraftGain * more_nodes;
  seconds_ += kDraftGain * more_s;
  spread_ = (1.0 - kDraftGain) * (spread_ + kDraftGain * more_nodes * more_nodes);
  slope_ = (1.0 - kDraftGain) * (slope_ + kDraftGain * more_nodes * more_s);
}

// A step that did not ask it.
void DraftTimes::learn_idle(double seconds) {
  if (!a_time(seconds)) return;
  const double before = idle_s_.value_or(seconds);
  idle_s_ = before + (std::min(seconds, kSlower * before + kSlackS) - before) * kDraftGain;
}

}  // namespace outrider
