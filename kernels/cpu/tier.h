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
std::string_view name_of(Tier);

/// Loop tables come in one copy per tier; this picks the one to call. Each *_loops.h declares its table in
/// the namespaces baseline, avx2 and avx512, and a function that calls choose().
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

}  // namespace mxtape::cpu
