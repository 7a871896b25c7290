#pragma once
#include <span>
#include <string>

#include "formats/quantizer.h"
#include "tests/conformance/golden.h"

namespace mxtape {
class Backend;
}

namespace mxtape::conformance {

/// What came of a case; `detail` says the first difference, or why the case, or a part of it, does not apply.
struct Outcome {
  enum class Status { passed, failed, not_applicable } status = Status::passed;
  std::string detail{};
};
inline Outcome passed() { return {}; }
inline Outcome failed(std::string difference) { return {Outcome::Status::failed, std::move(difference)}; }
inline Outcome not_applicable(std::string reason) {
  return {Outcome::Status::not_applicable, std::move(reason)};
}

/// Runs a case of any kind through the backend's kernels; blocks also through the definition, as only that
/// can be given the draws of a stochastic case.
Outcome run_case(const Case& c, Backend& backend);

// The kinds:
Outcome run_block_quant(const Case& c, Backend& backend);
Outcome run_elem_cast(const Case& c, Backend& backend);
Outcome run_decode_table(const Case& c, Backend& backend);
Outcome run_deepml(const Case& c, Backend& backend);
Outcome run_linear(const Case& c, Backend& backend);
Outcome run_products(const Case& c, Backend& backend);  ///< bmm, matmul

/// The element that golden sets call "fp8_e4m3", "e2m2", "int4_paper".
ElementFormat element_named(const std::string& name);
/// The rounding that golden sets call even, nearest (ties away), floor (towards zero), stochastic.
Rounding rounding_named(const std::string& name);
ScaleRule rule_named(const std::string& name);

/// Equal bits, or both zero, or both NaN: how golden sets compare values.
bool same_value(float a, float b);
/// "dq[3] = 0.5, want 0.25" for the first pair that is not the same_value, else empty.
std::string first_difference(const std::string& what, std::span<const float> got,
                             std::span<const float> want);

}  // namespace mxtape::conformance
