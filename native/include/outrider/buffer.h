// Aligned memory that grows and never shrinks.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace outrider {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) { reserve(count); }

  // Room for count elements, zeroed when new; earlier contents are lost when it grows.
  void reserve(size_t count) {
    if (count <= count_) return;
    count_ = 0;  // stays 0 where there is no memory
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (!data_) throw std::bad_alloc();
    std::memset(static_cast<void*>(data_.get()), 0, bytes);
    count_ = count;
  }
  T* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t count_ = 0;
};

// Memory of one size in huge pages, where the system has them: a stream of weights then walks few page tables.
class Arena {
 public:
  Arena() = default;
  ~Arena() {
    if (mapped_) munmap(mapped_, bytes_ + kHugePage);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Once: takes the memory, zeroed, and returns where it begins.
  uint8_t* take(size_t bytes) {
    bytes_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* got = mmap(nullptr, bytes_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    mapped_ = got;
    auto* first = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(got) + kHugePage - 1) / kHugePage * kHugePage);
    madvise(first, bytes_, MADV_HUGEPAGE);  // only a hint
    return first;
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  void* mapped_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace outrider
