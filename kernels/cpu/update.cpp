#include <cmath>

#include "core/parallel.h"
#include "kernels/cpu/cpu_backend.h"

namespace mxtape {

void CpuBackend::clip_factor(const Tensor& norm, const Tensor& factor, std::span<const Tensor> gradients,
                             float max_norm) {
  double squares = 0;
  for (const Tensor& g : gradients)
    for (const float v : g.host()) squares += double(v) * v;
  const float total = float(std::sqrt(squares));
  *norm.data() = total;
  *factor.data() = max_norm == 0 || total <= max_norm ? 1 : max_norm / total;
}

void CpuBackend::adamw(const Tensor& parameter, const Tensor& m, const Tensor& v, const Tensor& gradient,
                       const Tensor& factor, const AdamWStep& s) {
  const float clip = *factor.data();
  parallel_for(parameter.count(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float g = gradient.data()[i] * clip;
      float& mi = m.data()[i];
      float& vi = v.data()[i];
      float& p = parameter.data()[i];
      mi = s.beta1 * mi + (1 - s.beta1) * g;
      vi = s.beta2 * vi + (1 - s.beta2) * g * g;
      p -= s.learning_rate *
           ((mi / s.correction1) / (std::sqrt(vi / s.correction2) + s.eps) + s.weight_decay * p);
    }
  });
}

}  // namespace mxtape
