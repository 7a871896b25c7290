#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "interop/model_facts.h"

namespace mxtape {

/// A tensor of theirs, and the rows of one of ours that it becomes.
struct TensorPart {
  std::string theirs, gguf;         ///< its names, Hugging Face's and GGUF's
  std::int64_t rows = 0, cols = 0;  ///< as ours has them; a vector is one row
  std::int64_t first_row = 0;       ///< in ours; of a vector: element
  bool transposed = false;          ///< theirs is [cols, rows]
  bool vector = false;
  bool optional = false;  ///< export writes zeros where ours has none: GPT-2's class has biases

  /// Rows one below the other in ours; the elements of a vector are rows of one.
  std::int64_t row_count() const { return vector ? cols : rows; }
  std::int64_t row_width() const { return vector ? 1 : cols; }
  std::vector<std::uint64_t> their_dims() const;
};
/// A tensor of ours and what it is made of, one part below the other.
struct TensorPlan {
  std::string ours;
  Shape shape;
  std::vector<TensorPart> parts;
};

/// The tensors of a model in the order of computation: one table per architecture, which import and export
/// read. The names have the prefix in front, as "transformer.". Not `transposed`: matrices are [out, in] in
/// any case.
std::vector<TensorPlan> tensor_plan(const ModelFacts&, bool transposed = true);
/// In front of all names but the head's; the first uploads lack it.
std::string_view name_prefix(const ModelFacts&);
/// A buffer that early versions saved and that holds no parameter: the causal mask, RoPE's frequencies.
bool is_buffer(const ModelFacts&, std::string_view name);

inline constexpr std::string_view their_head = "lm_head.weight";

}  // namespace mxtape
