#include "kernels/cpu/isa_name.h"

#include <fmt/format.h>

#include <climits>
#include <string_view>

namespace mxtape::cpu {
namespace {

/// One number means different sets on different machines, and version 3 renumbered some.
struct Isa {
  Machine machine;
  unsigned number;
  std::string_view name;
  int first_major = 0, last_major = INT_MAX;
};

constexpr Isa isas[] = {
    {Machine::x86_64, 0x1, "sse41"},
    {Machine::x86_64, 0x3, "avx"},
    {Machine::x86_64, 0x7, "avx2"},
    {Machine::x86_64, 0x407, "avx2_vnni", 0, 2},
    {Machine::x86_64, 0xf, "avx2_vnni", 3},
    {Machine::x86_64, 0x1f, "avx2_vnni_2", 3},
    {Machine::x86_64, 0x27, "avx512_core"},
    {Machine::x86_64, 0x67, "avx512_core_vnni"},
    {Machine::x86_64, 0xe7, "avx512_core_bf16"},
    {Machine::x86_64, 0x1e7, "avx512_core_fp16", 0, 2},
    {Machine::x86_64, 0x1ef, "avx512_core_fp16", 3},
    {Machine::x86_64, 0x3e7, "avx512_core_amx", 0, 2},
    {Machine::x86_64, 0xfef, "avx512_core_amx", 3},
    {Machine::x86_64, 0x1fef, "avx512_core_amx_fp16", 3},
    {Machine::x86_64, 0x201ff, "avx10_2", 3},
    {Machine::x86_64, 0x22fff, "avx10_2_amx_2", 3},
    {Machine::aarch64, 0x1, "asimd"},
    {Machine::aarch64, 0x3, "sve_128"},
    {Machine::aarch64, 0x7, "sve_256"},
    {Machine::aarch64, 0xf, "sve_384"},
    {Machine::aarch64, 0x1f, "sve_512", 0, 2},
    {Machine::aarch64, 0x27, "sve_512", 3},
};

}  // namespace

std::string isa_name(Machine machine, int major, unsigned isa) {
  for (const Isa& known : isas)
    if (known.machine == machine && known.number == isa && known.first_major <= major &&
        major <= known.last_major)
      return std::string(known.name);
  return fmt::format("instruction set unknown to mxtape ({:#x})", isa);
}

}  // namespace mxtape::cpu
