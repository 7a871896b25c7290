#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "kernels/observers/observer.h"

namespace mxtape {

/// Times every call and counts what it moves and computes. Waits for the device after each, so that a call's
/// time is its own.
class Timing final : public Observer {
 public:
  /// Which calls are counted together.
  struct Place {
    std::string layer;  ///< "blocks.0.attn.qkv"; empty outside of layers: the update, sums of gradients
    bool backward = false;
    std::string kernel;  ///< "gemm"
    std::string slot;    ///< "fprop", where the call names one
    auto operator<=>(const Place&) const = default;
  };
  struct Work {
    std::int64_t calls = 0;
    double seconds = 0;
    double bytes = 0;  ///< of the call's tensors: once each, twice what is read and written
    double bf16_flops = 0, f32_flops = 0;  ///< of GEMMs, 2 M N K; of attention's, half the square of T
    double integer_ops = 0;                ///< of GEMMs of codes, 2 M N K
    Work& operator+=(const Work&);
  };
  const std::map<Place, Work>& work() const { return work_; }
  void clear() { work_.clear(); }

  void before(const Seen&) override;
  void after(const Seen&) override;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::map<Place, Work> work_;
};

}  // namespace mxtape
