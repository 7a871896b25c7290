#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mxtape {

/// What backward's copy of a weight or of an activation is made from.
enum class OperandSource : std::uint8_t {
  master,   ///< the high-precision tensor
  forward,  ///< what the forward multiplied by: rounded values times their multiplier, rounded again
            ///< (TetraJet, arXiv:2502.20853; Quartet, arXiv:2505.14669)
  shared,   ///< nothing: it is the forward's copy itself (square tiles serve both axes)
};

/// "source=master", "source=forward", "source=shared". Throws Error(usage) for anything else.
OperandSource parse_source(std::string_view text);
std::string to_text(OperandSource);
/// True if `text` means a source, well written or not, rather than a number format.
constexpr bool is_source_text(std::string_view text) { return text.starts_with("source"); }

}  // namespace mxtape
