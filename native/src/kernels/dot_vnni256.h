// Dots of one block by byte dot products, which both 256-bit encodings have under the name dpbusd.
// Included inside an instruction set's namespace (see simd_portable.h).
template <Format f, int n>
INL void dot_blocks(const __m256i* code, const int8_t* q, __m256i* dot) {
  for (int j = 0; j < 8; ++j)
    for (int r = 0; r < n; ++r) dot[r] = dpbusd(dot[r], code[j], four_of(q + r * kBlock + 4 * j));
}
