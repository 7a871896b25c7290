#include "tests/conformance/outcome.h"

#include <cmath>

#include "core/error.h"

namespace mxtape::conformance {

Outcome run_case(const Case& c, Backend& backend) {
  const std::string& kind = c.text("kind");
  if (kind == "block_quant") return run_block_quant(c, backend);
  if (kind == "elem_cast") return run_elem_cast(c, backend);
  if (kind == "decode_table") return run_decode_table(c, backend);
  if (kind == "deepml_mxfp4") return run_deepml(c, backend);
  if (kind == "linear" || kind == "linear_ste" || kind == "linear_3gemm") return run_linear(c, backend);
  if (kind == "bmm" || kind == "matmul") return run_products(c, backend);
  fail(ExitCode::data, "conformance: case {} is of unknown kind '{}'", c.name, kind);
}

ElementFormat element_named(const std::string& name) {
  if (name == "int4_paper") {
    ElementFormat f = int_format(4, 3);
    f.full_range = true;
    return f;
  }
  const bool prefixed = name.starts_with("fp") && name.find('_') != std::string::npos;
  const auto f = parse_element(prefixed ? name.substr(name.find('_') + 1) : name);
  require(f.has_value(), ExitCode::data, "conformance: no element format '{}'", name);
  return *f;
}

Rounding rounding_named(const std::string& name) {
  if (name == "even") return Rounding::even;
  if (name == "nearest") return Rounding::away;
  if (name == "floor") return Rounding::zero;
  if (name == "stochastic" || name == "dither") return Rounding::stochastic;
  fail(ExitCode::data, "conformance: unknown rounding '{}'", name);
}

ScaleRule rule_named(const std::string& name) {
  try {
    return parse_quantizer("mxfp8 rule=" + name).rule;
  } catch (const Error& e) {
    fail(ExitCode::data, "conformance: unknown scale_mode '{}': {}", name,
         e.what());  // the file is wrong, not the user
  }
}

bool same_value(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b;
}

std::string first_difference(const std::string& what, std::span<const float> got,
                             std::span<const float> want) {
  if (got.size() != want.size())
    return fmt::format("{} has {} values, want {}", what, got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!same_value(got[i], want[i]))
      return fmt::format("{}[{}] = {:a}, want {:a}", what, i, got[i], want[i]);
  return {};
}

}  // namespace mxtape::conformance
