#include "autograd/packed/packed_weight.h"

#include <vector>

#include "autograd/linear_keys.h"
#include "autograd/operands/operands.h"
#include "autograd/parameter.h"
#include "formats/codec/mx_tensor.h"
#include "kernels/codec/packed_tensor.h"

namespace mxtape {
namespace {

/// Unpacking gives values: the library multiplies them.
QuantizedCopy fprop_copy(const LinearKeys& keys, const LinearQuant& quant) {
  return keys.wanted(LinearGemm::fprop, quant.fprop_w, Axis::row);
}

}  // namespace

std::int64_t PackedWeight::bytes() const {
  std::int64_t sum = copy.values.bytes();
  for (const Tensor* part : {&packed.codes, &packed.scales, &packed.offsets, &packed.multiplier})
    sum += part->bytes();
  return sum;
}

MxTensor pack_weight(Backend& backend, const Parameter& w, const LinearQuant& quant, const PassKey& pass,
                     std::uint32_t tensor_id) {
  const LinearKeys keys{pass, tensor_id, w.version, quant, GemmKernels::library};
  const std::int64_t rows = w.value.rows(), cols = w.value.cols();
  std::vector<float> values(std::size_t(rows * cols));
  backend.download(values.data(), w.value);
  const QuantizedCopy copy = fprop_copy(keys, quant);
  if (copy.rotation.size)
    rotate_reference(values.data(), values.data(), rows, cols, Axis::row, copy.rotation, copy.signs);
  return pack(values.data(), rows, cols, Axis::row, quant.fprop_w, keys.rounding_w());
}

PackedWeight packed_weight(Backend& backend, const MxTensor& t, const LinearQuant& quant, const PassKey& pass,
                           std::uint32_t tensor_id, std::uint64_t weight_version) {
  require(t.quantizer == quant.fprop_w && t.axis == Axis::row, ExitCode::data,
          "packed as '{}', the layer multiplies by '{}'", to_text(t.quantizer), to_text(quant.fprop_w));
  t.check();
  PackedWeight weight{
      fprop_copy({pass, tensor_id, weight_version, quant, GemmKernels::library}, quant), {}, t.rows, t.cols};
  if (t.quantizer == bf16_cast) {  // its codes are bf16 numbers
    weight.copy.values = backend.empty(weight.shape(), DType::bf16);
    backend.upload(weight.copy.values, t.codes.data());
  } else {
    weight.packed = upload(backend, t);
    weight.packed.first_uncoded = {};  // nothing packs into it again
  }
  return weight;
}

QuantizedCopy unpacked(Backend& backend, const PackedWeight& weight, const QuantizedCopy& wanted) {
  QuantizedCopy copy = weight.copy;
  if (!copy.values) {
    copy.values = backend.empty(weight.shape(), copy.quantizer.operand_dtype());
    copy.multiplier = weight.packed.multiplier;
  }
  require(same_recipe(copy, wanted), "linear: a weight is packed as '{}', {}; '{}', {}, is asked for",
          to_text(copy.quantizer), to_text(copy.rotation), to_text(wanted.quantizer),
          to_text(wanted.rotation));
  if (!weight.copy.values) backend.run(call::Unpack{copy.values, weight.packed});
  return copy;
}

}  // namespace mxtape
