#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/around/forwarding_backend.h"
#include "kernels/around/seen_tensors.h"

namespace mxtape {

/// What the numbers of a tensor amount to. Those that are not finite are counted, and in no other figure.
struct NumbersSeen {
  double min = 0, max = 0, rms = 0;  ///< 0 if no number is finite
  double zeros = 0;                  ///< share of all numbers
  std::int64_t nans = 0, infinities = 0, first_nonfinite = -1;
};

/// Keeps, for one training step, what every call of a kernel has written, and what linear layers multiply.
/// Downloads all of it: a step takes several times as long. Results are those of the inner backend; nothing
/// is recorded.
class WatchingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  struct Seen {
    std::int64_t micro = 0;  ///< micro-batch; as many as there are: the update
    std::string layer;       ///< "blocks.0.attn.qkv"; of AdamW's call its parameter; or empty
    bool backward = false;
    std::string kernel, name;  ///< "gemm", "fprop.y": seen_tensors.h
    Shape shape;
    DType dtype = DType::f32;
    NumbersSeen numbers;
  };
  /// Watches from the next forward pass on, to the end of its step's update.
  void start();
  /// What a parameter is called, for AdamW's calls.
  void name(const Tensor& parameter, std::string name) { parameters_[parameter.raw()] = std::move(name); }
  /// In the order of the computation.
  const std::vector<Seen>& seen() const { return seen_; }

  void dispatch(AnyCall) override;
  void enter(std::string_view layer, bool backward) override;

 private:
  enum class Of : std::uint8_t { operands, results };
  void look_at(const std::string& kernel, std::vector<SeenTensor>, Of);

  enum class State : std::uint8_t { off, waiting, on, update } state_ = State::off;
  std::vector<Seen> seen_;
  std::map<const void*, std::string> parameters_;
  std::set<std::pair<std::string, const void*>>
      looked_at_;  // of this layer's pass: copies before their product
  std::int64_t micro_ = 0;
  std::string layer_;
  bool backward_ = false;
};

}  // namespace mxtape
