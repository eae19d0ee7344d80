// 512-bit byte dot products.
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "avx512vnni"

namespace outrider::avx512vnni {
constexpr int kScoreQueries = 12, kScoreSums = 24, kOutputQueries = 6, kOutputVectors = 4;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx512.h"

#include "dot_avx512.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "scores.h"
#include "table.h"
}  // namespace outrider::avx512vnni
