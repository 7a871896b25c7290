#pragma once
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/models/cast.h"
#include "program/models/trained_model.h"
#include "program/show/report.h"
#include "train/post_training/diffuse_model.h"
#include "train/post_training/finetune.h"

namespace mxtape {

/// What is done to a trained model before it is measured in a precision: the settings of Rouhani et al. 2023,
/// arXiv:2310.10537, section 4, and error diffusion of weights alone.
enum class Setting : std::uint8_t { weights, weights_diffused, cast, diffused, finetuned };

struct NamedSetting {
  Setting setting;
  std::string_view name, meaning;
};
inline constexpr std::array<NamedSetting, 5> settings{{
    {Setting::weights, "weights", "weights cast, activations f32"},
    {Setting::weights_diffused, "weights-diffused", "weights by error diffusion, activations f32"},
    {Setting::cast, "cast", "weights and activations cast"},
    {Setting::diffused, "diffused", "weights by error diffusion, activations cast"},
    {Setting::finetuned, "finetuned", "trained on in the precision, then cast"},
}};
constexpr std::string_view name_of(Setting setting) { return settings[std::size_t(setting)].name; }
/// Throws Error(usage) with the names that there are.
Setting parse_setting(const std::string& name);
constexpr bool is_diffused(Setting s) { return s == Setting::weights_diffused || s == Setting::diffused; }
constexpr bool is_of_weights(Setting s) { return s == Setting::weights || s == Setting::weights_diffused; }

/// One cell of the table.
struct Measurement {
  std::string precision;  ///< as it was asked for: "mxfp4"
  Setting setting{};
  /// What it changes in the run's recipe, as differences() says it: a file's name says nothing of its
  /// content.
  std::vector<std::string> changed{};
  double bits = 32;                      ///< of a weight of the linear layers, scales included, in the mean
  std::optional<double> loss{};          ///< [nats per token]; none: `failure` says why
  std::string failure{};                 ///< it diverged
  std::vector<LayerDiffusion> layers{};  ///< of error diffusion
  std::string kept{};                    ///< checkpoint of the model, or empty
  double seconds = 0;
};

/// `f32`: the loss of the unquantized model, for the gap.
Value value_of(const Measurement&, double f32);
/// Throws nlohmann's exceptions for what value_of() did not write.
Measurement measurement_of(const Json&);

struct PostTrainingOptions {
  std::string run{}, device{}, data{};  ///< the last two may be empty: the recipe's
  std::vector<std::string> precisions;
  std::vector<Setting> wanted{};
  bool attention = false;
  std::int64_t windows = 0;  ///< of validation; 0: as the recipe says
  std::int64_t calibration = 32;
  std::uint64_t seed = 1;  ///< of the calibration's windows
  double damping = 0.01;
  FinetuneConfig finetune{};
  std::filesystem::path out{};  ///< folder for results and models; empty: none
  bool keep = false;
};

/// What was measured, on what.
struct PostTraining {
  PostTrainingOptions options;  ///< the learning rate filled in
  std::string checkpoint, checkpoint_hash, data, data_hash;
  std::string arithmetic;  ///< arithmetic_of() the device
  std::int64_t step = 0, windows = 0, all_windows = 0, context = 0;
  std::int64_t diffusion_bytes = 0;  ///< on the host, for the largest layer
  std::int64_t finetune_batch = 0;   ///< sequences of a step
  bool finetunes = false;            ///< something is finetuned
  std::vector<std::string> tied{};   ///< layers that error diffusion leaves to the cast
  std::optional<double> floor{};
  double f32 = 0;                           ///< loss of the unquantized model [nats per token]
  std::vector<Measurement> measurements{};  ///< by precision, then setting
};
Value value_of(const PostTraining&);

/// Measures a trained model in every precision and setting, and unrounded; says on `out` what will be
/// measured and how far it is. With options.out, every result is written there as it comes, and those that
/// are there already are not measured again. Throws Error(usage) for a packed model, a precision that cannot
/// be diffused, results of other options in that folder: all before the first measurement. A measurement that
/// diverges is one without a loss.
PostTraining run_post_training(const PostTrainingOptions&, std::FILE* out);

/// Null: there is none.
const Measurement* find_measurement(std::span<const Measurement>, const std::string& precision, Setting);

/// What is measured, on what: checkpoint, data, calibration with its seed and memory, finetuning.
std::string subject_text(const PostTraining&);
/// A line for each precision: bits, and loss with gap for each setting; what error diffusion did to the
/// layers; what diverged; what was kept.
std::string table_text(const PostTraining&);

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
  Recipe recipe_of(const std::string& precision, Setting) const;
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
