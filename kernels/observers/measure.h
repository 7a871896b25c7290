#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/statistics.h"
#include "kernels/observers/observer.h"

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
  std::vector<Operand> operands;
  std::vector<Gradient> gradients;
  std::vector<LeftOut> left_out;
};

/// Measures the operands of linear layers in the training step between start() and stop(): of each a window
/// of about `sample` numbers, by the definition of formats/, and of each gradient 16 x 32 numbers in double.
/// Of several micro-batches the first is measured. Costs nothing but a branch while it is off.
class Measure final : public Observer {
 public:
  struct Options {
    std::vector<Quantizer> others{};  ///< tried on every operand besides its own
    std::int64_t sample = 1 << 14;    ///< numbers of an operand
    /// Gets every operand whole, by layer and slot, as it was before rounding.
    std::function<void(const std::string& layer, const std::string& slot, const std::vector<float>& x,
                       std::int64_t rows, std::int64_t cols)>
        look{};
    /// Which slots of which layers, operands and gradients; empty: all.
    std::function<bool(const std::string& layer, const std::string& slot)> wants{};
    bool unrounded = true;  ///< operands that nothing rounds, too
  };
  struct Weight {
    std::string layer;
    Tensor value;
  };
  explicit Measure(Options options) : options_(std::move(options)) {}

  /// `weights`: of linear layers, by Site::layer. Copies of them are made outside of layers. They are held
  /// until stop().
  void start(std::map<std::uint32_t, Weight> weights);
  /// After start(): a copy of a weight that was made before it, from x.
  void measure_copy(Backend&, const Rounded& copy, const Tensor& x);
  Measurements stop();

  void after(const Seen&) override;
  /// A step that is measured is not recorded, and none that is recorded is repeated in its place.
  bool wants_every_call() const override { return on_; }

 private:
  template <class T>
  struct MatrixOf {
    std::vector<T> x{};
    std::int64_t rows = 0, cols = 0;
    T at(std::int64_t r, std::int64_t c) const { return x[std::size_t(r * cols + c)]; }
    /// Its first rows and columns, so many at most.
    MatrixOf corner(std::int64_t most_rows, std::int64_t most_cols) const {
      MatrixOf part{{}, std::min(most_rows, rows), std::min(most_cols, cols)};
      for (std::int64_t r = 0; r < part.rows; ++r)
        part.x.insert(part.x.end(), x.begin() + r * cols, x.begin() + r * cols + part.cols);
      return part;
    }
  };
  using Matrix = MatrixOf<float>;
  /// What a layer's x or dy was before it was rounded: as much of it as the gradients that are computed again
  /// need, if they are.
  struct Source {
    DType dtype{};
    Matrix rows{}, columns{};
  };
  Matrix downloaded(const Tensor& x) const;
  bool unseen(const std::string& layer, const std::string& slot) const;
  void measure(const std::string& layer, const Matrix& x, std::span<const Rounded> made);
  void measure_rounded(const call::Quantize&);
  void measure_unrounded(const call::Gemm&);

  const Weight* weight_of(const Rounded&) const;
  bool is_rounded(const Rounded& operand) const;
  static void keep_corners(Source&, const Matrix& x, std::string_view tensor);
  const Matrix* side(const Rounded&, Matrix Source::*part, Source& unrounded) const;
  void measure_gradient(const call::Gemm&);
  void compare(const std::string& slot, const Tensor& got);

  Options options_;
  bool on_ = false;
  Backend* device_ = nullptr;  // of the call that is looked at, and its layer
  std::string layer_;
  std::map<std::uint32_t, Weight> weights_;
  std::set<std::pair<std::string, std::string>> seen_;                  // layers and slots that were measured
  std::map<std::pair<std::string, std::string_view>, Source> sources_;  // by layer and tensor: "x", "dy"
  MatrixOf<double> exact_;           // the last GEMM's gradient, of unrounded operands
  std::optional<std::string> last_;  // the slot of that gradient, if it was measured
  Measurements found_;
};

}  // namespace mxtape
