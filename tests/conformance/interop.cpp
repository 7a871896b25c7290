#include "tests/conformance/interop.h"

#include <algorithm>

#include "core/error.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

/// What a set may hold, and what reads it.
struct Suite {
  std::string_view name;
  std::string_view file;  // in the set's folder: the suite is there if this is
  std::vector<InteropCase> (*cases)(const fs::path& set, const std::string& device);
};
constexpr Suite suites[] = {{"models", "models", model_cases},
                            {"variants", "models", variant_cases},
                            {"finetune", "finetune.safetensors", finetune_cases},
                            {"safetensors", "safetensors/expected.json", safetensors_cases},
                            {"configs", "configs/cases.json", config_cases},
                            {"llmc", "llmc/reference.safetensors", llmc_cases},
                            {"rope", "rope.safetensors", rope_cases},
                            {"sampling", "sampling.json", sampling_cases},
                            {"strided", "strided.safetensors", strided_cases},
                            {"tokenizers", "tokenizers/strings.json", tokenizer_cases}};

}  // namespace

bool is_interop_set(const fs::path& folder) {
  if (fs::exists(folder / "manifest.json")) return false;
  return std::any_of(std::begin(suites), std::end(suites),
                     [&](const Suite& suite) { return fs::exists(folder / suite.file); });
}

std::vector<InteropCase> interop_cases(const fs::path& folder, const std::string& device) {
  std::vector<InteropCase> all;
  for (const Suite& suite : suites) {
    if (!fs::exists(folder / suite.file)) continue;
    for (InteropCase& c : suite.cases(folder, device)) {
      c.run = [run = std::move(c.run)] {
        try {
          return run();
        } catch (const Error& e) {  // the other cases say something all the same
          return failed(e.what());
        }
      };
      all.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace mxtape::conformance
