// AVX2 with FMA and F16C, for processors without byte dot products.
#include <immintrin.h>

#include "outrider/types.h"

#define INL static inline __attribute__((always_inline))
#define OUTRIDER_ISA_NAME "avx2"

namespace outrider::avx2 {
constexpr int kScoreQueries = 3, kScoreSums = 3, kOutputQueries = 2, kOutputVectors = 2;  // accumulators that fit the registers

#include "half.h"
#include "layout.h"
#include "simd_avx2.h"

// Unsigned by signed bytes into int16 pairs. Four-bit codes: 8 sums of at most 2 * 15 * 127 stay under 2^15. Eight-bit
// codes could exceed it, so they are made signed again and multiplied as magnitude by signed row: 2 * 128 * 127 fits.
// dot comes in as the offset to take off; of signed codes there is none.
template <Format f, int n>
INL void dot_blocks(const __m256i* code, const int8_t* q, __m256i* dot) {
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (f != Format::Q8_0) {
    __m256i pairs[n];
    for (int r = 0; r < n; ++r) pairs[r] = _mm256_setzero_si256();
    for (int j = 0; j < 8; ++j)
      for (int r = 0; r < n; ++r)
        pairs[r] = _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(code[j], four_of(q + r * kBlock + 4 * j)));
    for (int r = 0; r < n; ++r) dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs[r], ones));
  } else {
    for (int r = 0; r < n; ++r) dot[r] = _mm256_setzero_si256();
    for (int j = 0; j < 8; ++j) {
      const __m256i w = _mm256_xor_si256(code[j], _mm256_set1_epi8(-128)), magnitude = _mm256_abs_epi8(w);
      for (int r = 0; r < n; ++r) {
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(four_of(q + r * kBlock + 4 * j), w));
        dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
}

#include "dot_256.h"
#include "linear.h"
#include "math.h"
#include "rows.h"
#include "attention.h"
#include "draw.h"
#include "scores.h"
#include "table.h"
}  // namespace outrider::avx2
