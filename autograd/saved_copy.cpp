#include "autograd/saved_copy.h"

#include <utility>

#include "kernels/codec/packed_copy.h"

namespace mxtape {

SavedCopy::SavedCopy(const Tape& tape, Rounded r) : copy_(std::move(r)) {
  if (tape.saved() != Saved::packed || !copy_ || !can_pack(copy_)) return;
  packed_ = room_for_packed(tape.backend(), copy_);
  tape.backend().run(call::PackCopy{packed_, copy_});
  copy_.elements = copy_.scales = {};
}

std::int64_t SavedCopy::bytes() const {
  return copy_.bytes() + packed_.codes.bytes() + packed_.scales.bytes();
}

Rounded SavedCopy::take(Backend& backend) {
  Rounded copy = std::exchange(copy_, {});
  if (!packed_.codes) return copy;
  copy = with_room(backend, std::move(copy));
  backend.run(call::UnpackCopy{copy, std::exchange(packed_, {})});
  return copy;
}

}  // namespace mxtape
