#pragma once
#include <array>
#include <span>

#include "autograd/ops.h"

namespace mxtape {

/// Makes the copies of w that ops::linear() with the same arguments multiplies by, where they are missing,
/// stale or of another rounding: in one pass, and those at hand stay. `dgrad`: also the one that only
/// backward uses. True if one was made: what was at hand may lie elsewhere now.
bool make_weight_copies(Backend&, Parameter& w, const LinearQuant&, const PassKey&, std::uint32_t tensor_id,
                        bool dgrad);

/// Copies of a parameter as they will be after its next update, in the memory of those at hand: for
/// call::AdamW to write. None where there are none: they will be made when they are used.
class NextCopies {
 public:
  explicit NextCopies(const Parameter&);
  std::span<QuantizedCopy> copies() { return std::span(copies_).first(count_); }
  const DrawKey& draws() const { return draws_; }
  /// Then: backward's copy, where it is made from the forward's.
  void make_from_forward(Backend&) const;

 private:
  std::array<QuantizedCopy, 2> copies_;
  std::size_t count_ = 0;
  DrawKey draws_;
  QuantizedCopy forward_, again_;
};

/// Bytes of a weight's copies that are neither the weight itself nor each other.
std::int64_t own_bytes_of_copies(const Parameter&);

/// Raises the version of a parameter that was updated, and of its copies, which call::AdamW has renewed.
void count_update(Parameter&);

}  // namespace mxtape
