#pragma once
#include <functional>

#include "program/models/trained_model.h"
#include "program/post_training/post_training.h"

namespace mxtape {

/// "int4-block-32-scale-e8m0" of "int4 block=32 scale=e8m0": what the files of its models begin with.
std::string folder_name(const std::string& precision);

/// A trained model, and what each setting makes of it. The checkpoint's weights are back after every
/// measurement.
class ModelsOfSettings {
 public:
  /// Loads model and data. Throws Error(data), or Error(usage) for a packed model.
  explicit ModelsOfSettings(const PostTrainingOptions&);

  /// All but the measurements.
  PostTraining subject() const;
  /// Throws Error(usage) for what could not be measured; adds to what `subject` says of error diffusion.
  void check(const std::string& precision, Setting, PostTraining& subject);
  /// Measurement::changed of such a measurement.
  std::vector<std::string> changed(const std::string& precision, Setting) const;
  /// About what a measurement takes, in forward passes of one window.
  double work(Setting) const;
  /// `progress` hears the share of it that is done. One that diverges has a failure instead of a loss.
  Measurement measure(const std::string& precision, Setting, const std::function<void(double)>& progress);

 private:
  Cast cast_of(const std::string& precision, Setting) const;
  double bits_per_weight();
  double loss(Model&, const PassKey&, const std::function<void(double)>& progress);
  void measure_diffused(Measurement&, const Recipe&, const std::function<void(double)>& progress);
  void measure_finetuned(Measurement&, const Recipe&, const std::function<void(double)>& progress);
  Recipe finetuning(const Recipe& target) const;
  /// Makes the file of a model that is kept; `write` writes its checkpoint.
  void keep(Measurement&, const Recipe&,
            const std::function<void(const std::filesystem::path&)>& write) const;
  /// The recipe under the model's own name, and a lineage with what was done.
  CheckpointHeader header_of(const Measurement&, Recipe) const;

  const PostTrainingOptions& options_;
  TrainedModel trained_;
  MeasuredData data_;
  std::string hash_;
  Batch calibration_;
  std::int64_t all_windows_, windows_;
};

}  // namespace mxtape
