#pragma once
#include <string>

namespace mxtape::cpu {

enum class Machine { x86_64, aarch64 };
#if defined(__aarch64__)
inline constexpr Machine this_machine = Machine::aarch64;
#else
inline constexpr Machine this_machine = Machine::x86_64;
#endif

/// The name of the instruction set that dnnl_get_effective_cpu_isa() of oneDNN `major` returns as a number:
/// "avx512_core_bf16", "sve_256", or "instruction set unknown to mxtape (0x2fef)".
/// Sources: oneDNN's dnnl_types.h, and src/cpu/aarch64/cpu_isa_traits.hpp, whose numbers are in no public
/// header.
std::string isa_name(Machine machine, int major, unsigned isa);

}  // namespace mxtape::cpu
