#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/calls.h"

namespace mxtape {

/// A device: memory, clocks, and the calls that it computes (calls.h). One instance per device; it owns the
/// device's stream, library handles and scratch memory. Shapes are checked by the callers in autograd/, once
/// for all devices, types by run(). Nothing but wait(), download(), trim() and first_nonfinite() must wait.
class Backend {
 public:
  virtual ~Backend() = default;
  /// For people: "cpu avx512_bf16, 2 threads".
  virtual std::string description() const = 0;
  /// What the device's libraries chose where they had a choice, a line each: for a run's record.
  virtual std::vector<std::string> choices() const { return {}; }

  /// Computes a call: run(call::Gelu{.y = y, .x = x}).
  template <class Call>
  void run(const Call& call) {
    check_types(&call);
    dispatch(&call);
  }
  /// For devices, and for what stands around one: a visitor over all calls, so that none can be forgotten.
  virtual void dispatch(AnyCall) = 0;

  /// For those who watch: the calls that come next are this layer's ("": no layer's), in backward or not.
  virtual void enter([[maybe_unused]] std::string_view layer, [[maybe_unused]] bool backward) {}
  /// Returns when all that was asked for is done.
  virtual void wait() {}
  /// Which GEMMs it prefers. gemm_layout() makes of this the layout of both operands.
  virtual GemmKernels gemm_kernels() const { return GemmKernels::library; }
  /// Whether it has the narrow layouts of kernels/narrow.h, and attention of bf16 queries and keys with f32.
  virtual bool narrows() const { return false; }
  /// How the last Gemm was multiplied: what was decided where it ran.
  virtual GemmPath last_gemm() const = 0;

  // --- memory
  virtual Tensor empty(Shape, DType = DType::f32) = 0;         ///< uninitialised
  virtual void upload(const Tensor& y, const void* host) = 0;  ///< `host` is read before it returns
  virtual void download(void* host, const Tensor& x) = 0;
  void fill(const Tensor& y, float value) { run(call::Fill{y, value}); }
  void copy(const Tensor& y, const Tensor& x) { run(call::Copy{y, x}); }
  virtual std::int64_t used_bytes() const = 0;
  virtual std::int64_t peak_bytes() const = 0;
  /// Most bytes that tensors can have: the device's memory less what others and its libraries hold.
  virtual std::int64_t capacity_bytes(int sharing = 1) const = 0;
  /// Gives memory kept for reuse back, before something else needs much. The next step pays for it.
  virtual void trim() {}
  /// Index of the first element that is NaN or infinite, or -1.
  virtual std::int64_t first_nonfinite(const Tensor& x) = 0;

  // --- a step that repeats
  /// The present values of the clocks that draws may follow (DrawKey::clock).
  virtual void set_clocks(std::uint32_t pass, std::uint32_t update) = 0;
  /// Runs `work`, which makes the same calls with the same shapes each time this is called with the same
  /// `name`: a device may plan its memory after the first time, and record the calls and repeat them without
  /// `work` later. So whatever differs from one time to the next is in tensors made before, and in the
  /// clocks; `work` neither uploads nor downloads; and it returns what is to be read afterwards, before the
  /// next call with this name, which may write it to the same storage.
  virtual std::vector<Tensor> repeat(const std::string& name,
                                     const std::function<std::vector<Tensor>()>& work) = 0;
  /// What was planned and recorded under this name goes: its work will not come again, or will differ.
  virtual void forget(const std::string& name) = 0;
};

}  // namespace mxtape
