// Bytes of a packed block (32 of K x 16 outputs), and where a tile of 16 quantised rows lies.
// Included inside an instruction set's namespace (see simd_portable.h).
constexpr int code_bytes(Format f) { return f == Format::Q8_0 ? kBlock * kLanes : kBlock * kLanes / 2; }
constexpr int block_bytes(Format f) { return code_bytes(f) + 2 * kLanes * (f == Format::Q4_1 ? 2 : 1); }

// Up to 16 rows, block-major: block b of row r is at q[(b * 16 + r) * 32], its scale at scale[b * 16 + r].
struct Tile {
  const int8_t* q;
  const float* scale;
  const float* scaled;
  const int32_t* neg8;
  const int32_t* neg128;
};

INL Tile tile_at(const QuantRows& x, int row) {
  const size_t blocks = static_cast<size_t>(x.cols) / kBlock, r = static_cast<size_t>(row);
  const size_t at = r / kMaxTile * blocks * kMaxTile + r % kMaxTile;
  return {x.q + at * kBlock, x.scale + at, x.scaled + at, x.neg8 + at, x.neg128 + at};
}
