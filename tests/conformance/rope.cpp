#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text/short_lines.h"
#include "data/safetensors/safetensors_file.h"
#include "kernels/calls_rows.h"
#include "kernels/choose/make_backend.h"
#include "nn/config.h"
#include "tests/conformance/interop.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;

/// A case of the set, by the JSON that its metadata has under the case's name.
struct Rope {
  std::string name, unknown{};  ///< unknown: a kind of scaling that mxtape does not compute
  RopeConfig config{};
  std::int64_t head_width = 0;
};

Rope parsed(const fs::path& path, const std::string& name, const std::string& text) {
  Rope rope{.name = name};
  try {
    const auto json = nlohmann::json::parse(text);
    const std::string type = json.value("rope_type", "default");
    rope.config.theta = json.at("rope_theta");
    rope.head_width = json.at("head_dim");
    if (type == "linear" || type == "llama3") rope.config.factor = json.at("factor");
    if (type == "linear") rope.config.scaling = RopeScaling::linear;
    if (type == "llama3") {
      rope.config.scaling = RopeScaling::llama3;
      rope.config.low = json.at("low_freq_factor"), rope.config.high = json.at("high_freq_factor");
      rope.config.original = json.at("original_max_position_embeddings");
    }
    if (type != "default" && rope.config.scaling == RopeScaling::none) rope.unknown = type;
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::data, "{}: metadata '{}': {}", path.string(), name, json_reason(e));
  }
  return rope;
}

std::vector<float> numbers(const SafetensorsFile& file, const std::string& name, std::size_t count) {
  const TensorInfo& tensor = file.at(name);
  std::size_t all = 1;
  for (const auto extent : tensor.dims) all *= std::size_t(extent);
  require(all == count, ExitCode::data, "{}: '{}' is {}; want {} numbers", file.path().string(), name,
          tensor.text(), count);
  std::vector<float> values(count);
  file.read_f32(tensor, 0, values);
  return values;
}

/// How far a frequency may be from another program's, as a part of it. Powers in f32 are an ulp off in either
/// program, and so are their reciprocals. llama3's share s = (O / l - low) / (high - low) multiplies that:
/// the frequency is at least w / factor and moves by (w - w / factor) ds.
double frequency_tolerance(const RopeConfig& c) {
  constexpr double two_ulps = 0x1p-22;
  if (c.scaling != RopeScaling::llama3) return two_ulps;
  return two_ulps * (1 + (double(c.factor) - 1) * double(c.high) / double(c.high - c.low));
}

Outcome compare_frequencies(const SafetensorsFile& file, const Rope& rope) {
  const auto got = rope_frequencies(rope.config, rope.head_width);
  const auto want = numbers(file, rope.name + ".inv_freq", got.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(double(got[i]) - double(want[i])) <= frequency_tolerance(rope.config) * double(want[i])))
      return failed(fmt::format("frequency {} is {:a}, want {:a}", i, got[i], want[i]));
  return passed();
}

/// Cosines and sines of the same angle are within an ulp, 2^-23 below 1; where the frequency is another
/// number, so is the angle: by that part of it, and a rounding.
Outcome compare_angles(const SafetensorsFile& file, const Rope& rope) {
  const auto positions = file.read_i32(file.at("positions"));
  const auto got_w = rope_frequencies(rope.config, rope.head_width);
  const std::size_t half = got_w.size();
  const auto want_w = numbers(file, rope.name + ".inv_freq", half);
  const auto cos = numbers(file, rope.name + ".cos", positions.size() * half),
             sin = numbers(file, rope.name + ".sin", positions.size() * half);
  constexpr double ulp = 0x1p-23;
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const RopeAngles got = rope_angles(got_w, positions[p], 1);
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = std::fabs(double(positions[p]) * double(want_w[i]));
      const bool same = got_w[i] == want_w[i];
      const double tolerance = ulp + (same ? 0 : angle * (frequency_tolerance(rope.config) + ulp));
      const auto off = [&](float a, float b) { return !(std::fabs(double(a) - double(b)) <= tolerance); };
      const std::size_t at = p * half + i;
      if (off(got.cos[i], cos[at]) || off(got.sin[i], sin[at]))
        return failed(fmt::format("position {}, pair {}: cos {:a}, sin {:a}; want {:a}, {:a}", positions[p],
                                  i, got.cos[i], got.sin[i], cos[at], sin[at]));
    }
  }
  return passed();
}

/// Heads [H, T, D] as rows [T, (H + 2) D] of qkv with one head of keys and one of values, which are 0.
std::vector<float> as_rows(const std::vector<float>& heads, std::int64_t H, std::int64_t T, std::int64_t D) {
  std::vector<float> rows(std::size_t(T * (H + 2) * D));
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t t = 0; t < T; ++t)
      std::copy_n(heads.begin() + (h * T + t) * D, D, rows.begin() + (t * (H + 2) + h) * D);
  return rows;
}

/// The device's turn of queries and of their gradients, by the set's cosines and sines. Both programs round
/// two products and a sum: each is within gamma(2) (|x_i| + |x_j|), j being i's pair.
Outcome compare_turns(const SafetensorsFile& file, const Rope& rope, const std::string& device) {
  const TensorInfo& q = file.at(rope.name + ".q");
  require(q.dims.size() == 4 && q.dims[0] == 1 && std::int64_t(q.dims[3]) == rope.head_width, ExitCode::data,
          "{}: '{}' is {}; want [1, H, positions, {}]", file.path().string(), q.name, q.text(),
          rope.head_width);
  const auto H = std::int64_t(q.dims[1]), T = std::int64_t(q.dims[2]), D = rope.head_width;
  const auto backend = make_backend(device);
  const auto tensor = [&](Shape shape, const std::vector<float>& values) {
    const Tensor x = backend->empty(shape);
    backend->upload(x, values.data());
    return x;
  };
  const auto table = [&](const char* of) {
    return tensor({T, D / 2}, numbers(file, rope.name + of, std::size_t(T * (D / 2))));
  };
  const Tensor cos = table(".cos"), sin = table(".sin");
  constexpr double u = 0x1p-24, gamma = 2 * u / (1 - 2 * u);
  const auto compare = [&](const char* from, const char* to, bool back) -> Outcome {
    const auto count = std::size_t(H * T * D);
    const auto in = as_rows(numbers(file, rope.name + from, count), H, T, D),
               want = as_rows(numbers(file, rope.name + to, count), H, T, D);
    const Tensor x = tensor({1, T, (H + 2) * D}, in);
    if (back)
      backend->run(call::RotaryBackward{x, x, cos, sin, H, 1});
    else
      backend->run(call::Rotary{x, x, cos, sin, H, 1});
    std::vector<float> got(in.size());
    backend->download(got.data(), x);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t width = std::size_t(D), head = i / width * width,
                        pair = head + (i - head + width / 2) % width;
      const double bound = 2 * gamma * (std::fabs(double(in[i])) + std::fabs(double(in[pair])));
      if (!(std::fabs(double(got[i]) - double(want[i])) <= bound))
        return failed(fmt::format("number {} of '{}' is {:a}, want {:a}", i, to + 1, got[i], want[i]));
    }
    return passed();
  };
  const Outcome forth = compare(".q", ".rotated", false);
  return forth.status == Outcome::Status::passed ? compare(".dy", ".dq", true) : forth;
}

}  // namespace

std::vector<InteropCase> rope_cases(const fs::path& set, const std::string& device) {
  const fs::path path = set / "rope.safetensors";
  std::vector<InteropCase> cases;
  const SafetensorsFile listed(path);
  for (const auto& [name, text] : listed.metadata()) {
    if (!listed.find(name + ".inv_freq")) continue;  // a remark on the whole
    const Rope rope = parsed(path, name, text);
    const auto add = [&](const char* what, auto compare) {
      cases.push_back({"rope/" + name + "/" + what, [=] {
                         if (!rope.unknown.empty())
                           return not_applicable("mxtape does not compute rope_type " + rope.unknown);
                         return compare(SafetensorsFile(path), rope);
                       }});
    };
    add("frequencies", compare_frequencies);
    add("angles", compare_angles);
    add("turns",
        [device](const SafetensorsFile& file, const Rope& r) { return compare_turns(file, r, device); });
  }
  return cases;
}

}  // namespace mxtape::conformance
