#include "program/conformance/interop.h"

#include <algorithm>

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

/// What a set may hold, and what reads it; nullptr: nothing does yet.
struct Suite {
  std::string_view name;
  std::string_view file;  // in the set's folder: the suite is there if this is
  std::vector<InteropCase> (*cases)(const fs::path&);
};
constexpr Suite suites[] = {{"models", "models", nullptr},
                            {"variants", "models", nullptr},
                            {"finetune", "finetune.safetensors", nullptr},
                            {"safetensors", "safetensors/expected.json", nullptr},
                            {"configs", "configs/cases.json", nullptr},
                            {"llmc", "llmc/reference.safetensors", nullptr},
                            {"rope", "rope.safetensors", nullptr},
                            {"sampling", "sampling.json", nullptr},
                            {"strided", "strided.safetensors", nullptr},
                            {"tokenizers", "tokenizers/strings.json", tokenizer_cases}};

}  // namespace

bool is_interop_set(const fs::path& folder) {
  if (fs::exists(folder / "manifest.json")) return false;
  return std::any_of(std::begin(suites), std::end(suites),
                     [&](const Suite& suite) { return fs::exists(folder / suite.file); });
}

std::vector<InteropCase> interop_cases(const fs::path& folder) {
  std::vector<InteropCase> all;
  for (const Suite& suite : suites) {
    if (!fs::exists(folder / suite.file)) continue;
    if (!suite.cases) {
      all.push_back({std::string(suite.name) + "/all",
                     [] { return not_applicable("mxtape does not read this suite yet"); }});
      continue;
    }
    for (InteropCase& c : suite.cases(folder)) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace mxtape::conformance
