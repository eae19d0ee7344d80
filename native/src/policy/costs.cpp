// What steps cost here and now: a profile, corrected by the steps themselves.
//
// A profile was measured at another time, perhaps on a busier machine, and there may be none. So each pass is compared with
// what was predicted: one factor follows the machine's load, and a second one for each number of rows follows the shape of
// T(n). Both move by bounded steps in the logarithm, so that a pass that took ten times as long (another process, a page
// fault) counts like one that was late. The load's steps are the large ones: what others do to the machine lasts for some
// passes and touches all numbers of rows alike, and must not be taken for the shape of the few that were tried meanwhile.
#include <algorithm>
#include <cmath>

#include "outrider/policy.h"

namespace outrider {
namespace {

constexpr size_t kLargestTables = 64;  // (sequences, context) pairs that are remembered
constexpr double kLeastS = 1e-9;
constexpr double kLoadGain = 1.0 / 4, kShapeGain = 1.0 / 12;
constexpr int kShapeDoubt = 1, kFirstSeen = 2;  // passes
constexpr int kNear = 16;            // rows that a neighbour is at most away
constexpr double kUnseen = 0.25;     // passes that a number of rows counts as which none had
constexpr double kLeastRise = 0.5;   // of what is known of T(n + 1) - T(n) from before: noise must not make a row free
constexpr double kMostBend = 4.0;
// Of the logarithm: what is further off counts as this far, for the load, a shape hardly known yet, and a known one.
constexpr double kLoadOutlier = 0.7, kFirstOutlier = 0.7, kOutlier = 0.25;
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
  // Some rows further, for those may show that the last ones were measured in a bad moment.
  const int end = rows + std::max(extra, kNear) + 1;
  const std::vector<double>& known = base(sequences, end, context);
  std::vector<double> found = rising(known, rows, end);
  found.resize(static_cast<size_t>(extra) + 1);
  for (size_t i = 1; i < found.size(); ++i) {
    const size_t n = static_cast<size_t>(rows) + i;
    found[i] = std::max(found[i], found[i - 1] + kLeastRise * load_ * (known[n] - known[n - 1]));
  }
  return found;
}

// The corrected seconds of rows, ... end - 1 rows, made to rise: where fewer rows seem to take longer, both take the mean,
// by the passes seen of each (isotonic regression by pooling adjacent violators, Ayer et al. 1955).
std::vector<double> PassTimes::rising(const std::vector<double>& known, int rows, int end) const {
  struct Pool {
    double seconds, weight;
    size_t count;
  };
  std::vector<Pool> pools;
  for (int n = rows; n < end; ++n) {
    const size_t i = static_cast<size_t>(n);
    Pool pool = {load_ * known[i], kUnseen, 1};
    if (n <= kShapedRows) pool.seconds *= shape_[i], pool.weight += seen_[i];
    for (; !pools.empty() && pools.back().seconds > pool.seconds; pools.pop_back()) {
      const Pool& last = pools.back();
      const double weight = last.weight + pool.weight;
      pool = {(last.seconds * last.weight + pool.seconds * pool.weight) / weight, weight, last.count + pool.count};
    }
    pools.push_back(pool);
  }
  std::vector<double> found;
  for (const Pool& pool : pools) found.insert(found.end(), pool.count, pool.seconds);
  return found;
}

void PassTimes::learn(int sequences, int rows, double context, double seconds) {
  if (!a_time(seconds) || seconds == 0.0) return;
  const bool shaped = rows <= kShapedRows;
  const size_t r = static_cast<size_t>(rows);
  const double predicted = load_ * base(sequences, rows + 1, context)[r] * (shaped ? shape_[r] : 1.0);
  const double off = std::clamp(std::log(seconds) - std::log(predicted), -kMostOff, kMostOff);
  const double most = ++learned_ > kFirstPasses ? kLoadOutlier : kMostOff;
  const double step = std::clamp(off, -most, most) * std::max(kLoadGain, 1.0 / learned_);
  load_ = std::clamp(load_ * std::exp(step), kLeastS, 1.0 / kLeastS);
  if (shaped) {
    ++seen_[r];
    ever_[r] = true;
    latest_[r] = learned_;
    const double outlier = seen_[r] <= kFirstSeen ? kFirstOutlier : kOutlier;
    const double bend = std::clamp(off - step, -outlier, outlier) * std::max(kShapeGain, 1.0 / (seen_[r] + kShapeDoubt));
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
