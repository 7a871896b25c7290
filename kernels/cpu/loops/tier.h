#pragma once
#include <string_view>

namespace mxtape::cpu {

/// Instruction sets that the vector loops are compiled for. All give the same bits: the order of additions is
/// written out in 16 lanes (simd.h) and nothing is contracted.
enum class Tier { baseline, avx2, avx512 };

/// The best tier of this machine, unless set_tier() chose a lower one.
Tier tier();
/// For tests and benchmarks. Throws Error(usage) if this machine does not have it.
void set_tier(Tier);
bool has_tier(Tier);
/// Whether MXTAPE_MAX_CPU allows a set: baseline, avx2, avx512, avx512_bf16 or amx_bf16, each with those
/// before it. Throws Error(usage) if it names another.
bool may_use(std::string_view set);
std::string_view name_of(Tier);

/// Loop tables come in one copy per tier; this picks the one to call.
template <class Table>
const Table& choose([[maybe_unused]] const Table& baseline, [[maybe_unused]] const Table& avx2,
                    [[maybe_unused]] const Table& avx512) {
  switch (tier()) {
    case Tier::avx512:
      return avx512;
    case Tier::avx2:
      return avx2;
    case Tier::baseline:
      break;
  }
  return baseline;
}

// In each *_loops.h, for a table `struct Table { pointers to functions }`: declares the table of each tier,
// which *_loops.cpp defines, and name(), the one to call on this machine.
#if defined(__x86_64__)
#define MXT_TIER_TABLE(Table, name) \
  namespace baseline {              \
  extern const Table name;          \
  }                                 \
  namespace avx2 {                  \
  extern const Table name;          \
  }                                 \
  namespace avx512 {                \
  extern const Table name;          \
  }                                 \
  inline const Table& name() { return choose(baseline::name, avx2::name, avx512::name); }
#else
#define MXT_TIER_TABLE(Table, name) \
  namespace baseline {              \
  extern const Table name;          \
  }                                 \
  inline const Table& name() { return baseline::name; }
#endif

}  // namespace mxtape::cpu
