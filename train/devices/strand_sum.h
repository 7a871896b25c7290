#pragma once
#include <cstdint>

namespace mxtape {

/// Strands of a group: they are added to each other first. Part of what a step's gradient is, so never to be
/// changed.
inline constexpr std::int64_t strands_of_a_group = 8;

/// Takes strand k of `strands`, in the order 0, 1, ..., into the sum that the step's gradient is, per element
/// and in f32:
///   s_j = ((g_8j + g_8j+1) + ...) + g_8j+7, the first one copied, so that -0 stays -0
///   G   = ((s_0 + s_1) + s_2) + ..., which for one group is s_0
/// as calls of copy(to, from) and add(to, from). `sum` holds s_j; `total` holds G. If there is one group
/// `total` is not used, and `sum` holds the gradient in the end.
template <class T, class From, class Copy, class Add>
void take_strand(std::int64_t k, std::int64_t strands, const T& sum, const T& total, const From& strand,
                 const Copy& copy, const Add& add) {
  if (k % strands_of_a_group == 0)
    copy(sum, strand);
  else
    add(sum, strand);
  if (strands <= strands_of_a_group) return;
  const bool last_of_group = k % strands_of_a_group == strands_of_a_group - 1 || k == strands - 1;
  if (!last_of_group) return;
  if (k < strands_of_a_group)
    copy(total, sum);
  else
    add(total, sum);
}

}  // namespace mxtape
