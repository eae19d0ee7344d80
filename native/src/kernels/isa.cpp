#include "outrider/isa.h"

#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace outrider {

#define OUTRIDER_TABLE(isa) \
  namespace isa {           \
  extern const Kernels table; \
  }
OUTRIDER_TABLE(portable)
#if defined(__x86_64__)
OUTRIDER_TABLE(avx2)
OUTRIDER_TABLE(avxvnni)
OUTRIDER_TABLE(vnni256)
OUTRIDER_TABLE(avx512vnni)
#endif
#undef OUTRIDER_TABLE

namespace {

#if defined(__x86_64__)
bool has_avx_vnni() {  // leaf 7.1, eax bit 4; the operating system's part is that of avx2
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4));
}
#endif

struct Entry {
  const Kernels* table;
  bool usable;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  all.push_back({&avx512vnni::table, avx512});
  all.push_back({&vnni256::table, avx512});
  all.push_back({&avxvnni::table, avx2 && has_avx_vnni()});
  all.push_back({&avx2::table, avx2});
#endif
  all.push_back({&portable::table, true});
  return all;
}

}  // namespace

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const Entry& e : entries())
    if (e.usable) names.push_back(e.table->name);
  return names;
}

const Kernels& kernels_for(const std::string& name) {
  std::string known;
  for (const Entry& e : entries()) {
    if (e.usable && (name.empty() || name == e.table->name)) return *e.table;
    if (e.usable) known += (known.empty() ? "" : ", ") + std::string(e.table->name);
  }
  throw std::invalid_argument("instruction set '" + name + "' is unknown or missing on this machine; it has: " + known);
}

}  // namespace outrider
