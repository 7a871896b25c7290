#include "kernels/codec/packed_tensor.h"

#include <cmath>

#include "formats/codec/block_codec.h"

namespace mxtape {
namespace {

std::vector<std::uint8_t> download_bytes(Backend& backend, const Tensor& part) {
  std::vector<std::uint8_t> bytes(std::size_t(part ? part.count() : 0));
  if (!bytes.empty()) backend.download(bytes.data(), part);
  return bytes;
}

}  // namespace

PackedTensor empty_packed(Backend& backend, const Quantizer& q, Axis axis, std::int64_t rows,
                          std::int64_t cols) {
  const PackedLayout layout = packed_layout(q, rows, cols, axis);
  const auto bytes = [&](std::int64_t count) {
    return count > 0 ? backend.empty({count}, DType::u8) : Tensor{};
  };
  PackedTensor t{q, axis, rows, cols, bytes(layout.codes), bytes(layout.scales), bytes(layout.offsets)};
  if (q.has_multiplier()) t.multiplier = backend.empty({1});
  t.first_uncoded = backend.empty({1}, DType::i32);
  return t;
}

PackedTensor rows_of(const PackedTensor& whole, std::int64_t first, std::int64_t count) {
  const PackedLayout before = packed_layout(whole.quantizer, first, whole.cols, whole.axis);
  const PackedLayout size = packed_layout(whole.quantizer, count, whole.cols, whole.axis);
  const auto part = [](const Tensor& bytes, std::int64_t begin, std::int64_t length) {
    return bytes ? bytes.part(begin, {length}) : bytes;
  };
  PackedTensor rows = whole;
  rows.rows = count;
  rows.codes = part(whole.codes, before.codes, size.codes);
  rows.scales = part(whole.scales, before.scales, size.scales);
  rows.offsets = part(whole.offsets, before.offsets, size.offsets);
  return rows;
}

PackedTensor upload(Backend& backend, const MxTensor& t) {
  t.check();
  const PackedTensor y = empty_packed(backend, t.quantizer, t.axis, t.rows, t.cols);
  if (y.codes) backend.upload(y.codes, t.codes.data());
  if (y.scales) backend.upload(y.scales, t.scales.data());
  if (y.offsets) backend.upload(y.offsets, bytes_of(t.offsets).data());
  if (y.multiplier) backend.upload(y.multiplier, &t.multiplier);
  constexpr std::int32_t none = -1;
  backend.upload(y.first_uncoded, &none);
  return y;
}

MxTensor download(Backend& backend, const PackedTensor& x) {
  std::int32_t first_uncoded = -1;
  if (x.first_uncoded) backend.download(&first_uncoded, x.first_uncoded);  // else put together from bytes
  require_codes(first_uncoded, x.quantizer);
  MxTensor t{x.quantizer,
             x.axis,
             x.rows,
             x.cols,
             download_bytes(backend, x.codes),
             download_bytes(backend, x.scales),
             words_of(download_bytes(backend, x.offsets))};
  if (x.multiplier) backend.download(&t.multiplier, x.multiplier);
  if (std::isnan(t.multiplier)) t.multiplier = NAN;  // of a tensor with NaN: each device has bits of its own
  return t;
}

MxTensor pack(Backend& backend, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
              const Quantizer& q, const DrawKey& key) {
  const Tensor source = backend.empty({rows, cols});
  if (source.count() > 0) backend.upload(source, x);
  const PackedTensor packed = empty_packed(backend, q, axis, rows, cols);
  backend.run(call::Pack{packed, source, key});
  return download(backend, packed);
}

void unpack(Backend& backend, float* y, const MxTensor& t) {
  const Tensor values = backend.empty({t.rows, t.cols});
  backend.run(call::Unpack{values, upload(backend, t)});
  if (values.count() > 0) backend.download(y, values);
}

}  // namespace mxtape
