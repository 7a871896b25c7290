#pragma once
#include "autograd/tape.h"

namespace mxtape {

/// A rounded matrix that waits for backward, packed if the tape keeps such packed and its format has a packed
/// form (kernels/codec/packed_copy.h). Memory of its own goes as soon as nothing else holds it.
class SavedCopy {
 public:
  SavedCopy() = default;
  /// Without numbers `r` stays as it is.
  SavedCopy(const Tape&, Rounded r);

  explicit operator bool() const { return copy_ || packed_.codes; }
  std::int64_t bytes() const;
  /// What was kept, bit for bit; it goes from here.
  Rounded take(Backend&);

 private:
  Rounded copy_;
  PackedCopy packed_;
};

}  // namespace mxtape
