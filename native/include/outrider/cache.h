// Keys and values in blocks of 64 positions behind a table; a fork shares blocks until somebody writes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/buffer.h"
#include "outrider/model.h"

namespace outrider {

constexpr int kCacheBlock = 64;  // divides the attention chunk of 256

// Bytes and places inside a block: for each layer and key head, keys [4 groups, d, 16] then values [64, d].
struct CacheLayout {
  int layers = 0, kv_heads = 0, dim = 0;
  size_t element = 2;

  size_t head_bytes() const { return static_cast<size_t>(kCacheBlock) * static_cast<size_t>(dim) * element; }
  size_t block_bytes() const { return head_bytes() * 2 * static_cast<size_t>(layers) * static_cast<size_t>(kv_heads); }
  size_t keys_at(int layer, int head) const {
    return head_bytes() * 2 * (static_cast<size_t>(layer) * static_cast<size_t>(kv_heads) + static_cast<size_t>(head));
  }
  size_t values_at(int layer, int head) const { return keys_at(layer, head) + head_bytes(); }
  size_t value_offset(int position) const {
    return static_cast<size_t>(position % kCacheBlock) * static_cast<size_t>(dim) * element;
  }
  // keys, then values, of one position that is not in its place yet (a tree's second child and so on)
  size_t side_bytes() const { return 2 * static_cast<size_t>(dim) * element; }
};

// Blocks cut from huge-page slabs, so that a pass over the cache does not walk page tables; freed blocks are used again.
// The slabs go when the last block and the pool itself are gone.
class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  explicit BlockPool(size_t block_bytes) : block_bytes_((block_bytes + 63) / 64 * 64) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  std::shared_ptr<uint8_t> take();  // throws std::bad_alloc; not thread safe, the engine's lock guards it
  size_t block_bytes() const { return block_bytes_; }
  size_t taken() const { return total_ - free_.size(); }  // blocks that some table holds, shared ones counted once

 private:
  void add_slab();

  size_t block_bytes_;
  size_t total_ = 0;  // blocks, free and taken
  std::vector<uint8_t*> free_;
  std::vector<std::unique_ptr<Arena>> slabs_;
};

using CacheBlock = std::shared_ptr<uint8_t>;

// The table of one sequence. Blocks return to the pool when the last table lets go of them.
class CacheTable {
 public:
  uint8_t* block(int position) const { return blocks_[static_cast<size_t>(position / kCacheBlock)].get(); }
  // Makes every position of [begin, end) writable by this table alone.
  void own(BlockPool& pool, int begin, int end);
  void shrink(int length);
  size_t blocks() const { return blocks_.size(); }

 private:
  std::vector<CacheBlock> blocks_;
};

// Elements [from, from + count) of a position's key, already in the cache type; keys lie transposed.
void write_key(const CacheLayout&, uint8_t* keys, int position, int from, int count, const uint8_t* elements);
void read_key(const CacheLayout&, const uint8_t* keys, int position, uint8_t* elements);  // all d

}  // namespace outrider
