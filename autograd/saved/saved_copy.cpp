#include "autograd/saved/saved_copy.h"

#include <utility>

#include "kernels/codec/packed_copy.h"
#include "kernels/gemm/room.h"

namespace mxtape {

SavedCopy::SavedCopy(const Tape& tape, QuantizedCopy copy, const Shape& x) : copy_(std::move(copy)), x_(x) {
  if (tape.saved() != Saved::packed || !copy_.values || !can_pack(copy_)) return;
  packed_ = room_for_packed(tape.backend(), copy_);
  tape.backend().run(call::PackCopy{packed_, copy_});
  copy_.values = copy_.scales = {};
}

std::int64_t SavedCopy::bytes() const {
  return bytes_of(copy_) + packed_.codes.bytes() + packed_.scales.bytes();
}

QuantizedCopy SavedCopy::take(Backend& backend) {
  QuantizedCopy copy = std::exchange(copy_, {});
  if (!packed_.codes) return copy;
  const Tensor multiplier = copy.multiplier;
  make_room(backend, copy, x_);
  copy.multiplier = multiplier;
  backend.run(call::UnpackCopy{copy, std::exchange(packed_, {})});
  return copy;
}

Tensor kept_in_bf16(const Tape& tape, const Tensor& x) {
  const bool packs = tape.saved() == Saved::packed && x && x.dtype() == DType::f32;
  return packs ? as_type(tape.backend(), x, DType::bf16) : x;
}

Tensor as_type(Backend& backend, const Tensor& x, DType dtype) {
  if (!x || x.dtype() == dtype) return x;
  Tensor y = backend.empty(x.shape(), dtype);
  backend.copy(y, x);
  return y;
}

}  // namespace mxtape
