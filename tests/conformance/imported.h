#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "data/safetensors/safetensors_file.h"
#include "interop/import.h"
#include "program/models/trained_model.h"
#include "tests/conformance/interop.h"

namespace mxtape::conformance {

/// A folder below the system's temporary one, gone at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Imports a folder or a model.bin and loads what came of it.
TrainedModel imported_model(const std::filesystem::path& source, const std::string& device);

/// Logits that a set expects of a model.
struct ExpectedLogits {
  std::vector<std::int32_t> inputs{}, targets{};  ///< [B, T]; targets are empty where the set has none
  std::int64_t batch = 0, time = 0;
  std::vector<double> logits{};  ///< [B, T, V]
  double largest = 0;
};
/// From `tokens` [B, T] or [B, T + 1] and the tensor `key` [B, T, V].
ExpectedLogits expected_logits(const SafetensorsFile&, const std::string& key);

/// Largest |d| that correct f32 arithmetic may have: 1e-5 of the largest logit; beyond 256 tokens RoPE's
/// angles are rounded by more, 2 u T of it, u = 2^-24.
double logit_tolerance(double largest, std::int64_t time);

/// f32 logits [B, T, V] of an evaluation pass.
std::vector<float> logits_of(TrainedModel&, const ExpectedLogits&);
/// Passed, or the largest difference and where it is.
Outcome compare_logits(TrainedModel&, const ExpectedLogits&);

}  // namespace mxtape::conformance
