// 256-bit byte dot products in their AVX encoding (Alder Lake and later without AVX-512).
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "avxvnni"

namespace outrider::avxvnni {
constexpr int kScoreQueries = 3, kOutputQueries = 2, kOutputVectors = 2;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx2.h"

template <Format f, int n>
INL void dot_blocks(const __m256i* code, const int8_t* q, __m256i* dot) {
  for (int j = 0; j < 8; ++j)
    for (int r = 0; r < n; ++r) dot[r] = _mm256_dpbusd_avx_epi32(dot[r], code[j], four_of(q + r * kBlock + 4 * j));
}

#include "dot_256.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "table.h"
}  // namespace outrider::avxvnni
