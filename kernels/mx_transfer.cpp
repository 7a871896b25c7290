#include "kernels/mx_transfer.h"

#include <bit>
#include <cmath>

namespace mxtape {
namespace {

static_assert(std::endian::native == std::endian::little, "offsets are copied as they lie on a device");

template <class T>
void download_part(Backend& backend, std::vector<T>& numbers, const Tensor& part) {
  numbers.resize(std::size_t(part.bytes()) / sizeof(T));
  if (!numbers.empty()) backend.download(numbers.data(), part);
}

}  // namespace

Rounded upload(Backend& backend, const MxTensor& t) {
  t.check();
  const Rounded y = with_room(backend, wanted(t.quantizer, t.axis, {t.rows, t.cols}, Layout::stored));
  if (y.elements) backend.upload(y.elements, t.codes.data());
  if (y.scales) backend.upload(y.scales, t.scales.data());
  if (y.offsets) backend.upload(y.offsets, t.offsets.data());
  if (y.multiplier) backend.upload(y.multiplier, &t.multiplier);
  return y;
}

MxTensor download(Backend& backend, const Rounded& x) {
  MxTensor t{x.by.quantizer, x.by.axis, x.rows(), x.cols(), {}, {}, {}};
  download_part(backend, t.codes, x.elements);
  download_part(backend, t.scales, x.scales);
  download_part(backend, t.offsets, x.offsets);
  if (x.multiplier) backend.download(&t.multiplier, x.multiplier);
  if (std::isnan(t.multiplier)) t.multiplier = NAN;  // of a tensor with NaN: each device has bits of its own
  return t;
}

MxTensor pack(Backend& backend, const float* x, std::int64_t rows, std::int64_t cols, Axis axis,
              const Quantizer& q, const DrawKey& key) {
  const Tensor source = backend.empty({rows, cols}), lost = backend.empty({1}, DType::i32);
  if (source.count() > 0) backend.upload(source, x);
  const Rounded packed = with_room(backend, wanted(q, axis, {rows, cols}, Layout::stored, key));
  backend.run(call::Quantize{.to = {&packed, 1}, .x = source, .first_uncoded = lost});
  std::int32_t first_uncoded = -1;
  backend.download(&first_uncoded, lost);
  require_codes(first_uncoded, q);
  return download(backend, packed);
}

void unpack(Backend& backend, float* y, const MxTensor& t) {
  const Rounded stored = upload(backend, t);
  Rounded values = wanted(t.quantizer, t.axis, {t.rows, t.cols});
  values.elements = backend.empty(values.shape);
  values.multiplier = stored.multiplier;
  backend.run(call::Recode{values, stored});
  if (values.elements.count() > 0) backend.download(y, values.elements);
}

}  // namespace mxtape
