// The 256-bit kernels in the AVX-512 encoding: for processors that clock down with 512-bit registers, and so that
// the AVX-VNNI code is tested where only AVX-512 is.
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "vnni256"

namespace outrider::vnni256 {
constexpr int kScoreQueries = 6, kScoreSums = 12, kOutputQueries = 3, kOutputVectors = 4;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx2.h"

INL __m256i dpbusd(__m256i sum, __m256i codes, __m256i four) { return _mm256_dpbusd_epi32(sum, codes, four); }

#include "dot_vnni256.h"
#include "dot_256.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "scores.h"
#include "table.h"
}  // namespace outrider::vnni256
