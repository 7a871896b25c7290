#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/outcome.h"

namespace mxtape::conformance {

/// One comparison with an interop set: "tokenizers/gpt2/ids[17]".
struct InteropCase {
  std::string name;
  std::function<Outcome()> run;
  std::string suite() const { return name.substr(0, name.find('/')); }
};

/// Whether the folder is a set of models and text from elsewhere: it has no manifest.json, but at least one
/// of the suites' files.
bool is_interop_set(const std::filesystem::path& folder);

/// The cases of all suites that the set has, in the order of the table. Throws Error(data) for a file of the
/// set that is missing or malformed.
std::vector<InteropCase> interop_cases(const std::filesystem::path& folder,
                                       const std::string& device = "cpu");

/// Suite `tokenizers`: ids, specials as text, decoding, long runs, files that must be refused, merges of the
/// trainer, classes of code points, texts that are not UTF-8.
std::vector<InteropCase> tokenizer_cases(const std::filesystem::path& set, const std::string& device);

/// Suites `models` and `variants`: folders below models/, imported; logits, loss, gradients, greedy texts
/// against a second implementation in double, and export and import again.
std::vector<InteropCase> model_cases(const std::filesystem::path& set, const std::string& device);
std::vector<InteropCase> variant_cases(const std::filesystem::path& set, const std::string& device);
/// Suite `finetune`: steps of AdamW.
std::vector<InteropCase> finetune_cases(const std::filesystem::path& set, const std::string& device);
/// Suites `safetensors`, `configs` and `llmc`: files and folders that must be taken or refused.
std::vector<InteropCase> safetensors_cases(const std::filesystem::path& set, const std::string& device);
std::vector<InteropCase> config_cases(const std::filesystem::path& set, const std::string& device);
std::vector<InteropCase> llmc_cases(const std::filesystem::path& set, const std::string& device);
/// Suite `rope`: frequencies, cosines and sines, queries that are turned and gradients that are turned back.
std::vector<InteropCase> rope_cases(const std::filesystem::path& set, const std::string& device);
/// Suite `sampling`: which tokens temperature, top_k, top_p and min_p leave, and how likely.
std::vector<InteropCase> sampling_cases(const std::filesystem::path& set, const std::string& device);
/// Suite `strided`: -log p of every token of a text, with windows that overlap.
std::vector<InteropCase> strided_cases(const std::filesystem::path& set, const std::string& device);

}  // namespace mxtape::conformance
