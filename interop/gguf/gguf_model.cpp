#include <algorithm>

#include "core/files/output_file.h"
#include "data/byte_reader.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/gguf/format.h"
#include "interop/hf_config.h"
#include "interop/hf_names.h"
#include "interop/import.h"
#include "recipes/text/precision_notes.h"

namespace mxtape {
namespace {

/// The row of ours that is row i of a tensor of theirs: in GGUF's class "llama" RoPE turns the pairs
/// (2i, 2i + 1) of a head, here (i, i + D/2).
std::int64_t row_of(const ModelFacts& m, const TensorPart& part, std::int64_t row) {
  const bool turned =
      part.gguf.find(".attn_q.") != part.gguf.npos || part.gguf.find(".attn_k.") != part.gguf.npos;
  if (!turned || (m.architecture != "llama" && m.architecture != "mistral")) return row;
  const std::int64_t i = row % m.head_width;
  return row - i + i / 2 + i % 2 * (m.head_width / 2);
}

void append(std::string& to, const std::string& text) { append_bytes(to, text.size()), to += text; }
void append(std::string& to, auto... numbers) { (append_bytes(to, numbers), ...); }

/// A value and, where it is no item, its type before it. Whole numbers are u32, or i32 as items; others f32.
void append_value(std::string& to, const nlohmann::ordered_json& value, bool item = false) {
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
  for (const auto& one : value) append_value(to, one, true);
}

/// Rows of ours as the type stores them, in the order of GGUF; "" if that is not exactly what their codes
/// stand for.
std::string stored(const GgufType& type, const ModelFacts& model, const TensorPart& part,
                   std::span<const float> values, const MxTensor* codes) {
  const std::size_t cols = std::size_t(part.row_width()), rows = std::size_t(part.row_count());
  if (cols % type.numbers || (type.scales && codes->quantizer.element != type.quantizer.element)) return "";
  const float multiplier = type.id == GgufType::nvfp4 ? codes->multiplier : 1;
  std::string bytes;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::int64_t row = part.first_row + row_of(model, part, std::int64_t(r));
    const auto numbers = values.subspan(std::size_t(row) * cols, cols);
    const std::string blocks =
        type.scales ? blocks_of_row(type, *codes, row) : bytes_in(type.plain, numbers, part.gguf, r * cols);
    const auto same = [&](float there, float wanted) { return there * multiplier == wanted; };
    if (codes && !std::ranges::equal(values_of_blocks(type, blocks), numbers, same)) return "";
    bytes += blocks;
  }
  return bytes;
}

struct StoredGguf {
  std::string name, bytes;
  std::vector<std::uint64_t> dims;
  const GgufType* type;
};

std::vector<StoredGguf> tensors_of(const ModelFacts& model, const WeightSource& source,
                                   const ExportOptions& options, std::vector<std::string>& notes) {
  std::vector<StoredGguf> all;
  for (const TensorPlan& plan : tensor_plan(model, false)) {
    const MxTensor* const codes = options.codes(plan.ours);
    std::vector<float> values(std::size_t(plan.shape.count()));  // of a bias that is missing
    if (!plan.parts[0].optional) values = source(plan.ours);
    for (const TensorPart& part : plan.parts) {
      // ggml adds vectors and positions in f32. Numbers that were rounded are not rounded again.
      const bool wide = part.vector || plan.ours == "positions.weight";
      const GgufType* type = gguf_types;
      std::string bytes;
      for (; bytes.empty(); ++type)
        if (codes || type->plain == (wide ? TensorType::f32 : options.type))
          bytes = stored(*type, model, part, values, codes);
      all.push_back({part.gguf, std::move(bytes), part.their_dims(), --type});
      if (codes && !type->scales && codes->quantizer.scale != ScaleKind::none)
        notes.push_back(fmt::format("{}: GGUF has no blocks for {}; its numbers are in {}", part.gguf,
                                    to_text(codes->quantizer), type->name));
      if (type->id == GgufType::nvfp4) {
        all.push_back({scale_of_tensor(part.gguf), "", {1}, std::end(gguf_types) - 1});
        append(all.back().bytes, codes->multiplier);
      }
    }
  }
  return all;
}

}  // namespace

std::uint64_t export_gguf_file(const std::filesystem::path& path, const ModelFacts& model,
                               const WeightSource& source, const Tokenizer& tokenizer,
                               const ExportOptions& options, std::vector<std::string>& notes) {
  const auto keys = gguf_keys_of(model, tokenizer, notes);
  note_activations(*options.precision, "GGUF", notes);
  auto tensors = tensors_of(model, source, options, notes);
  std::string header(gguf_magic);
  append(header, std::uint32_t(3), std::uint64_t(tensors.size()), std::uint64_t(keys.size()));
  for (const auto& [key, value] : keys.items()) {
    append(header, key);
    append_value(header, value);
  }
  std::uint64_t place = 0;
  for (StoredGguf& tensor : tensors) {
    tensor.bytes.resize(gguf_aligned(tensor.bytes.size()));
    append(header, tensor.name);
    append(header, std::uint32_t(tensor.dims.size()));
    for (auto dim = tensor.dims.rbegin(); dim != tensor.dims.rend(); ++dim) append(header, *dim);
    append(header, tensor.type->id, place);
    place += tensor.bytes.size();
  }
  header.resize(gguf_aligned(header.size()));
  UnfinishedFile unfinished(path);
  OutputFile file(unfinished.path());
  file.write(header);
  for (const StoredGguf& tensor : tensors) file.write(tensor.bytes);
  file.finish();
  return unfinished.finish();
}

ImportedModel open_gguf_file(const std::filesystem::path& path, std::optional<std::int64_t> context) {
  const auto file = std::make_shared<const GgufFile>(path);
  const HfConfig config = read_hf_config(hf_config_of(*file), path.string(), context);
  ImportedModel model{.facts = config.model,
                      .context = config.context,
                      .where = path.string(),
                      .source = "a GGUF file",
                      .notes = config.notes,
                      .files = file};
  std::map<std::string, ForeignTensor> there;
  for (const auto& [name, tensor] : file->tensors) {
    there[name] = {tensor.dims, tensor.type->name};
    const auto scale = there.find(scale_of_tensor(name));  // it comes before its ".weight"
    const bool one = scale != there.end() && scale->second.dims == std::vector<std::uint64_t>{1};
    if (one && tensor.dims.size() == 2) there.erase(scale), ++model.tensors_read;
  }
  const auto read = [file, facts = model.facts](const TensorPart& part, std::int64_t rows, const auto& sink) {
    const auto theirs = file->values(part.gguf);
    const std::ptrdiff_t cols = part.row_width();
    std::vector<float> ours(theirs.size());
    for (auto row = theirs.begin(); row != theirs.end(); row += cols)
      std::copy_n(row, cols, ours.begin() + row_of(facts, part, (row - theirs.begin()) / cols) * cols);
    sink(std::span(ours).first(std::size_t(rows * part.cols)));
  };
  take_tensors(model, tensor_plan(model.facts, false), &TensorPart::gguf, there, read);
  model.tokenizer = tokenizer_of(*file, model.notes);
  return model;
}

}  // namespace mxtape
