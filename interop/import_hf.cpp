#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/files/status.h"
#include "core/text/nearest_name.h"
#include "data/json/json_file.h"
#include "data/safetensors/safetensors_folder.h"
#include "interop/hf_config.h"
#include "interop/hf_names.h"
#include "interop/import.h"
#include "interop/transposed.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
using Entry = SafetensorsFolder::Entry;
using Entries = std::map<std::string, Entry>;

std::string place_of(const Entry& entry) {
  return fmt::format("{}: '{}'", entry.file->path().string(), shown_name(entry.tensor->name));
}

/// A folder's tensors by the names of the table, whose prefix all files have or none; buffers stay behind.
Entries named_by_table(const SafetensorsFolder& files, const ModelFacts& model,
                       std::vector<std::string>& buffers) {
  const std::string prefix(name_prefix(model));
  const bool prefixed = std::ranges::any_of(
      files.tensors(), [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
  Entries entries;
  for (const auto& [name, entry] : files.tensors())
    if (is_buffer(model, name))
      buffers.push_back(shown_name(name));
    else
      entries[prefixed || name == their_head ? name : prefix + name] = entry;
  return entries;
}

/// nanoGPT's states have the layout of linear layers under GPT-2's names. c_attn and c_fc, which are not
/// square, tell; all blocks must agree.
void settle_layout(std::vector<TensorPlan>& plan, const ModelFacts& model, const Entries& entries) {
  const Entry* seen[2] = {};  // the first in Conv1D's layout and in that of linear layers
  for (const TensorPlan& tensor : plan)
    for (const TensorPart& part : tensor.parts) {
      const auto found = entries.find(part.theirs);
      if (!part.transposed || part.rows == part.cols || found == entries.end()) continue;
      const Entry& entry = found->second;
      const auto& dims = entry.tensor->dims;
      const std::vector<std::uint64_t> linear{std::uint64_t(part.rows), std::uint64_t(part.cols)};
      const bool is_linear = dims == linear;
      if (!is_linear && dims != part.their_dims()) continue;  // another shape: refused with the others
      if (!seen[is_linear]) seen[is_linear] = &entry;
      require(!seen[!is_linear], ExitCode::data, "{} is {}, want {} as {} has it", place_of(entry),
              shape_text(dims), shape_text(is_linear ? part.their_dims() : linear),
              fmt::format("'{}'", seen[!is_linear] ? shown_name(seen[!is_linear]->tensor->name) : ""));
    }
  if (seen[1]) plan = tensor_plan(model, false);
}

/// A part's elements in ours' order. Without a transpose at most a piece is in memory, else the tensor.
void read_part(const Entry& entry, const TensorPart& part, std::int64_t rows, const TensorSink& sink) {
  const auto read = [&](std::uint64_t first, std::span<float> room) {
    entry.file->read_f32(*entry.tensor, first, room);
  };
  if (!part.transposed) return in_pieces(rows * part.cols, sink, read);
  std::vector<float> values(std::size_t(rows * part.cols));
  read(0, values);
  transposed(values, part.cols, part.rows, sink);
}

/// Tied, and the head is in the file as well: it must be the table, or programs would disagree on which one
/// counts.
void require_same_head(const Entry& head, const Entry& table) {
  require(head.tensor->dims == table.tensor->dims && head.tensor->type == table.tensor->type, ExitCode::data,
          "{} is {}, beside an embedding of {}, though config.json ties them", place_of(head),
          head.tensor->text(), table.tensor->text());
  constexpr std::uint64_t piece = 1 << 20;
  std::vector<float> a, b;
  for (std::uint64_t done = 0, count = head.tensor->count(); done < count; done += a.size()) {
    a.resize(std::size_t(std::min(piece, count - done)));
    b.resize(a.size());
    head.file->read_f32(*head.tensor, done, a);
    table.file->read_f32(*table.tensor, done, b);
    require(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0, ExitCode::data,
            "{} differs from the embedding, though config.json ties them (tie_word_embeddings)",
            place_of(head));
  }
}

}  // namespace

void take_tensors(ImportedModel& model, const std::vector<TensorPlan>& plan, std::string TensorPart::*name,
                  std::map<std::string, ForeignTensor> there, const PartReader& read) {
  std::set<std::string_view> types;
  for (const auto& [theirs, tensor] : there) types.insert(tensor.type);
  model.types = fmt::format("{}", fmt::join(types, " "));
  for (TensorPlan tensor : plan) {
    // Learned positions beyond the context stay behind.
    const std::int64_t rows = tensor.ours == "positions.weight" ? model.context : 0;
    if (rows) tensor.shape.dims[0] = rows;
    for (const TensorPart& part : tensor.parts) {
      const auto taken = there.extract(part.*name);
      require(taken && taken.mapped().dims == part.their_dims(), ExitCode::data,
              "{}: '{}' is {}, want {} by its keys", model.where, part.*name,
              taken ? shape_text(taken.mapped().dims) : "missing", shape_text(part.their_dims()));
      ++model.tensors_read;
    }
    model.tensors.push_back(
        {tensor.ours, tensor.shape, [parts = tensor.parts, rows, read](const TensorSink& sink) {
           for (const TensorPart& part : parts) read(part, rows ? rows : part.rows, sink);
         }});
  }
  require(there.empty(), ExitCode::data, "{}: its model has no '{}'; tensors left over: {}", model.where,
          there.empty() ? "" : shown_name(there.begin()->first), there.size());
}

ImportedModel open_hf_folder(const fs::path& folder, std::optional<std::int64_t> context) {
  const fs::path config_path = folder / "config.json";
  HfConfig config = read_hf_config(read_json_file(config_path), config_path.string(), context);
  const auto files = std::make_shared<const SafetensorsFolder>(folder);
  ImportedModel model{.facts = config.model,
                      .context = config.context,
                      .where = config_path.string(),
                      .source = "config.json and " + files->source(),
                      .unread = config.unread,
                      .notes = config.notes,
                      .files = files};
  Entries entries = named_by_table(*files, model.facts, model.buffers);
  std::vector<TensorPlan> plan = tensor_plan(model.facts);
  settle_layout(plan, model.facts, entries);
  const auto head = entries.find(std::string(their_head)), table = entries.find(plan[0].parts[0].theirs);
  if (model.facts.tied && head != entries.end() && table != entries.end()) {
    require_same_head(head->second, table->second);
    entries.erase(head);
    model.notes.push_back("lm_head.weight is the embedding once more, as tie_word_embeddings says");
  }
  std::map<std::string, ForeignTensor> there;
  for (const auto& [name, entry] : entries) {
    const TensorType type = entry.tensor->type;
    require(type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16, ExitCode::data,
            "{} is {}; want F32, F16 or BF16", place_of(entry), name_of(type));
    there[name] = {entry.tensor->dims, name_of(type)};
  }
  const auto kept = std::make_shared<const Entries>(std::move(entries));  // by each tensor's reader
  take_tensors(model, plan, &TensorPart::theirs, there, [kept](const auto& part, auto rows, auto& sink) {
    read_part(kept->at(part.theirs), part, rows, sink);
  });
  return model;
}

std::int64_t ImportedModel::parameters() const {
  std::int64_t sum = 0;
  for (const TensorInParts& tensor : tensors) sum += tensor.shape.count();
  return sum;
}

ImportedModel open_foreign_model(const fs::path& path, std::optional<std::int64_t> context) {
  // "openai-community/gpt2" is a name at the Hub.
  const bool hub = std::distance(path.begin(), path.end()) == 2 && path.is_relative();
  if (!is_there(path))
    fail(ExitCode::data,
         "{}{}: nothing of that name; want config.json and safetensors in a folder, GGUF, or llm.c's "
         "model.bin{}",
         path.string(), near_path(path),
         hub ? fmt::format(
                   "; `hf download {} --local-dir {}` fetches one from the Hub (pip install huggingface_hub)",
                   path.string(), path.filename().string())
             : "");
  if (is_folder(path)) return open_hf_folder(path, context);
  const bool gguf = RandomAccessFile(path).beginning(4) == "GGUF";
  return gguf ? open_gguf_file(path, context) : open_llmc_file(path, context);
}

}  // namespace mxtape
