#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "nn/model.h"

namespace mxtape {

struct StrideOptions {
  std::int64_t window = 0;            ///< inputs T of a pass, at most the model's context; 0: that
  std::int64_t stride = 0;            ///< S: window k begins at k S; 1 to T; 0: T
  std::optional<std::int32_t> bos{};  ///< stands in front of each window, in the place of its first input
  PassKey pass{};
  std::function<void(std::int64_t done, std::int64_t total)> progress{};  ///< in windows
  std::vector<char>* likeliest = nullptr;  ///< gets for each token whether no other is likelier
};

/// Where a window begins, how many inputs it has, and from which of its targets on it is counted.
struct StrideWindow {
  std::int64_t begin = 0, inputs = 0, first_new = 0;
};
/// The windows over `tokens` tokens. Each target is counted once, in the first window that has it; the last
/// window is moved back to end with the text. Without BOS, input i of a window is token begin + i and target
/// i token begin + i + 1; with BOS in front both come one token later, so that target i is token begin + i.
std::vector<StrideWindow> stride_windows(std::int64_t tokens, std::int64_t window, std::int64_t stride,
                                         bool bos);

/// -log p [nats] of the tokens from the second on, or with BOS of all of them, in order: as in
/// huggingface.co/docs/transformers/perplexity, but that no target is counted twice. Throws Error(usage) for
/// a window or stride that does not fit, Error(data) for less than two tokens (with BOS: one),
/// Error(diverged) if a number is not finite.
std::vector<double> strided_nll(Backend&, Model&, std::span<const std::int32_t> tokens, const StrideOptions&);

}  // namespace mxtape
