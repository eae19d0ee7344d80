#include "outrider/pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace outrider {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Quota of the outermost cgroup that is visible (in a container, its own), in cores; 0 where there is none.
double cgroup_cores() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0) return std::atof(quota.c_str()) / period;
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double us = 0;
  if (q >> us && p >> period && us > 0 && period > 0) return us / period;
  return 0;
}

// How long a thread spins before it sleeps. Between phases: longer than the slice of another program that took a core
// of ours. A thread that slept earlier would hand over its own core too, and wake behind it: with one busy program beside
// two threads a pass took four times as long, with two of them fifty times. Between passes: the caller's own work of a
// decode step, with room to spare.
constexpr auto kPhaseSpin = std::chrono::microseconds(5000), kRegionSpin = std::chrono::microseconds(1000);
constexpr auto kCrowdedSpin = std::chrono::microseconds(5);  // more threads than cores: others need ours
constexpr int kThreadBits = 9, kThreadMask = (1 << kThreadBits) - 1;
static_assert(kMaxThreads <= kThreadMask);

// A value that changes when everybody may go on: spun on, then slept on.
void wait_change(const std::atomic<int>& value, int old, std::chrono::microseconds spin) {
  const auto changed = [&] { return value.load(std::memory_order_acquire) != old; };
  for (int i = 0; i < 1000; ++i) {  // most waits end here, before a clock is read
    if (changed()) return;
    relax();
  }
  const auto end = std::chrono::steady_clock::now() + spin;
  while (std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 100; ++i) {
      if (changed()) return;
      relax();
    }
  while (!changed()) value.wait(old, std::memory_order_acquire);
}

}  // namespace

int usable_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  const double quota = cgroup_cores();
  if (quota > 0) cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  return std::clamp(cores, 1, kMaxThreads);
}

#if defined(__x86_64__)
FloatMode::FloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
FloatMode::~FloatMode() { _mm_setcsr(saved_); }
#else
FloatMode::FloatMode() : saved_(static_cast<unsigned>(std::fegetround())) { std::fesetround(FE_TONEAREST); }
FloatMode::~FloatMode() { std::fesetround(static_cast<int>(saved_)); }
#endif

struct Pool::Crew {
  explicit Crew(int usable) : cores(usable) {}

  void enter(int index, int last_region) {
    for (;;) {
      wait_change(region, last_region, kRegionSpin);
      last_region = region.load(std::memory_order_acquire);
      const int n = last_region & kThreadMask;
      if (index >= n) {
        // Waits apart: woken for every region, workers that are in none would take the cores from those that are.
        for (int most = wanted.load(std::memory_order_acquire); most <= index; most = wanted.load(std::memory_order_acquire))
          wanted.wait(most, std::memory_order_acquire);
        continue;
      }
      {
        FloatMode mode;
        (*work)(index, n);
      }
      meet(n);
    }
  }

  void meet(int n) {
    if (n == 1) return;
    const int old = phase.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) == n - 1) {
      arrived.store(0, std::memory_order_relaxed);
      phase.store(static_cast<int>(static_cast<unsigned>(old) + 1u), std::memory_order_seq_cst);  // may wrap
      phase.notify_all();
    } else {
      // spinning while others have no core to run on would only keep them from it
      wait_change(phase, old, n <= cores ? kPhaseSpin : kCrowdedSpin);
    }
  }

  const int cores;
  // A count of regions above the threads of the current one: who reads the count reads the threads that belong to it,
  // so a worker that wakes late can never take part in a region that it is not in, or in one twice.
  alignas(64) std::atomic<int> region{0};
  // Threads of the current or next region. It rises before the region begins, and that region does not end without
  // those whom it woke, so nobody who waits here can miss one.
  alignas(64) std::atomic<int> wanted{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<int> phase{0};
  const std::function<void(int, int)>* work = nullptr;
  std::vector<std::thread> workers;
};

Pool& Pool::shared() {
  static Pool* pool = new Pool;  // never destroyed: workers may outlive static destruction
  return *pool;
}

void Pool::run(int threads, const std::function<void(int, int)>& work) {
  std::lock_guard<std::mutex> hold(region_);
  if (!crew_ || owner_ != getpid()) {
    if (crew_) new std::shared_ptr<Crew>(crew_);  // a forked child must not join threads it does not have
    crew_ = std::make_shared<Crew>(usable_cores());
    owner_ = getpid();
  }
  Crew& crew = *crew_;
  while (static_cast<int>(crew.workers.size()) < threads - 1) {
    const int index = static_cast<int>(crew.workers.size()) + 1;
    const int now = crew.region.load(std::memory_order_relaxed);
    crew.workers.emplace_back([keep = crew_, index, now] { keep->enter(index, now); });
    crew.workers.back().detach();
  }
  if (crew.wanted.exchange(threads, std::memory_order_acq_rel) < threads) crew.wanted.notify_all();
  crew.work = &work;
  const unsigned count = static_cast<unsigned>(crew.region.load(std::memory_order_relaxed)) >> kThreadBits;
  crew.region.store(static_cast<int>((count + 1) << kThreadBits | static_cast<unsigned>(threads)), std::memory_order_seq_cst);
  crew.region.notify_all();
  {
    FloatMode mode;
    work(0, threads);
  }
  crew.meet(threads);
}

void Pool::barrier() {
  Crew& crew = *crew_;
  crew.meet(crew.region.load(std::memory_order_relaxed) & kThreadMask);
}

}  // namespace outrider
