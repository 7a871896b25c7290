#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "program/show/report.h"
#include "train/post_training/diffuse_model.h"

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

}  // namespace mxtape
