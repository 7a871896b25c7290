#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/files/output_file.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/gguf/format.h"

namespace mxtape {
namespace {

template <class T>
void append(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}
void append(std::string& to, const std::string& text) {
  append(to, std::uint64_t(text.size()));
  to += text;
}

/// A value and, where it is no item, its type before it. Whole numbers are u32, or i32 as items; others f32.
void append_value(std::string& to, const GgufKeys& value, bool item = false) {
  const auto put = [&](GgufValue type, const auto& one) {
    if (!item) append(to, type);
    append(to, one);
  };
  if (value.is_string()) return put(GgufValue::text, value.get<std::string>());
  if (value.is_boolean()) return put(GgufValue::boolean, value.get<bool>());
  if (value.is_number_float()) return put(GgufValue::f32, value.get<float>());
  if (value.is_number()) return put(GgufValue::u32, value.get<std::uint32_t>());
  put(GgufValue::array, value.empty() || value[0].is_string() ? GgufValue::text : GgufValue::i32);
  append(to, std::uint64_t(value.size()));
  for (const GgufKeys& one : value) append_value(to, one, true);
}

/// The type whose blocks may hold such codes.
GgufType::Id type_of(const Quantizer& q) {
  if (q.scale == ScaleKind::none) return q.element == f16 ? GgufType::f16 : GgufType::bf16;
  if (q.element == int8) return GgufType::q8_0;
  return q.scale == ScaleKind::power_of_two ? GgufType::mxfp4 : GgufType::nvfp4;
}

struct GgufOutput {
  std::string name;
  TensorPart part;
  const GgufType* type;
  std::string bytes{};
};

/// Rows of ours as they are stored in the tensor's type; false if its codes' blocks do not hold exactly the
/// numbers.
bool store(GgufOutput& tensor, const ModelFacts& model, std::int64_t first_row, std::span<const float> values,
           const MxTensor* codes) {
  const GgufType& type = *tensor.type;
  const TensorPart& part = tensor.part;
  const auto cols = std::size_t(part.vector ? 1 : part.cols);
  if (cols % type.numbers) return false;
  const float multiplier = type.id == GgufType::nvfp4 ? codes->multiplier : 1;
  tensor.bytes.clear();
  for (std::int64_t r = 0; r < (part.vector ? part.cols : part.rows); ++r) {
    const std::int64_t row = first_row + gguf_row(model, tensor.name, r);
    const auto numbers = values.subspan(std::size_t(row) * cols, cols);
    const std::string blocks = type.scales
                                   ? blocks_of_row(type, *codes, row)
                                   : bytes_in(type.plain, numbers, tensor.name, std::uint64_t(r) * cols);
    const auto same = [&](float stored, float wanted) { return stored * multiplier == wanted; };
    if (codes && !std::ranges::equal(values_of_blocks(type, blocks), numbers, same)) return false;
    tensor.bytes += blocks;
  }
  return true;
}

/// What the forward pass rounds besides the weights of linear layers.
std::string formats_of_activations(const PrecisionPlan& plan) {
  std::set<std::string> formats;
  for (const auto& [layer, q] : plan.linear) formats.insert({to_text(q.fprop_x), to_text(q.out)});
  for (const auto& [layer, q] : plan.attention)
    for (const Quantizer& one : {q.qk_q, q.qk_k, q.pv_p, q.pv_v, q.qk_s}) formats.insert(to_text(one));
  for (const auto& [layer, quantizer] : plan.parameters) formats.insert(to_text(quantizer));
  formats.erase(to_text(Quantizer{}));
  return fmt::format("{}", fmt::join(formats, ", "));
}

std::vector<GgufOutput> outputs_of(const ModelFacts& model, const WeightSource& source,
                                   const ExportOptions& options, std::vector<std::string>& notes) {
  const GgufType::Id chosen = std::ranges::find(gguf_types, options.type, &GgufType::plain)->id;
  std::vector<GgufOutput> all;
  const auto plans = tensor_plan(model);
  for (const TensorPlan& plan : plans) {
    std::int64_t row = 0;
    const MxTensor* const codes = options.codes ? options.codes(plan.ours) : nullptr;
    std::vector<float> values(std::size_t(plan.shape.count()));  // of a bias that is missing
    if (!plan.parts[0].optional) values = source(plan.ours);
    for (const TensorPart& part : plan.parts) {
      // ggml adds vectors and positions in f32.
      const bool wide = part.vector || plan.ours == "positions.weight";
      GgufOutput tensor{gguf_name(part.theirs), part, nullptr};
      // Numbers that were rounded are not rounded again.
      for (const auto id : codes ? std::vector{type_of(codes->quantizer), GgufType::bf16, GgufType::f32}
                                 : std::vector{wide ? GgufType::f32 : chosen}) {
        tensor.type = gguf_type(id);
        if (store(tensor, model, row, values, codes)) break;
      }
      if (codes && tensor.type->id != type_of(codes->quantizer))
        notes.push_back(fmt::format("{}: GGUF has no blocks for {}; its numbers are in {}", tensor.name,
                                    to_text(codes->quantizer), tensor.type->name));
      row += part.vector ? part.cols : part.rows;
      all.push_back(tensor);
      if (tensor.type->id != GgufType::nvfp4) continue;
      tensor.name.replace(tensor.name.rfind('.') + 1, std::string::npos, "scale");
      tensor = {tensor.name, {.theirs = "", .rows = 1, .cols = 1, .vector = true}, gguf_type(GgufType::f32)};
      append(tensor.bytes, codes->multiplier);
      all.push_back(tensor);
    }
    if (options.progress) options.progress(&plan - plans.data() + 1, std::int64_t(plans.size()));
  }
  return all;
}

}  // namespace

std::uint64_t export_gguf_file(const std::filesystem::path& path, const ModelFacts& model,
                               const WeightSource& source, const Tokenizer& tokenizer,
                               const ExportOptions& options, std::vector<std::string>& notes) {
  const GgufKeys keys = gguf_keys_of(model, tokenizer, notes);
  if (const std::string formats = formats_of_activations(*options.precision); !formats.empty())
    notes.push_back("GGUF does not say in which formats the run rounds activations: " + formats);
  auto tensors = outputs_of(model, source, options, notes);
  std::string header(gguf_magic);
  append(header, std::uint32_t(3));
  append(header, std::uint64_t(tensors.size()));
  append(header, std::uint64_t(keys.size()));
  for (const auto& [key, value] : keys.items()) {
    append(header, key);
    append_value(header, value);
  }
  std::uint64_t place = 0;
  for (GgufOutput& tensor : tensors) {
    append(header, tensor.name);
    append(header, tensor.part.vector ? 1u : 2u);
    append(header, std::uint64_t(tensor.part.cols));
    if (!tensor.part.vector) append(header, std::uint64_t(tensor.part.rows));
    append(header, tensor.type->id);
    append(header, place);
    tensor.bytes.resize(gguf_aligned(tensor.bytes.size()));
    place += tensor.bytes.size();
  }
  UnfinishedFile unfinished(path);
  OutputFile file(unfinished.path());
  header.resize(gguf_aligned(header.size()));
  file.write(header);
  for (const GgufOutput& tensor : tensors) file.write(tensor.bytes);
  file.finish();
  return unfinished.finish();
}

}  // namespace mxtape
