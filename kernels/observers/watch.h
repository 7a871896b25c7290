#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/observers/seen_tensors.h"

namespace mxtape {

/// What the numbers of a tensor amount to. Those that are not finite are counted, and in no other figure.
struct NumbersSeen {
  double min = 0, max = 0, rms = 0;  ///< 0 if no number is finite
  double zeros = 0;                  ///< share of all numbers
  std::int64_t nans = 0, infinities = 0, first_nonfinite = -1;
  std::int64_t not_finite() const { return nans + infinities; }
};
NumbersSeen numbers_seen(std::span<const float>);

/// Keeps, for one training step, what every call of a kernel has written, and what linear layers multiply.
/// Downloads all of it: a step takes several times as long.
class Watch final : public Observer {
 public:
  struct Found {
    std::int64_t micro = 0;  ///< micro-batch; as many as there are: the update
    std::string layer;       ///< "blocks.0.attn.qkv"; of AdamW's call its parameter; or empty
    bool backward = false;
    std::string kernel, name;  ///< "gemm", "fprop.y": seen_tensors.h
    Shape shape;
    DType dtype = DType::f32;
    NumbersSeen numbers;
  };
  /// Watches from the next forward pass on, to the end of its step's update, which takes these parameters one
  /// after the other.
  void start(std::vector<std::string> parameters = {});
  /// In the order of the computation.
  const std::vector<Found>& found() const { return found_; }

  void before(const Seen&) override;
  void after(const Seen&) override;

 private:
  void enter(const Seen&);
  void look_at(const Seen&, std::vector<SeenTensor>, bool again);

  enum class State : std::uint8_t { off, waiting, on, update } state_ = State::off;
  std::vector<Found> found_;
  std::vector<std::string> parameters_;
  std::size_t updated_ = 0;          // of them
  std::set<std::string> looked_at_;  // in this layer's pass: what it rounds before it multiplies
  std::int64_t micro_ = 0;
  std::string layer_;
  bool backward_ = false;
};

}  // namespace mxtape
