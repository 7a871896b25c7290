#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/files/status.h"
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

std::string place_of(const Entry& entry) {
  return fmt::format("{}: '{}'", entry.file->path().string(), shown_name(entry.tensor->name));
}

/// Finds a folder's tensors by the names of the table.
class TensorFinder {
 public:
  TensorFinder(const fs::path& folder, const SafetensorsFolder& files, const ModelFacts& model)
      : folder_(folder), files_(files), model_(model) {
    const std::string_view prefix = name_prefix(model);
    const auto& tensors = files.tensors();
    prefixed_ = std::any_of(tensors.begin(), tensors.end(),
                            [&](const auto& t) { return t.first.starts_with(prefix); });
  }

  /// Under its name of the table, with or without the prefix: for all tensors or none.
  const Entry* find(const std::string& theirs) const {
    const std::string_view prefix = name_prefix(model_);
    const bool cut = !prefixed_ && theirs.starts_with(prefix);
    const auto found = files_.tensors().find(cut ? theirs.substr(prefix.size()) : theirs);
    return found == files_.tensors().end() ? nullptr : &found->second;
  }
  const Entry& at(const std::string& theirs) {
    const Entry* const found = find(theirs);
    require(found != nullptr, ExitCode::data,
            "{}: the tensor '{}' is missing; {} of another model, or a part of one?", folder_.string(),
            theirs, files_.source());
    used_.insert(found->tensor->name);
    return *found;
  }
  void use(const Entry& entry) { used_.insert(entry.tensor->name); }

  /// Buffers by name. Throws for tensors that nobody asked for.
  std::vector<std::string> require_all_used() const {
    constexpr std::size_t most = 4;
    std::vector<std::string> buffers, unexpected;
    for (const auto& [name, entry] : files_.tensors())
      if (!used_.count(name)) (is_buffer(model_, name) ? buffers : unexpected).push_back(shown_name(name));
    const std::size_t count = unexpected.size();
    unexpected.resize(std::min(count, most));
    require(count == 0, ExitCode::data, "{}: {} tensor{} that the model of config.json has not: '{}'{}",
            folder_.string(), count, count == 1 ? "" : "s", fmt::join(unexpected, "', '"),
            count > most ? fmt::format(" and {} more", count - most) : "");
    return buffers;
  }

 private:
  const fs::path& folder_;
  const SafetensorsFolder& files_;
  const ModelFacts& model_;
  bool prefixed_ = false;
  std::set<std::string> used_;
};

/// nanoGPT's states have the layout of linear layers under GPT-2's names. c_attn and c_fc, which are not
/// square, tell; all blocks must agree.
void settle_layout(std::vector<TensorPlan>& plan, const ModelFacts& model, TensorFinder& tensors) {
  const Entry* seen[2] = {};  // the first in Conv1D's layout and in that of linear layers
  for (const TensorPlan& tensor : plan)
    for (const TensorPart& part : tensor.parts) {
      if (!part.transposed || part.rows == part.cols) continue;
      const Entry& entry = tensors.at(part.theirs);
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

void require_fits(const Entry& entry, const TensorPart& part) {
  const TensorInfo& tensor = *entry.tensor;
  require(tensor.dims == part.their_dims(), ExitCode::data, "{} is {}, want {} by config.json",
          place_of(entry), shape_text(tensor.dims), shape_text(part.their_dims()));
  require(tensor.type == TensorType::f32 || tensor.type == TensorType::f16 || tensor.type == TensorType::bf16,
          ExitCode::data, "{} is {}; want F32, F16 or BF16", place_of(entry), name_of(tensor.type));
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

std::string types_of(const SafetensorsFolder& files) {
  std::set<std::string_view> types;
  for (const auto& [name, entry] : files.tensors()) types.insert(name_of(entry.tensor->type));
  return fmt::format("{}", fmt::join(types, " "));
}

}  // namespace

ImportedModel open_hf_folder(const fs::path& folder, std::optional<std::int64_t> context) {
  const fs::path config_path = folder / "config.json";
  HfConfig config = read_hf_config(read_json_file(config_path), config_path.string(), context);
  const auto files = std::make_shared<const SafetensorsFolder>(folder);
  ImportedModel model{.facts = config.model,
                      .context = config.context,
                      .where = config_path.string(),
                      .source = "config.json and " + files->source(),
                      .types = types_of(*files),
                      .unread = config.unread,
                      .notes = config.notes,
                      .files = files};
  TensorFinder tensors(folder, *files, model.facts);
  std::vector<TensorPlan> plan = tensor_plan(model.facts);
  settle_layout(plan, model.facts, tensors);
  for (TensorPlan& tensor : plan) {
    // Learned positions beyond the context stay behind.
    const std::int64_t rows = tensor.ours == "positions.weight" ? config.context : 0;
    if (rows) tensor.shape.dims[0] = rows;
    std::vector<std::pair<Entry, TensorPart>> parts;
    for (TensorPart& part : tensor.parts) {
      const Entry& entry = tensors.at(part.theirs);
      require_fits(entry, part);
      ++model.tensors_read;
      parts.emplace_back(entry, std::move(part));
    }
    model.tensors.push_back(
        {tensor.ours, tensor.shape, [parts = std::move(parts), rows](const TensorSink& sink) {
           for (const auto& [entry, part] : parts) read_part(entry, part, rows ? rows : part.rows, sink);
         }});
  }
  if (const Entry* const head = tensors.find(std::string(their_head)); head && model.facts.tied) {
    require_same_head(*head, tensors.at(tensor_plan(model.facts).front().parts.front().theirs));
    tensors.use(*head);
    model.notes.push_back("lm_head.weight is the embedding once more, as tie_word_embeddings says");
  }
  model.buffers = tensors.require_all_used();
  return model;
}

std::int64_t ImportedModel::parameters() const {
  std::int64_t sum = 0;
  for (const ImportedTensor& tensor : tensors) sum += tensor.shape.count();
  return sum;
}

ImportedModel open_foreign_model(const fs::path& path, std::optional<std::int64_t> context) {
  // "openai-community/gpt2" is a name at the Hub.
  const bool hub = std::distance(path.begin(), path.end()) == 2 && path.is_relative();
  require(
      is_there(path), ExitCode::data,
      "{}: nothing of that name; want config.json and safetensors in a folder, GGUF, or llm.c's model.bin{}",
      path.string(),
      hub ? fmt::format(
                "; `hf download {} --local-dir {}` fetches one from the Hub (pip install huggingface_hub)",
                path.string(), path.filename().string())
          : "");
  if (is_gguf(path)) return open_gguf_file(path, context);
  return is_folder(path) ? open_hf_folder(path, context) : open_llmc_file(path, context);
}

}  // namespace mxtape
