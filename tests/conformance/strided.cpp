#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/error.h"
#include "tests/conformance/imported.h"
#include "train/strided.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

/// "gpt2-tied.nll_bos.T20.S10".
struct Name {
  std::string model;
  bool bos = false;
  std::int64_t window = 0, stride = 0;
};

std::optional<std::int64_t> number_after(const std::string& text, const std::string& mark) {
  const auto at = text.rfind(mark);
  if (at == std::string::npos) return {};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at + mark.size(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<Name> parsed(const std::string& text) {
  const auto at = text.find(".nll");
  const auto window = number_after(text, ".T"), stride = number_after(text, ".S");
  if (at == std::string::npos || !window || !stride) return {};
  return Name{text.substr(0, at), text.substr(at).starts_with(".nll_bos."), *window, *stride};
}

/// -log p of each token: 2e-5 of the largest logit, which a softmax has not; of a random model it is some ten
/// nats, and -log p as large.
Outcome compare(const fs::path& set, const std::string& tensor, const Name& name, const std::string& device) {
  const SafetensorsFile file(set / "strided.safetensors");
  TrainedModel trained = imported_model(set / "models" / name.model, device);
  const auto tokens = file.read_i32(file.at(name.model + ".tokens"));
  const auto want = file.read_f64(file.at(tensor));
  StrideOptions options{.window = name.window, .stride = name.stride, .pass = trained.next_pass()};
  if (name.bos) options.bos = 0;
  const auto got = strided_nll(*trained.backend, *trained.model, tokens, options);
  if (got.size() != want.size())
    return failed(fmt::format("{} tokens are scored, want {}", got.size(), want.size()));
  double largest = 0;
  for (const double one : want) largest = std::max(largest, one);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= 2 * logit_tolerance(largest, name.window)))
      return failed(fmt::format("-log p of scored token {} is {:.8g}, want {:.8g}", i, got[i], want[i]));
  return passed();
}

}  // namespace

std::vector<InteropCase> strided_cases(const fs::path& set, const std::string& device) {
  const SafetensorsFile file(set / "strided.safetensors");
  std::map<std::string, Name> names;
  for (const TensorInfo& tensor : file.tensors())
    if (const auto name = parsed(tensor.name)) names.emplace(tensor.name, *name);
  std::vector<InteropCase> cases;
  for (const auto& [tensor, name] : names)
    cases.push_back({"strided/" + tensor,
                     [=, tensor = tensor, name = name] { return compare(set, tensor, name, device); }});
  return cases;
}

}  // namespace mxtape::conformance
