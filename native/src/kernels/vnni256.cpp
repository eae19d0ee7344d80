// The 256-bit kernels in the AVX-512 encoding: for processors that clock down with 512-bit registers, and so that
// the AVX-VNNI code is tested where only AVX-512 is.
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "vnni256"

namespace outrider::vnni256 {
constexpr int kScoreQueries = 6, kOutputQueries = 3, kOutputVectors = 4;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx2.h"

template <Format f, int n>
INL void dot_blocks(const __m256i* code, const int8_t* q, __m256i* dot) {
  for (int j = 0; j < 8; ++j)
    for (int r = 0; r < n; ++r) dot[r] = _mm256_dpbusd_epi32(dot[r], code[j], four_of(q + r * kBlock + 4 * j));
}

#include "dot_256.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "table.h"
}  // namespace outrider::vnni256
