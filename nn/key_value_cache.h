#pragma once
#include <cstdint>
#include <map>

#include "autograd/ops.h"

namespace mxtape {

/// What attention needs of the tokens before: the keys (after norm and rotation) and values of each layer,
/// unrounded, as attention takes them, [B, room, 2 G D] in the activations' type. All texts of a batch have
/// the same length.
class KeyValueCache {
 public:
  /// Room for `batch` texts of `room` tokens each; it is taken layer by layer at the first use.
  KeyValueCache(std::int64_t batch, std::int64_t room) : batch_(batch), room_(room) {}

  std::int64_t batch() const { return batch_; }
  std::int64_t room() const { return room_; }
  std::int64_t length() const { return length_; }  ///< tokens of each text so far

  /// ops::attention() of qkv [B, T, (H + 2 G) D], whose tokens follow those that are here and join them.
  /// `shape` is that of the pass alone; `tensor_id` names the layer. T = 1 unless the cache is empty. Throws
  /// Error(internal) beyond the room.
  Var attend(Tape&, const Var& qkv, const AttentionShape& shape, const AttentionQuant&,
             std::uint32_t tensor_id);
  /// After all layers of a pass: `tokens` more of each text.
  void advance(std::int64_t tokens) { length_ += tokens; }

  /// Text b of all layers becomes the only one of `other`. The texts of this cache are as long as that one
  /// from then on: put all of them.
  void put(Backend&, std::int64_t b, const KeyValueCache& other);

 private:
  Tensor& layer(Backend&, std::uint32_t tensor_id, std::int64_t row, DType);

  std::int64_t batch_, room_, length_ = 0;
  std::map<std::uint32_t, Tensor> layers_;
};

/// The last of the T rows of each text: [B, 1, C] of x [B, T, C].
Tensor last_rows(Backend&, const Tensor& x);

}  // namespace mxtape
