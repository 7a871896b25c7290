#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text/short_lines.h"
#include "tests/conformance/interop.h"
#include "tests/conformance/tokenizer_files_cases.h"
#include "train/sampling/token_filter.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

struct FilterCase {
  std::vector<float> logits{};
  TokenFilter filter{};
  std::vector<std::int32_t> kept{};
  std::vector<double> probabilities{};
};

FilterCase parsed(const nlohmann::json& json) {
  return {.logits = json.at("logits"),
          .filter = {.temperature = json.at("temperature"),
                     .top_k = json.at("top_k"),
                     .top_p = json.at("top_p"),
                     .min_p = json.at("min_p")},
          .kept = json.at("kept"),
          .probabilities = json.at("probabilities")};
}

/// How far p = e^x / sum may be from the set's, both in double, as a part of it: a rounding of x moves e^x by
/// |x| of it, twice for (logit - largest) / T; e^x is an ulp off; each of three renormalisations adds n terms
/// and divides. That on either side.
double tolerance(const FilterCase& c, std::int32_t token) {
  constexpr double u = 0x1p-53;
  const double largest = *std::max_element(c.logits.begin(), c.logits.end()),
               x = (double(c.logits[std::size_t(token)]) - largest) / std::max(c.filter.temperature, u);
  return 2 * u * (2 * std::fabs(x) + 2 + 3 * double(c.logits.size() + 1));
}

Outcome compare(const FilterCase& c) {
  if (c.logits.empty() || c.kept.size() != c.probabilities.size())
    return failed("no logits, or another number of probabilities than of tokens");
  const Candidates got = candidates(c.logits, c.filter);
  if (got.tokens != c.kept)
    return failed(fmt::format("kept [{}], want [{}]", fmt::join(got.tokens, ", "), fmt::join(c.kept, ", ")));
  for (std::size_t i = 0; i < got.tokens.size(); ++i) {
    const double p = got.probabilities[i], want = c.probabilities[i];
    if (!(std::fabs(p - want) <= tolerance(c, got.tokens[i]) * want))
      return failed(fmt::format("token {} has probability {}, want {}", got.tokens[i], p, want));
  }
  return passed();
}

}  // namespace

std::vector<InteropCase> sampling_cases(const fs::path& set, const std::string&) {
  const fs::path path = set / "sampling.json";
  const nlohmann::json file = read_json(path);
  std::vector<InteropCase> cases;
  try {
    for (const auto& json : file.at("cases"))
      cases.push_back({fmt::format("sampling/{}[{}]", json.value("kind", "case"), cases.size()),
                       [c = parsed(json)] { return compare(c); }});
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::data, "{}: case {}: {}", path.string(), cases.size(), json_reason(e));
  }
  return cases;
}

}  // namespace mxtape::conformance
