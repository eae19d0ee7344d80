// Aligned memory that grows and never shrinks.
#pragma once

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

}  // namespace outrider
