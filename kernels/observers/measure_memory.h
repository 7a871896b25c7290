#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "kernels/observers/observer.h"

namespace mxtape {

/// What Measure would take on the host in a step, about, told by a dry run, in which nothing can be
/// downloaded: the most that it downloads at a time, in f32, and the corners of operands that it keeps.
class MeasureMemory final : public Observer {
 public:
  /// `wants`: the layers that are measured; `unrounded`: also where nothing is rounded.
  MeasureMemory(std::function<bool(std::string_view layer)> wants, bool unrounded)
      : wants_(std::move(wants)), unrounded_(unrounded) {}
  void start() { on_ = true; }
  std::int64_t bytes() const { return kept_ + largest_; }

  bool wants_every_call() const override { return on_; }
  void after(const Seen& seen) override {
    if (!on_ || seen.layer.empty() || !wants_(seen.layer)) return;
    constexpr std::int64_t f32 = 4;
    const std::string layer(seen.layer);
    if (const auto* const call = seen.call.as<call::Quantize>(); call && !call->to.empty()) {
      rounded_.insert(layer);
      const Tensor& x = call->x;
      // Of each copy at most 32 columns of X, or 16 columns and 16 rows of dY.
      constexpr std::int64_t columns = 32;
      kept_ += std::int64_t(call->to.size()) * columns * (x.rows() + x.cols()) * f32;
      largest_ = std::max(largest_, x.count() * (f32 + (x.dtype() == DType::bf16 ? 2 : 0)));
    }
    if (const auto* const call = seen.call.as<call::Gemm>(); call && (unrounded_ || rounded_.contains(layer)))
      largest_ = std::max(largest_, (call->a.elements.count() + call->b.elements.count()) * f32);
  }

 private:
  std::function<bool(std::string_view)> wants_;
  bool unrounded_, on_ = false;
  std::set<std::string> rounded_;
  std::int64_t kept_ = 0, largest_ = 0;
};

}  // namespace mxtape
