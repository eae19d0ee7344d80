// Plain C++: defines the result that every other instruction set equals.
#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "portable"

namespace outrider::portable {
constexpr int kScoreQueries = 3, kScoreSums = 3, kOutputQueries = 1, kOutputVectors = 1;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_portable.h"

#include "dot_portable.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "scores.h"
#include "table.h"
}  // namespace outrider::portable
