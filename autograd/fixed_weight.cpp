#include "autograd/fixed_weight.h"

#include "autograd/weight_average.h"
#include "kernels/mx_transfer.h"

namespace mxtape {

MxTensor pack_weight(Backend& backend, const Parameter& w, const LinearUse& use) {
  const std::int64_t rows = w.value.rows(), cols = w.value.cols();
  std::vector<float> values = downloaded(backend, w.value);
  const Quantization by = use.operand(Slot::fprop_w).by;
  if (by.rotation.size)
    rotate_reference(values.data(), values.data(), rows, cols, by.axis, by.rotation, by.signs);
  return pack_by_average(backend, w, values, by);
}

void fix_weight(Backend& backend, Parameter& w, const MxTensor& t, const LinearUse& use) {
  Rounded fprop = use.operand(Slot::fprop_w);
  require(t.quantizer == fprop.by.quantizer && t.axis == fprop.by.axis, ExitCode::data,
          "packed as '{}', the layer multiplies by '{}'", t.quantizer, fprop.by.quantizer);
  t.check();
  fprop.shape = {t.rows, t.cols};
  if (t.quantizer == bf16_cast) {  // its codes are bf16 numbers
    fprop.layout = Layout::values;
    fprop.elements = backend.empty(fprop.shape, DType::bf16);
    backend.upload(fprop.elements, t.codes.data());
  } else {
    const Rounded stored = upload(backend, t);
    fprop.layout = Layout::stored;
    fprop.elements = stored.elements, fprop.scales = stored.scales;
    fprop.offsets = stored.offsets, fprop.multiplier = stored.multiplier;
  }
  w.fixed = true;
  w.copies = {std::move(fprop), {}, w.version};
}

}  // namespace mxtape
