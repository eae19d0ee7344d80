// 256-bit byte dot products in their AVX encoding (Alder Lake and later without AVX-512).
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "avxvnni"

namespace outrider::avxvnni {
constexpr int kScoreQueries = 3, kScoreSums = 3, kOutputQueries = 2, kOutputVectors = 2;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx2.h"

INL __m256i dpbusd(__m256i sum, __m256i codes, __m256i four) { return _mm256_dpbusd_avx_epi32(sum, codes, four); }

#include "dot_vnni256.h"
#include "dot_256.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "scores.h"
#include "table.h"
}  // namespace outrider::avxvnni
