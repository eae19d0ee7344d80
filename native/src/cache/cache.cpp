#include "outrider/cache.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace outrider {
namespace {

template <class T>
void scatter(uint8_t* keys, int lane, int from, int count, const uint8_t* elements) {
  uint8_t* to = keys + sizeof(T) * static_cast<size_t>(from * kLanes + lane);
  for (int i = 0; i < count; ++i, to += sizeof(T) * kLanes) std::memcpy(to, elements + sizeof(T) * static_cast<size_t>(i), sizeof(T));
}

template <class T>
void gather(const uint8_t* keys, int dim, int lane, uint8_t* elements) {
  for (int d = 0; d < dim; ++d)
    std::memcpy(elements + sizeof(T) * static_cast<size_t>(d), keys + sizeof(T) * static_cast<size_t>(d * kLanes + lane), sizeof(T));
}

size_t group_bytes(const CacheLayout& l) { return static_cast<size_t>(kLanes * l.dim) * l.element; }

constexpr size_t kSlab = size_t{16} << 20;

}  // namespace

void BlockPool::add_slab() {
  const size_t count = std::max<size_t>(1, kSlab / block_bytes_);
  // Room for every block there is: giving one back must not need memory.
  free_.reserve(total_ + count);
  slabs_.push_back(std::make_unique<Arena>());
  uint8_t* const first = slabs_.back()->take(count * block_bytes_);
  total_ += count;
  for (size_t i = count; i-- > 0;) free_.push_back(first + i * block_bytes_);
}

std::shared_ptr<uint8_t> BlockPool::take() {
  if (free_.empty()) add_slab();
  uint8_t* block = free_.back();
  free_.pop_back();
  return {block, [pool = shared_from_this()](uint8_t* p) { pool->free_.push_back(p); }};
}

void CacheTable::own(BlockPool& pool, int begin, int end) {
  if (begin >= end) return;
  for (size_t i = static_cast<size_t>(begin / kCacheBlock); i <= static_cast<size_t>((end - 1) / kCacheBlock); ++i) {
    if (i < blocks_.size() && blocks_[i].use_count() == 1) continue;
    CacheBlock fresh = pool.take();
    if (i < blocks_.size()) {
      std::memcpy(fresh.get(), blocks_[i].get(), pool.block_bytes());
      blocks_[i] = std::move(fresh);
    } else {
      blocks_.push_back(std::move(fresh));
    }
  }
}

void CacheTable::shrink(int length) {
  const size_t keep = static_cast<size_t>((length + kCacheBlock - 1) / kCacheBlock);
  if (keep < blocks_.size()) blocks_.resize(keep);
}

void write_key(const CacheLayout& l, uint8_t* keys, int position, int from, int count, const uint8_t* elements) {
  uint8_t* group = keys + static_cast<size_t>(position % kCacheBlock / kLanes) * group_bytes(l);
  if (l.element == 2) return scatter<uint16_t>(group, position % kLanes, from, count, elements);
  scatter<uint32_t>(group, position % kLanes, from, count, elements);
}

void read_key(const CacheLayout& l, const uint8_t* keys, int position, uint8_t* elements) {
  const uint8_t* group = keys + static_cast<size_t>(position % kCacheBlock / kLanes) * group_bytes(l);
  if (l.element == 2) return gather<uint16_t>(group, l.dim, position % kLanes, elements);
  gather<uint32_t>(group, l.dim, position % kLanes, elements);
}

}  // namespace outrider
