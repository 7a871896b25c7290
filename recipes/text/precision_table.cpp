#include "recipes/text/precision_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "autograd/slots.h"
#include "recipes/rollbacks.h"

namespace mxtape {
namespace {

/// One GEMM: its name, and each operand's name and rounding.
struct GemmLine {
  std::string_view gemm;
  std::string_view a_name;
  const Quantizer& a;
  std::string_view b_name;
  const Quantizer& b;
  std::string rest{};  ///< what else is done to the operands: "; hadamard=16 signs=run"
};

std::string rest_of(const Rotation& rotation, std::string_view operand, OperandSource source) {
  std::string text = rotation.size ? "; " + to_text(rotation) : "";
  if (source == OperandSource::forward) text += fmt::format("; {} rounded from fprop's {}", operand, operand);
  if (source == OperandSource::shared) text += fmt::format("; {} is fprop's {}", operand, operand);
  return text;
}
std::string rest_of(std::string_view operand, const StraightThrough& ste) {
  return ste.kind == SteKind::identity ? "" : fmt::format("; gradient of {}: {}", operand, to_text(ste));
}

std::array<GemmLine, 3> gemm_lines(const LinearQuant& q) {
  const std::string fprop =
      rest_of(q.fprop_rotation, "", OperandSource::master) + rest_of("x", q.x_ste) + rest_of("w", q.w_ste);
  return {{{"fprop", "x", q.fprop_x, "w", q.fprop_w, fprop},
           {"dgrad", "dy", q.dgrad_dy, "w", q.dgrad_w, rest_of(q.dgrad_rotation, "w", q.dgrad_source)},
           {"wgrad", "dy", q.wgrad_dy, "x", q.wgrad_x, rest_of(q.wgrad_rotation, "x", q.wgrad_source)}}};
}
std::array<GemmLine, 6> gemm_lines(const AttentionQuant& q) {
  return {{{"qk", "q", q.qk_q, "k", q.qk_k},
           {"pv", "p", q.pv_p, "v", q.pv_v},
           {"dv", "p", q.dv_p, "do", q.dv_do},
           {"dp", "do", q.dp_do, "v", q.dp_v},
           {"dq", "ds", q.dq_ds, "k", q.dq_k},
           {"dk", "ds", q.dk_ds, "q", q.dk_q}}};
}

/// Attention's GEMMs belong to its kernel, which may fuse them: only its operands' types are said.
std::string_view attention_path(const Quantizer& a, const Quantizer& b) {
  const bool a_narrow = a.operand_dtype() == DType::bf16, b_narrow = b.operand_dtype() == DType::bf16;
  if (a_narrow && b_narrow) return "bf16 operands";
  return a_narrow || b_narrow ? "a bf16 and an f32 operand" : "f32 operands";
}

/// What shall multiply two operands.
using Path = std::function<std::string_view(const Quantizer&, const Quantizer&)>;

void write_line(std::string& out, const GemmLine& line, const Path& path) {
  out += fmt::format("  {:<5}  {:<2} {:<33} {:<2} {:<33} {}", line.gemm, line.a_name, to_text(line.a),
                     line.b_name, to_text(line.b), path(line.a, line.b));
  out += line.rest + '\n';
}

/// Layer names by block, ranges of equal blocks joined: "blocks.0-3.attn.qkv,attn.out head". A block whose
/// `parts_of_a_block` layers are all there is written "blocks.0-3.*".
std::string joined_names(const std::vector<std::string>& names, std::size_t parts_of_a_block) {
  constexpr std::string_view prefix = "blocks.";
  std::map<std::int64_t, std::vector<std::string>> blocks;
  std::vector<std::string> pieces;
  std::string others;
  for (const auto& name : names) {
    if (!name.starts_with(prefix)) {
      others += " " + name;
      continue;
    }
    const auto dot = name.find('.', prefix.size());
    blocks[std::stoll(name.substr(prefix.size(), dot))].push_back(name.substr(dot + 1));
  }
  for (auto it = blocks.begin(); it != blocks.end();) {
    auto last = it, next = std::next(it);
    while (next != blocks.end() && next->first == last->first + 1 && next->second == it->second)
      last = next++;
    const auto range =
        last == it ? fmt::format("{}", it->first) : fmt::format("{}-{}", it->first, last->first);
    const bool all = parts_of_a_block > 1 && it->second.size() == parts_of_a_block;
    pieces.push_back(
        fmt::format("{}{}.{}", prefix, range, all ? "*" : fmt::format("{}", fmt::join(it->second, ","))));
    it = next;
  }
  const std::string text = fmt::format("{}{}", fmt::join(pieces, " "), others);
  return text.substr(text.find_first_not_of(' '));
}

/// One line for all GEMMs where every operand is rounded alike.
void write_gemms(std::string& out, std::span<const GemmLine> lines, const Path& path) {
  const Quantizer& q = lines.front().a;
  const bool alike = std::ranges::all_of(
      lines, [&](const GemmLine& line) { return line.a == q && line.b == q && line.rest.empty(); });
  if (alike)
    out += fmt::format("  all operands {:<67} {}\n", to_text(q), path(q, q));
  else
    for (const GemmLine& line : lines) write_line(out, line, path);
}

/// What is rounded after the GEMMs.
void write_output(std::string& out, const LinearQuant& q) {
  if (!q.out.is_identity()) out += fmt::format("  result y     {}\n", to_text(q.out));
}
void write_output(std::string& out, const AttentionQuant& q) {
  if (!q.qk_s.is_identity()) out += fmt::format("  scores       {}\n", to_text(q.qk_s));
}

/// Writes the groups of `layers` that are treated alike, each under the names of its layers.
template <class Quant>
void write_groups(std::string& out, const std::map<std::string, Quant>& layers, std::size_t parts_of_a_block,
                  const Path& path) {
  std::vector<std::pair<Quant, std::vector<std::string>>> groups;
  for (const auto& [name, quant] : layers) {
    auto group = groups.begin();
    while (group != groups.end() && !(group->first == quant)) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {quant, {}});
    group->second.push_back(name);
  }
  for (const auto& [quant, names] : groups) {
    out += joined_names(names, parts_of_a_block);
    out += names.size() > 1 ? fmt::format("  ({} layers)\n", names.size()) : "\n";
    write_gemms(out, gemm_lines(quant), path);
    write_output(out, quant);
  }
}

enum class Unrounded : bool { hide, show };

/// Roundings that belong to no GEMM, under the names of layers that are rounded alike.
void write_others(std::string& out, const std::map<std::string, Quantizer>& layers, Unrounded unrounded,
                  std::size_t parts_of_a_block, const auto& what) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const auto& [name, q] : layers)
    if (!q.is_identity() || unrounded == Unrounded::show) groups[what(name, q)].push_back(name);
  for (const auto& [rounding, names] : groups)
    out += fmt::format("{}\n  {:<12} {}\n", joined_names(names, parts_of_a_block), rounding.first,
                       rounding.second);
}

std::string table_of(const PrecisionPlan& plan, GemmKernels kernels, Unrounded unrounded) {
  std::string out;
  write_groups(out, plan.linear, 4,
               [=](const Quantizer& a, const Quantizer& b) { return gemm_path(a, b, kernels); });
  write_groups(out, plan.attention, 1, attention_path);
  write_others(out, plan.parameters, unrounded, 1, [](const std::string& name, const Quantizer& q) {
    return std::pair(std::string(name == "embedding" ? "table" : "gain"), to_text(q));
  });
  write_others(out, plan.sums, unrounded, 4, [](const std::string&, const Quantizer& q) {
    return std::pair(std::string(name_of(Slot::sum_dw)),
                     fmt::format("{}, {:.4g} of 32 bits travel", to_text(q), q.bits_per_element()));
  });
  return out;
}

/// The layers of `after` that differ from `before`.
PrecisionPlan changed(const PrecisionPlan& before, const PrecisionPlan& after) {
  PrecisionPlan plan = after;
  const auto keep_changed = [](auto& layers, const auto& old) {
    std::erase_if(layers, [&](const auto& layer) { return old.at(layer.first) == layer.second; });
  };
  keep_changed(plan.linear, before.linear);
  keep_changed(plan.attention, before.attention);
  keep_changed(plan.parameters, before.parameters);
  keep_changed(plan.sums, before.sums);
  return plan;
}

}  // namespace

PrecisionPlan realised(PrecisionPlan plan, std::string_view device) {
  if (plan.activations != DType::bf16) return plan;
  const auto narrow = [](Quantizer& q, const Rotation& rotation = {}) {
    if (q.is_identity() && rotation.size == 0) q = bf16_cast;  // what is rotated is f32
  };
  for (auto& [name, q] : plan.linear) {
    narrow(q.fprop_x, q.fprop_rotation);
    narrow(q.wgrad_x, q.wgrad_source == OperandSource::shared ? q.fprop_rotation : q.wgrad_rotation);
    narrow(q.dgrad_dy, q.dgrad_rotation), narrow(q.wgrad_dy, q.wgrad_rotation);
    if (q.out == bf16_cast) q.out = {};  // y is bf16
  }
  for (auto& [name, q] : plan.attention) {
    const bool unquantized = q == AttentionQuant{};
    for (const auto& slot : attention_slots) {
      const bool inside = slot.name.ends_with(".p") || slot.name.ends_with(".ds");
      if (!inside || (unquantized && device == "cuda")) narrow(q.*slot.field);
    }
  }
  return plan;
}

std::string_view gemm_path(const Quantizer& a, const Quantizer& b, GemmKernels kernels) {
  const bool codes = gemm_layout(kernels, a, b) == Layout::codes;
  const GemmPath path = codes ? GemmPath::integer : gemm_path(a.operand_dtype(), b.operand_dtype());
  return gemm_path_names[std::size_t(path)];
}

std::string precision_table(const PrecisionPlan& plan, GemmKernels kernels) {
  return table_of(plan, kernels, Unrounded::hide);
}

std::string precision_table(const Recipe& recipe) {
  return precision_table(recipe, recipe.compute.gemm_kernels());
}

std::string precision_table(const Recipe& recipe, GemmKernels kernels) {
  std::string out;
  const auto plan_at = [&](const Recipe& r, std::int64_t step) {
    return realised(precision_plan(r, step), recipe.compute.device);
  };
  const auto put_changes = [&](const PrecisionPlan& before, const PrecisionPlan& plan) {
    const PrecisionPlan changes = changed(before, plan);
    const std::string table = table_of(changes, kernels, Unrounded::show);
    out += table.empty() ? "  nothing changes\n" : table;
  };
  std::int64_t before = 0;
  for (const std::int64_t step : plan_changes(recipe)) {
    const PrecisionPlan plan = plan_at(recipe, step);
    if (step == 0) {
      out += fmt::format("stored activations {}\n", name_of(plan.activations));
      out += precision_table(plan, kernels);
    } else {
      out += fmt::format("from step {}\n", step);
      put_changes(plan_at(recipe, before), plan);
    }
    before = step;
  }
  for (const std::int64_t n : coming_rollbacks(recipe)) {
    out += fmt::format("from rollback {}{}, if it comes\n", n,
                       recipe.precision.switch_error > 0 ? " or a switch" : "");
    put_changes(plan_at(as_rolled_back(recipe, n - 1), 0), plan_at(as_rolled_back(recipe, n), 0));
  }
  return out;
}

}  // namespace mxtape
