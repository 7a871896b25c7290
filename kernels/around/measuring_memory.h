#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "kernels/around/forwarding_backend.h"

namespace mxtape {

/// Counts what a MeasuringBackend in its place would take on the host in a step, about: the most that it
/// downloads at a time, in f32, and the corners of operands that it keeps from the forward pass to the
/// backward pass.
class MeasuringMemory final : public ForwardingBackend {
 public:
  /// `wants`: the layers that are measured; `unrounded`: also where nothing is rounded.
  MeasuringMemory(Backend& inner, std::function<bool(std::string_view layer)> wants, bool unrounded)
      : ForwardingBackend(inner), wants_(std::move(wants)), unrounded_(unrounded) {}
  void start() { on_ = true; }
  std::int64_t bytes() const { return kept_ + largest_; }

  void enter(std::string_view layer, bool backward) override {
    layer_ = layer;
    inner_.enter(layer, backward);
  }
  void dispatch(AnyCall any) override {
    inner_.dispatch(any);
    if (!on_ || layer_.empty() || !wants_(layer_)) return;
    if (const auto* const call = std::get_if<const call::Quantize*>(&any); call && !(*call)->to.empty()) {
      rounded_.insert(layer_);
      const Tensor& x = (*call)->x;
      // Of each copy at most 32 columns of X, or 16 columns and 16 rows of dY.
      constexpr std::int64_t columns = 32;
      kept_ += std::int64_t((*call)->to.size()) * columns * (x.rows() + x.cols()) * f32;
      look_at(x.count() * (f32 + (x.dtype() == DType::bf16 ? 2 : 0)));
    }
    if (const auto* const call = std::get_if<const call::Gemm*>(&any);
        call && (unrounded_ || rounded_.contains(layer_)))
      look_at(((*call)->a.elements.count() + (*call)->b.elements.count()) * f32);
  }
  /// As a step that is measured.
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override {
    return on_ ? work() : inner_.repeat(name, work);
  }

 private:
  static constexpr std::int64_t f32 = 4;
  void look_at(std::int64_t bytes) { largest_ = std::max(largest_, bytes); }

  std::function<bool(std::string_view)> wants_;
  bool unrounded_, on_ = false;
  std::string layer_;
  std::set<std::string> rounded_;
  std::int64_t kept_ = 0, largest_ = 0;
};

}  // namespace mxtape
