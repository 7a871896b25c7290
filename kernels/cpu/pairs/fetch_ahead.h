#pragma once
// For *_pairs.cpp only: rows of the next head come from memory while this one is computed. A head's rows are
// short and lie far apart, so no prefetcher of the processor follows them.
#include <iterator>

#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu::MXT_TIER {

class FetchAhead {
 public:
  /// All rows in half of so many steps: a causal head has no more.
  FetchAhead(const PairHead& head, std::int64_t steps) : parts_(head.next) {
    std::int64_t rows = 0;
    for (const PairSource& part : parts_) rows += part.rows;
    rows_a_step_ = 2 * rows / steps + 1;
  }

  [[gnu::always_inline]] void step() {
    for (std::int64_t n = 0; n < rows_a_step_ && part_ < std::ssize(parts_); ++n) {
      const PairSource& m = parts_[part_];
      if (row_ == m.rows) {
        ++part_, row_ = 0;
        continue;
      }
      const char* const row = static_cast<const char*>(m.x) + row_++ * m.stride * m.size();
      for (std::int64_t byte = 0; byte < m.width * m.size(); byte += 64) __builtin_prefetch(row + byte, 0, 2);
    }
  }

 private:
  const std::array<PairSource, PairHead::parts>& parts_;
  std::int64_t rows_a_step_, row_ = 0;
  int part_ = 0;
};

}  // namespace mxtape::cpu::MXT_TIER
