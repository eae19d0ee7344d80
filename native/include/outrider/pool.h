// One pool of threads a process. A pass is one parallel region: threads spin, then park, between its phases.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace outrider {

constexpr int kMaxThreads = 256;

// Cores this process may use: affinity and cgroup quota, between 1 and kMaxThreads.
int usable_cores();

// Sets the floating-point mode that docs/numerics.md states (nearest even, denormals kept), restores the old one.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned saved_;
};

class Pool {
 public:
  static Pool& shared();

  // Calls work(index, threads) on `threads` threads, the caller among them, and returns when all are done.
  // One region at a time: a second caller waits. work must not throw.
  void run(int threads, const std::function<void(int, int)>& work);

  // Inside a region: waits until every thread of it has come here.
  void barrier();

 private:
  struct Crew;  // what the workers see; left behind in a forked child, where they do not exist
  std::mutex region_;
  std::shared_ptr<Crew> crew_;
  int owner_ = 0;
};

}  // namespace outrider
