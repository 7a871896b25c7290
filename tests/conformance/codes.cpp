#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "formats/codec/codec.h"
#include "kernels/mx_transfer.h"
#include "tests/conformance/outcome.h"

namespace mxtape::conformance {
namespace {

/// The codes that the backend packs x into. A NaN without a code is minus zero in them.
std::vector<std::uint32_t> codes_of(Backend& backend, const Quantizer& q, std::span<const float> x) {
  const auto count = std::int64_t(x.size());
  const Tensor source = backend.empty({1, count});
  backend.upload(source, x.data());
  const Rounded packed = with_room(backend, wanted(q, Axis::row, source.shape(), Layout::stored));
  backend.run(call::Quantize{{&packed, 1}, source});
  std::vector<std::uint8_t> bytes(std::size_t(packed.elements.count()));
  backend.download(bytes.data(), packed.elements);
  return unpack_bits(bytes, q.element.bits(), count);
}

/// Codes of single numbers without a scale.
std::vector<std::uint32_t> cast(const Case& c, std::span<const float> x, Backend& backend) {
  std::vector<std::uint32_t> codes;
  if (c.text("elem") == "e8m0") {
    const bool up = c.text("rounding") == "up";
    for (const float v : x) codes.push_back(up ? cast_e8m0_up(v) : cast_e8m0_nearest(v));
    return codes;
  }
  Quantizer q = plain_cast(element_named(c.text("elem")));
  q.rounding = rounding_named(c.text("rounding"));
  if (c.text("peer") == "torchao") q.element.tie = TieRule::code;  // its generic cast rounds codes
  return codes_of(backend, q, x);
}

/// The numbers that codes stand for; the backend unpacks those of elements.
std::vector<float> values_of(Backend& backend, const std::string& element,
                             const std::vector<std::uint32_t>& codes) {
  std::vector<float> values;
  if (element == "e8m0") {
    for (const std::uint32_t code : codes) values.push_back(decode_exponent(std::uint8_t(code)));
    return values;
  }
  const Quantizer q = plain_cast(element_named(element));
  values.resize(codes.size());
  unpack(backend, values.data(),
         {q, Axis::row, 1, std::int64_t(codes.size()), pack_bits(codes, q.element.bits()), {}, {}});
  return values;
}

/// Rounded to `decimals` for the interface of the exercise; one more unit of 1e-12 for its own f64 rounding.
bool close_to_printed(double value, double printed, int decimals) {
  const double half = 0.5 * std::pow(10.0, -decimals);
  return std::fabs(value - printed) <= half + 1e-12 * std::max(1.0, std::fabs(value));
}

}  // namespace

Outcome run_elem_cast(const Case& c, Backend& backend) {
  const auto x = c.floats("x");
  const auto codes = c.integers("codes", x.size());
  const auto got = cast(c, x, backend);
  const std::string& element = c.text("elem");
  const std::uint32_t magnitude = element == "e8m0" ? 0xff : (1u << (element_named(element).bits() - 1)) - 1;
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (got[i] != std::uint32_t(codes[i]) && ((got[i] | std::uint32_t(codes[i])) & magnitude) != 0)
      return failed(fmt::format("cast({:a}) = {:#x}, want {:#x}", x[i], got[i], codes[i]));
  if (!c.has("dq")) return passed();
  const auto text = first_difference("dq", values_of(backend, element, got), c.floats("dq", x.size()));
  return text.empty() ? passed() : failed(text);
}

Outcome run_decode_table(const Case& c, Backend& backend) {
  const std::string& element = c.text("elem");
  const auto stored = c.integers("codes");
  const std::vector<std::uint32_t> codes(stored.begin(), stored.end());
  const auto values = values_of(backend, element, codes);
  if (auto text = first_difference("dq", values, c.floats("dq", codes.size())); !text.empty())
    return failed(text);
  if (element == "e8m0") return passed();
  // And back: every code that is not a second NaN.
  Quantizer q = plain_cast(element_named(element));
  q.element.full_range = q.element.is_integer();
  const auto back = codes_of(backend, q, values);
  for (std::size_t i = 0; i < codes.size(); ++i)
    if (!std::isnan(values[i]) && back[i] != codes[i])
      return failed(
          fmt::format("the code of {:a}, the value of {:#x}, is {:#x}", values[i], codes[i], back[i]));
  return passed();
}

Outcome run_deepml(const Case& c, Backend& backend) {
  const auto x = c.floats("x");
  const auto n = std::int64_t(x.size());
  Quantizer q = mx(element_named(c.text("elem")), int(c.number("block")), ScaleRule::rfloor);
  q.rounding = Rounding::down;
  const MxTensor packed = pack(backend, x.data(), 1, n, Axis::row, q, {});
  std::vector<float> values(x.size());
  unpack(backend, values.data(), packed);
  if (auto text = first_difference("dq", values, c.floats("dq", x.size())); !text.empty())
    return failed(text);

  const auto codes = unpack_bits(packed.codes, q.element.bits(), n);
  const auto wanted = c.integers("codes", x.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (codes[i] != std::uint32_t(wanted[i]) && ((codes[i] | std::uint32_t(wanted[i])) & 7u) != 0)
      return failed(fmt::format("code[{}] = {:#x}, want {:#x}", i, codes[i], wanted[i]));
  const auto exponents = c.integers("scale_exp", packed.scales.size());
  const auto printed_scales = c.doubles("api_block_scales", packed.scales.size());
  const auto printed = c.doubles("api_dequantized", x.size());
  for (std::size_t b = 0; b < exponents.size(); ++b) {
    bool zero = true;
    for (std::size_t i = b * std::size_t(q.block.along);
         i < std::min(x.size(), (b + 1) * std::size_t(q.block.along)); ++i)
      zero = zero && x[i] == 0;
    if (zero) continue;  // the exercise gives such a block scale 1
    const float scale = decode_exponent(packed.scales[b]);
    if (std::ilogb(scale) != exponents[b] || !close_to_printed(scale, printed_scales[b], 8))
      return failed(fmt::format("scale[{}] = {}, want 2^{}", b, scale, exponents[b]));
  }
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    squares += (double(values[i]) - x[i]) * (double(values[i]) - x[i]);
    if (!close_to_printed(values[i], printed[i], 6))
      return failed(fmt::format("dequantized[{}] = {}, want {}", i, values[i], printed[i]));
  }
  const double mse = squares / double(x.size());
  if (!close_to_printed(mse, c.number("api_mse"), 8))
    return failed(fmt::format("mse = {}, want {}", mse, c.number("api_mse")));
  if (32.0 / q.element.bits() != c.number("api_compression_ratio"))
    return failed(
        fmt::format("compression {}, want {}", 32.0 / q.element.bits(), c.number("api_compression_ratio")));
  return passed();
}

}  // namespace mxtape::conformance
