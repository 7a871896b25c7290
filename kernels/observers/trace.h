#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/observers/observer.h"

namespace mxtape {

/// Keeps what is multiplied in each layer: which rounding made each operand, and how the device multiplied
/// them. An operand is known by its memory from the call that rounded into it to the next call that writes
/// there, and is compared with what it says of itself.
class Trace final : public Observer {
 public:
  struct Side {
    Quantizer quantizer{};  ///< that made it; of what nothing rounded: f32 or a cast to bf16, by its type
    Rotation rotation{};
    bool from_forward = false;  ///< rounded from the values of the forward's copy
    bool operator==(const Side&) const = default;
  };
  struct Product {
    Side a, b;
    GemmPath path{};
    bool operator==(const Product&) const = default;
  };
  struct WayBack {
    Quantizer quantizer{};  ///< of the operand whose gradient it is
    StraightThrough ste{};
    bool operator==(const WayBack&) const = default;
  };
  /// An operand that says of itself what did not happen to its memory.
  struct Mislabelled {
    std::string layer;
    Slot slot{};
    Side said, held;
    bool operator==(const Mislabelled&) const = default;
  };
  struct Found {
    std::map<std::string, std::map<std::string, std::vector<Product>>>
        gemms;  ///< by layer and slot, no doubles
    std::map<std::string, std::vector<AttentionQuant>>
        attention;  ///< by layer: what its kernels were asked for
    std::map<std::string, std::map<std::string, std::vector<Quantizer>>>
        roundings;  ///< by layer and slot: of what is rounded for no GEMM
    std::map<std::string, std::vector<WayBack>> ways_back;  ///< by layer: of gradients; no identities
    std::vector<Mislabelled> mislabelled;
  };

  /// Begins a new trace.
  void start();
  /// Ends it. Operands that were rounded before start() count as unrounded: start before the first step of a
  /// precision, which makes all copies of weights anew.
  Found stop();

  void after(const Seen&) override;
  bool wants_every_call() const override { return false; }

 private:
  void note(const auto& call, const Seen&);
  void note_product(const call::Gemm&, const Seen&);
  void note_roundings(std::span<const Rounded>, const std::string& layer);
  const Quantization* made(const Tensor& elements) const;
  Side side_of(const Tensor& elements) const;

  bool on_ = false;
  std::map<const void*, Quantization> made_;  // by an operand's memory
  Found found_;
};

}  // namespace mxtape
