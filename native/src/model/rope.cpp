// Rotary tables in double precision with polynomials of our own: multiply and add only, the same on every processor.
// Frequencies and angles are rounded to float32 where the models' own training code rounds them.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "outrider/model.h"
#include "outrider/pool.h"

namespace outrider {
namespace {

double own_exp(double x) {  // |x| < 100
  const double n = std::nearbyint(x * 1.4426950408889634);
  const double r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;  // ln 2 in two parts
  double term = 1.0, sum = 1.0;
  for (int i = 1; i < 20; ++i) {
    term = term * r / i;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(n));
}

double own_log(double x) {  // x > 0; 2 atanh((m - 1) / (m + 1))
  int e = 0;
  double m = std::frexp(x, &e);
  const double t = (m - 1.0) / (m + 1.0), t2 = t * t;
  double power = t, sum = 0.0;
  for (int i = 1; i < 80; i += 2) {
    sum += power / i;
    power *= t2;
  }
  return 2.0 * sum + e * 6.93147180559945286227e-01;
}

// sine and cosine for 0 <= x < 2^20: reduction by pi/2 in three parts (33 bits each), then the Taylor series
void own_sincos(double x, double* sine, double* cosine) {
  const double k = std::nearbyint(x * 6.36619772367581382433e-01);
  const double r = ((x - k * 1.57079632673412561417e+00) - k * 6.07710050630396597660e-11) - k * 2.02226624871116645580e-21;
  const double r2 = r * r;
  double s = 1.0, c = 1.0;
  for (int i = 18; i >= 2; i -= 2) {
    s = 1.0 - s * r2 / (i * (i + 1));
    c = 1.0 - c * r2 / (i * (i - 1));
  }
  s *= r;
  switch (static_cast<int64_t>(k) & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s;
  }
}

}  // namespace

RopeTable::RopeTable(const ModelConfig& config, const float* factors)
    : dim_(static_cast<size_t>(config.head_dim)), context_(config.context) {
  FloatMode mode;
  const double log_base = own_log(config.rope_base);
  for (size_t i = 0; i < dim_ / 2; ++i) {
    float f = static_cast<float>(own_exp(-2.0 * static_cast<double>(i) / static_cast<double>(dim_) * log_base));
    f /= static_cast<float>(config.rope_linear_factor);
    if (factors) f /= factors[i];
    frequency_.push_back(f);
  }
}

void RopeTable::grow(int positions) {
  if (positions <= positions_) return;
  FloatMode mode;
  const int target = std::min(context_, std::max(positions, std::max(512, 2 * positions_)));
  cos_.resize(static_cast<size_t>(target) * dim_);
  sin_.resize(static_cast<size_t>(target) * dim_);
  for (int p = positions_; p < target; ++p) {
    for (size_t i = 0; i < dim_ / 2; ++i) {
      const float angle = static_cast<float>(p) * frequency_[i];
      double s, c;
      own_sincos(static_cast<double>(angle), &s, &c);
      const size_t at = static_cast<size_t>(p) * dim_ + 2 * i;
      cos_[at] = cos_[at + 1] = static_cast<float>(c);
      sin_[at] = -static_cast<float>(s);
      sin_[at + 1] = static_cast<float>(s);
    }
  }
  positions_ = target;
}

}  // namespace outrider
