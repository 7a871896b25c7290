#include <functional>

#include "core/error.h"
#include "tests/conformance/products.h"

namespace mxtape::conformance {
namespace {

/// The quantizer of an operand by the names of its format and rounding in microxcaling's mx_specs; a format
/// that is not there is no quantization.
Quantizer spec(const Case& c, const std::string& format, const std::string& rounding) {
  if (!c.has("mx_specs." + format)) return f32_passthrough;
  Quantizer q = mx(element_named(c.text("mx_specs." + format)), int(c.number("mx_specs.block_size")));
  q.rounding = rounding_named(c.text("mx_specs." + rounding));
  const double scale_bits = c.number_or("mx_specs.scale_bits", 0);
  if (scale_bits != 0) q.scale_bits = std::uint8_t(scale_bits);
  return q;
}

/// The six operand roundings of a linear layer (docs/numerics.md), by slot.
struct LinearQuantizers {
  Quantizer fprop_x, fprop_w, dgrad_dy, dgrad_w, wgrad_dy, wgrad_x;
  bool forward_copies_backward = false;  ///< backward multiplies by the copies that forward made (pychop)
};

LinearQuantizers quantizers_of(const Case& c) {
  LinearQuantizers s{};
  const std::string& kind = c.text("kind");
  if (kind == "linear_3gemm") {
    Quantizer q = mx(element_named(c.text("elem")), int(c.number("block")), rule_named(c.text("scale_mode")));
    q.rounding = rounding_named(c.text("rounding"));
    return {q, q, q, q, q, q};
  }
  if (kind == "linear_ste") {
    s.fprop_x = mx(element_named(c.text("a_elem")), int(c.number("block")));
    s.fprop_w = mx(element_named(c.text("w_elem")), int(c.number("block")));
    s.fprop_x.element.full_range = s.fprop_x.element.is_integer();
    s.fprop_w.element.full_range = s.fprop_w.element.is_integer();
    s.forward_copies_backward = true;
    return s;
  }
  s.fprop_x = spec(c, "a_elem_format", "round_mx_output");
  s.fprop_w = spec(c, "w_elem_format", "round_mx_output");
  if (c.number_or("mx_specs.quantize_backprop", 1) == 0) return s;
  s.dgrad_dy = spec(c, "a_elem_format_bp_os", "round_mx_grad_output_grad_input");
  s.dgrad_w = spec(c, "w_elem_format_bp", "round_mx_weight_grad_input");
  s.wgrad_dy = spec(c, "a_elem_format_bp_ex", "round_mx_grad_output_grad_weight");
  s.wgrad_x = spec(c, "a_elem_format_bp", "round_mx_input_grad_weight");
  return s;
}

/// All leading axes folded into rows.
Matrix matrix_of(const Case& c, const std::string& field) {
  const auto shape = c.extents("shapes." + field);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return {rows, shape.back(), c.floats(field, std::size_t(rows * shape.back()))};
}

/// All axes but the last two.
std::int64_t batches_of(const Case& c, const std::string& field) {
  const auto shape = c.extents("shapes." + field);
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) count *= shape[i];
  return count;
}

/// microxcaling's bf16 emulation: a function that rounds by the named spec, or leaves alone.
using Rounder = std::function<Matrix(const Matrix&, const std::string&)>;
Rounder bf16_emulation(const Case& c, Backend& backend, bool on) {
  if (!on) return [](const Matrix& m, const std::string&) { return m; };
  return [&c, &backend](const Matrix& m, const std::string& round) {
    return rounded_to_bf16(backend, m, rounding_named(c.text("mx_specs." + round)));
  };
}

Matrix with_bias(Matrix y, const std::vector<float>& bias) {
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += bias[i % bias.size()];
  return y;
}

Matrix column_sums(const Matrix& m) {
  Matrix sums{1, m.cols, std::vector<float>(std::size_t(m.cols))};
  for (std::size_t i = 0; i < m.values.size(); ++i) sums.values[i % sums.values.size()] += m.values[i];
  return sums;
}

/// The matrix of batch k of `count` stacked ones.
Matrix batch(const Matrix& m, std::int64_t k, std::int64_t count) {
  const std::int64_t rows = m.rows / count;
  const auto from = m.values.begin() + k * rows * m.cols;
  return {rows, m.cols, {from, from + rows * m.cols}, m.dtype};
}

}  // namespace

Outcome run_linear(const Case& c, Backend& backend) {
  const LinearQuantizers s = quantizers_of(c);
  const bool emulated = c.number_or("mx_specs.bfloat", 0) != 0;
  const bool backward = c.number_or("mx_specs.quantize_backprop", 1) != 0;
  const Rounder bf = bf16_emulation(c, backend, emulated);
  const Rounder bf_back = bf16_emulation(c, backend, emulated && backward);
  const std::int64_t batches = batches_of(c, "x");

  const Matrix x = bf(matrix_of(c, "x"), "round_output"), w = bf(matrix_of(c, "w"), "round_weight");
  const Matrix b = bf({1, w.rows, c.floats("b", std::size_t(w.rows))}, "round_weight");
  const Matrix x_forward = quantized(backend, x, 1, Axis::row, s.fprop_x);
  const Matrix w_forward = quantized(backend, w, 1, Axis::row, s.fprop_w);
  Product y = multiply(backend, x_forward, Axis::row, w_forward, Axis::row,
                       emulated ? std::vector<float>{} : b.values);
  if (emulated) y.values = bf(with_bias(bf(y.values, "round_output"), b.values), "round_output");
  if (auto text = compare_product(c, "y", y.values.values, y.exact); !text.empty()) return failed(text);

  // Without quantized gradients microxcaling's backward sees the layer's inputs as they came.
  const Matrix x_in = backward ? x : matrix_of(c, "x"), w_in = backward ? w : matrix_of(c, "w");
  const Matrix dy = bf_back(matrix_of(c, "dy"), "round_grad_input");
  const Matrix w_back =
      s.forward_copies_backward ? w_forward : quantized(backend, w_in, 1, Axis::column, s.dgrad_w);
  Product dx =
      multiply(backend, quantized(backend, dy, 1, Axis::row, s.dgrad_dy), Axis::row, w_back, Axis::column);
  dx.values = bf_back(dx.values, "round_grad_input");
  if (auto text = compare_product(c, "dx", dx.values.values, dx.exact); !text.empty()) return failed(text);

  // Blocks run along the sequence inside each batch entry, not over all tokens.
  const Matrix x_back =
      s.forward_copies_backward ? x_forward : quantized(backend, x_in, batches, Axis::column, s.wgrad_x);
  Product dw = multiply(backend, quantized(backend, dy, batches, Axis::column, s.wgrad_dy), Axis::column,
                        x_back, Axis::column);
  dw.values = bf_back(dw.values, "round_grad_weight");
  if (auto text = compare_product(c, "dw", dw.values.values, dw.exact); !text.empty()) return failed(text);

  if (!c.has("db")) return passed();
  const Matrix db = bf_back(column_sums(dy), "round_grad_weight");
  const auto text = compare_product(c, "db", db.values, std::vector<bool>(db.values.size(), false));
  return text.empty() ? passed() : failed(text);
}

Outcome run_products(const Case& c, Backend& backend) {
  if (c.number_or("mx_specs.bfloat", 0) != 0) return not_applicable("bf16 emulation around batched products");
  const std::string mode = c.text_or("mode_config", "aa");
  const auto format = [&](std::size_t side, const char* suffix) {
    return std::string(mode.at(side) == 'w' ? "w" : "a") + "_elem_format" + suffix;
  };
  const Matrix a = matrix_of(c, "a"), b = matrix_of(c, "b"), d = matrix_of(c, "dout");
  const std::int64_t batches = batches_of(c, "a");
  const auto of = [&](const Matrix& m, Axis axis, const std::string& name, const std::string& round) {
    return quantized(backend, m, batches, axis, spec(c, name, round));
  };
  const std::string out_round = "round_mx_output", grad_round = "round_mx_grad_output_grad_input",
                    in_round = "round_mx_input_grad_input";
  const Matrix a_forward = of(a, Axis::row, format(0, ""), out_round);
  const Matrix b_forward = of(b, Axis::column, format(1, ""), out_round);
  const Matrix d_for_a = of(d, Axis::row, "a_elem_format_bp_os", grad_round);
  const Matrix b_back = of(b, Axis::row, format(1, "_bp"), in_round);
  const Matrix a_back = of(a, Axis::column, format(0, "_bp"), in_round);
  const Matrix d_for_b = of(d, Axis::column, "a_elem_format_bp_os", grad_round);

  const auto all = [&](const std::string& field, const Matrix& left, Axis left_axis, const Matrix& right,
                       Axis right_axis) {
    std::vector<float> values;
    std::vector<bool> exact;
    for (std::int64_t k = 0; k < batches; ++k) {
      const Product p =
          multiply(backend, batch(left, k, batches), left_axis, batch(right, k, batches), right_axis);
      values.insert(values.end(), p.values.values.begin(), p.values.values.end());
      exact.insert(exact.end(), p.exact.begin(), p.exact.end());
    }
    return compare_product(c, field, values, exact);
  };
  for (const auto& text : {all("out", a_forward, Axis::row, b_forward, Axis::column),
                           all("da", d_for_a, Axis::row, b_back, Axis::row),
                           all("db", a_back, Axis::column, d_for_b, Axis::column)})
    if (!text.empty()) return failed(text);
  return passed();
}

}  // namespace mxtape::conformance
