#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/telemetry/statistics.h"
#include "kernels/around/forwarding_backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {

/// What the rounding of one training step's operands cost.
struct Measurements {
  struct Operand {
    std::string layer, slot;  ///< "blocks.0.attn.qkv", "dgrad.dy"
    Quantizer quantizer;
    bool in_use = true;  ///< false: another format, tried on the same numbers
    ErrorStatistics errors;
  };
  /// The gradient g' that a GEMM made, beside g, the one of operands that nothing rounded.
  struct Gradient {
    std::string layer, slot;    ///< "wgrad.dw", "dgrad.dx"
    double cosine = 0;          ///< <g, g'> / (|g| |g'|)
    double bias = 0;            ///< <g, g'> / <g, g> - 1
    double relative_error = 0;  ///< |g' - g| / |g|
  };
  /// A gradient that is not measured.
  struct LeftOut {
    std::string layer, slot, reason;
  };
  /// How far the rounded weights moved in the update, over how far the weights did: sum |Q(w') - Q(w)| / sum
  /// |w' - w|. About 1 where weights drift, far above where they go to and fro over a rounding edge
  /// (TetraJet-v2, arXiv:2510.27527).
  struct Oscillation {
    std::string layer;
    double ratio = 0;
  };
  std::vector<Operand> operands;
  std::vector<Gradient> gradients;
  std::vector<LeftOut> left_out;
  std::vector<Oscillation> weights;
};

/// Measures the operands of linear layers in the training step between start() and stop(): of each a window
/// of about `sample` numbers, by the definition of formats/, and of each gradient 16 x 32 numbers in double.
/// Of several micro-batches the first is measured. Results of the step are those of the inner backend. Costs
/// nothing but a branch while it is off.
class MeasuringBackend final : public ForwardingBackend {
 public:
  struct Options {
    std::vector<Quantizer> others;  ///< tried on every operand besides its own
    std::int64_t sample = 1 << 14;  ///< numbers of an operand
    /// Gets every operand whole, by layer and slot, as it was before rounding.
    std::function<void(const std::string& layer, const std::string& slot, const std::vector<float>& x,
                       std::int64_t rows, std::int64_t cols)>
        look{};
    /// Which slots of which layers, operands and gradients; empty: all.
    std::function<bool(const std::string& layer, const std::string& slot)> wants{};
    bool unrounded = true;    ///< operands that nothing rounds, too
    bool oscillation = true;  ///< of weights, over the update of this step
  };
  MeasuringBackend(Backend& inner, Options options)
      : ForwardingBackend(inner), options_(std::move(options)) {}

  /// What a layer's weight is: the copies of weights are renewed by the optimizer, outside of any layer.
  void name_weight(const Tensor& weight, std::string layer);
  /// Lets go of the weights, whose memory it holds.
  void forget_weights();
  void start();
  /// After start(): a copy of a layer's weight x that was made before it. `multiplier`: x's, if it has one.
  void measure_weight(const std::string& layer, const Tensor& x, const Rounded& copy,
                      const Tensor& multiplier = {});
  Measurements stop();

  void dispatch(AnyCall) override;
  void enter(std::string_view layer, bool backward) override;
  /// A step that is measured is not recorded, and none that is recorded is replayed in its place.
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override {
    return on_ ? work() : inner_.repeat(name, work);
  }

 private:
  struct Matrix {
    std::vector<float> x;
    std::int64_t rows = 0, cols = 0;
    float at(std::int64_t r, std::int64_t c) const { return x[std::size_t(r * cols + c)]; }
  };
  /// The corner of a gradient of operands that nothing rounded.
  struct Exact {
    std::vector<double> x;
    std::int64_t rows = 0, cols = 0;
  };
  /// What a copy was made from: as much of it as the gradients that are computed again need.
  struct Source {
    Matrix rows, columns;
  };
  Matrix downloaded(const Tensor& x);
  bool unseen(const std::string& layer, const std::string& slot) const;
  bool any_unseen(const std::string& layer, std::span<const Rounded> made) const;
  void measure(const std::string& layer, const Matrix& x, std::span<const Rounded> made);
  std::string layer_of(const call::Quantize&);
  void measure_operands(const call::Quantize&);
  void measure_unrounded(const call::Gemm&);
  void measure_update(const call::AdamW&);
  void follow(const call::Recode&);
  void forget_written(AnyCall);

  Source source_of(const Matrix& x, std::string_view tensor) const;
  const Matrix* side(const Rounded&, Matrix Source::*part, Source& unrounded);
  void measure_gradient(const call::Gemm&);
  void compare(const std::string& slot, const Tensor& got);
  void leave_out(const std::string& slot, std::string reason);

  Options options_;
  bool on_ = false;
  std::string layer_;
  std::map<std::string, Tensor> weights_;               // by layer
  std::map<const void*, std::string> layers_;           // by a weight's memory
  std::set<std::pair<std::string, std::string>> seen_;  // layers and slots that were measured
  std::set<const void*> copies_;                        // made since start()
  std::map<const void*, std::string> weight_copies_;    // their layers, by memory: made since start()
  std::map<const void*, Source> sources_;               // by a copy's memory
  Exact exact_;                                         // the last GEMM's gradient, of unrounded operands
  const void* measured_ = nullptr;                      // where that GEMM wrote, if it was measured
  Measurements found_;
};

}  // namespace mxtape
