#pragma once
#include <span>
#include <vector>

#include "autograd/parameter.h"
#include "kernels/backend.h"
#include "kernels/calls_rows.h"

namespace mxtape {

struct AdamWConfig {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float eps = 1e-8f;
  float weight_decay = 0.1f;  ///< on matrices only (Parameter::decay)
  float clip_norm = 1;        ///< of the global gradient; 0: no clipping
  std::int64_t start = 0;     ///< of a branch: the step at which the moments were zero
  bool operator==(const AdamWConfig&) const = default;
};

/// Elements of a parameter.
struct Range {
  std::int64_t first = 0, count = 0;
};

/// AdamW with decoupled decay and global-norm clipping, f32 masters and moments.
class AdamW {
 public:
  /// `own`: what of each parameter is updated here, and has moments here, where devices share the work;
  /// empty: everything. `average`: decay of matrices' moving averages, whole on each device; 0: none.
  AdamW(Backend&, std::vector<Parameter*>, const AdamWConfig&, std::vector<Range> own = {},
        float average = 0);

  /// One step in three parts, so that the second can be recorded and repeated by the device:
  /// 1. the learning rate of the step that comes, learning_rate * factor, and its bias corrections;
  void prepare(float factor);
  /// 2. clips, updates every parameter from its grad, and its copies if it has any that are not stale, and
  ///    marks the grads as used. Returns the gradient's norm [1] before clipping; if that is NaN or infinite,
  ///    no parameter was updated;
  Tensor update();
  /// 3. if the norm is finite: counts the step and raises the versions of parameters and copies; if not: lets
  ///    the copies go, which may have been drawn anew.
  void advance();
  void withdraw();
  /// The same for gradients that are not in the parameters, and of which the sums of squares are known
  /// (call::ClipFactor). Of ranges, if there are some; then no copies are renewed, as other devices have the
  /// rest of the new values.
  Tensor update(std::span<const Tensor> gradients, const Tensor& squares);
  /// What follows a new value: its moving average, and the copies that call::AdamW does not write.
  void follow_up(const Parameter&);
  /// All three. Waits for the device; returns the norm.
  float step(float factor);

  std::int64_t steps_done() const { return steps_; }
  bool keeps_averages() const { return average_ > 0; }
  /// For a checkpoint, after the values and moments were loaded: bias correction, the parameters' versions
  /// and with them the random draws go on as if n steps had just been made. Copies of old values go.
  void set_steps_done(std::int64_t n);
  /// First and second moment of parameter i, for checkpoints; of its range, which may be none.
  const Tensor& m(std::size_t i) const { return m_[i]; }
  const Tensor& v(std::size_t i) const { return v_[i]; }

 private:
  Backend& backend_;
  std::vector<Parameter*> parameters_;
  AdamWConfig config_;
  std::vector<Range> own_;
  float average_;
  std::vector<Tensor> m_, v_;
  Tensor norm_, factor_, rates_;
  std::int64_t steps_ = 0;
};

}  // namespace mxtape
