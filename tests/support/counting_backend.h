#pragma once
#include <map>

#include "kernels/forwarding_backend.h"

namespace mxtape::test {

/// Counts quantizations by their source tensor, and dropouts.
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
    counts_[x.raw()].calls += 1;
    counts_[x.raw()].copies += int(copies.size());
    inner_.quantize(copies, x, draws, column_sums, sums);
  }

  void dropout(const Tensor& y, const Tensor& x, float p, const DrawKey& key) override {
    ++dropouts;
    inner_.dropout(y, x, p, key);
  }
  int dropouts = 0;

 private:
  std::map<const void*, Count> counts_;
};

}  // namespace mxtape::test
