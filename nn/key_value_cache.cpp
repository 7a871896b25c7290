#include "nn/key_value_cache.h"

#include "kernels/attention/attention.h"

namespace mxtape {
namespace {

/// From a row of x [B, T, C], `width` numbers from column `first` on; anywhere in x.
Tensor columns_of(const Tensor& x, std::int64_t row, std::int64_t first, std::int64_t width) {
  return x.part(row * x.cols() + first, {width});
}

}  // namespace

Tensor& KeyValueCache::layer(Backend& backend, std::uint32_t tensor_id, std::int64_t row, DType dtype) {
  Tensor& kv = layers_[tensor_id];
  if (!kv) kv = backend.empty({batch_, room_, row}, dtype);
  return kv;
}

Var KeyValueCache::attend(Tape& tape, const Var& qkv, const AttentionShape& shape,
                          const AttentionQuant& quant, std::uint32_t tensor_id) {
  const std::int64_t T = shape.time, queries = shape.heads * shape.width,
                     row = 2 * shape.kv_heads * shape.width;
  require(!tape.training() && shape.batch == batch_ && length_ + T <= room_ && (T == 1 || length_ == 0),
          "cache of {} x {} keys, {} there: {} x {} more{}", batch_, room_, length_, shape.batch, T,
          tape.training() ? " in training" : "");
  Backend& backend = tape.backend();
  const Tensor& x = qkv.value;
  const Tensor& kv = layer(backend, tensor_id, row, x.dtype());
  for (std::int64_t b = 0; b < batch_; ++b)
    for (std::int64_t t = 0; t < T; ++t)
      backend.copy(columns_of(kv, b * room_ + length_ + t, 0, row), columns_of(x, b * T + t, queries, row));
  if (length_ == 0) return ops::attention(tape, qkv, shape, quant, tensor_id);

  Tensor q = x.part(0, {1, 1, queries});
  if (batch_ > 1) {
    q = backend.empty({batch_, 1, queries}, x.dtype());
    for (std::int64_t b = 0; b < batch_; ++b)
      backend.copy(columns_of(q, b, 0, queries), columns_of(x, b, 0, queries));
  }
  AttentionShape longer = shape;
  longer.own_keys = true;
  longer.keys = length_ + 1;
  longer.first_position = length_;
  longer.room = room_;
  return ops::attention(tape, {q}, longer, quant, tensor_id, {kv});
}

void KeyValueCache::put(Backend& backend, std::int64_t b, const KeyValueCache& other) {
  require(other.batch_ == 1 && b >= 0 && b < batch_ && other.length_ <= room_,
          "cache of {} x {} keys: text {} of {} x {} is put there", batch_, room_, b, other.batch_,
          other.length_);
  for (const auto& [tensor_id, from] : other.layers_) {
    const std::int64_t row = from.cols(), count = other.length_ * row;
    const Tensor& to = layer(backend, tensor_id, row, from.dtype());
    backend.copy(to.part(b * room_ * row, {count}), from.part(0, {count}));
  }
  length_ = other.length_;
}

Tensor last_rows(Backend& backend, const Tensor& x) {
  const std::int64_t B = x.shape()[0], T = x.shape()[1], C = x.cols();
  if (T == 1) return x;
  if (B == 1) return x.part((T - 1) * C, {1, 1, C});
  const Tensor last = backend.empty({B, 1, C}, x.dtype());
  for (std::int64_t b = 0; b < B; ++b)
    backend.copy(columns_of(last, b, 0, C), columns_of(x, b * T + T - 1, 0, C));
  return last;
}

}  // namespace mxtape
