#pragma once
#include <map>

#include "kernels/calls_rows.h"
#include "kernels/observers/forwarding_backend.h"

namespace mxtape::test {

/// Counts quantizations by their source tensor, those of an update among them, and dropouts.
class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  struct Count {
    int calls = 0, copies = 0;
    bool operator==(const Count&) const = default;
  };
  Count of(const Tensor& source) const {
    const auto found = counts_.find(source.raw());
    return found == counts_.end() ? Count{} : found->second;
  }

  void dispatch(AnyCall any) override {
    visit([&](const auto* call) { count(*call); }, any);
    inner_.dispatch(any);
  }
  int dropouts = 0;

 private:
  void count(const call::Quantize& call) { count(call.x, call.to); }
  void count(const call::AdamW& call) {
    if (!call.copies.empty()) count(call.parameter, call.copies);
  }
  void count(const call::Dropout&) { ++dropouts; }
  void count(const auto&) {}
  void count(const Tensor& source, std::span<const Rounded> copies) {
    counts_[source.raw()].calls += 1;
    counts_[source.raw()].copies += int(copies.size());
  }

  std::map<const void*, Count> counts_;
};

}  // namespace mxtape::test
