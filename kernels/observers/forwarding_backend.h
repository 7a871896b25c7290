#pragma once
#include "kernels/backend.h"

namespace mxtape {

/// Hands everything to another backend: the base of those that stand around one. They override dispatch().
class ForwardingBackend : public Backend {
 public:
  /// `inner` must live as long as this.
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}
  std::string description() const override { return inner_.description(); }
  std::vector<std::string> choices() const override { return inner_.choices(); }
  void dispatch(AnyCall call) override { inner_.dispatch(call); }
  void enter(std::string_view layer, bool backward) override { inner_.enter(layer, backward); }
  void wait() override { inner_.wait(); }
  GemmKernels gemm_kernels() const override { return inner_.gemm_kernels(); }
  bool narrows() const override { return inner_.narrows(); }
  GemmPath last_gemm() const override { return inner_.last_gemm(); }
  Tensor empty(Shape shape, DType dtype = DType::f32) override { return inner_.empty(shape, dtype); }
  void upload(const Tensor& y, const void* host) override { inner_.upload(y, host); }
  void download(void* host, const Tensor& x) override { inner_.download(host, x); }
  std::int64_t used_bytes() const override { return inner_.used_bytes(); }
  std::int64_t peak_bytes() const override { return inner_.peak_bytes(); }
  std::int64_t capacity_bytes(int sharing) const override { return inner_.capacity_bytes(sharing); }
  void trim() override { inner_.trim(); }
  std::int64_t first_nonfinite(const Tensor& x) override { return inner_.first_nonfinite(x); }
  void set_clocks(std::uint32_t pass, std::uint32_t update) override { inner_.set_clocks(pass, update); }
  /// Calls that are watched must be made each time: nothing is recorded.
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    return work();
  }
  void forget(const std::string& name) override { inner_.forget(name); }
  const Backend& inner() const { return inner_; }

 protected:
  Backend& inner_;
};

}  // namespace mxtape
