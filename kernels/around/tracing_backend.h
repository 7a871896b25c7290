#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/around/forwarding_backend.h"
#include "kernels/attention/attention.h"

namespace mxtape {

/// Keeps what is multiplied in each layer: which rounding made each operand, and how the device multiplied
/// them. An operand is known by its memory from the call that rounded into it to the next call that writes
/// there.
class TracingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

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
  struct Trace {
    std::map<std::string, std::map<std::string, std::vector<Product>>>
        gemms;  ///< by layer and slot, no doubles
    std::map<std::string, std::vector<AttentionQuant>>
        attention;  ///< by layer: what its kernels were asked for
    std::map<std::string, std::map<std::string, std::vector<Quantizer>>>
        roundings;  ///< by layer and slot: of what is rounded for no GEMM
    std::map<std::string, std::vector<WayBack>> ways_back;  ///< by layer: of gradients; no identities
  };

  /// Begins a new trace.
  void start();
  /// Ends it. Operands that were rounded before start() count as unrounded: start before the first step of a
  /// precision, which makes all copies of weights anew.
  Trace stop();

  void dispatch(AnyCall) override;
  void enter(std::string_view layer, bool backward) override;
  /// The work is the inner backend's to plan and record; its calls still pass here when they are made.
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override {
    return inner_.repeat(name, work);
  }

 private:
  void note(const auto& call);
  void note_product(const call::Gemm&);
  void note_roundings(std::span<const Rounded>);
  /// `to` holds the rounded numbers of `from` in another form.
  void follow(const Tensor& from, const Tensor& to);
  Side side_of(const Tensor&) const;

  bool on_ = false;
  std::string layer_;
  std::map<const void*, Side> made_;  // by an operand's memory
  Trace trace_;
};

}  // namespace mxtape
