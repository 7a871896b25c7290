#pragma once
#include <memory>

#include "kernels/observers/forwarding_backend.h"

namespace mxtape {

/// A backend whose kernels know f32 activations, made to take bf16 ones: what a kernel reads is widened
/// (exact), what it writes is computed in f32 and rounded to nearest even. So the CPU runs every recipe, as
/// the reference for devices that keep activations in bf16; it costs two more passes over each tensor and f32
/// scratch.
class Bf16Activations final : public ForwardingBackend {
 public:
  explicit Bf16Activations(std::unique_ptr<Backend> inner)
      : ForwardingBackend(*inner), owned_(std::move(inner)) {}
  void dispatch(AnyCall) override;

 private:
  Tensor widened(const Tensor&);
  /// What a call asks for besides, once its activations are f32.
  void adapt(call::Gemm& wide, const call::Gemm& asked);
  void adapt(auto&, const auto&) {}

  std::unique_ptr<Backend> owned_;
};

}  // namespace mxtape
