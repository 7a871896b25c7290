#pragma once
#include <map>

#include "kernels/forwarding_backend.h"

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

  void quantize(std::span<QuantizedCopy> copies, const Tensor& x, const DrawKey& draws,
                const Tensor& column_sums = {}, Write sums = Write::overwrite) override {
    count(x, copies);
    inner_.quantize(copies, x, draws, column_sums, sums);
  }
  void adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
             const Tensor& factor, const Tensor& rates, const AdamWStep& step,
             std::span<QuantizedCopy> copies, const DrawKey& draws) override {
    if (!copies.empty()) count(parameter, copies);
    inner_.adamw(parameter, m, v, gradient, factor, rates, step, copies, draws);
  }

  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override {
    ++dropouts;
    inner_.dropout(y, x, p, key);
  }
  int dropouts = 0;

 private:
  void count(const Tensor& source, std::span<const QuantizedCopy> copies) {
    counts_[source.raw()].calls += 1;
    counts_[source.raw()].copies += int(copies.size());
  }

  std::map<const void*, Count> counts_;
};

}  // namespace mxtape::test
