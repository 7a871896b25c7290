#include <set>

#include "core/error.h"
#include "data/safetensors/header.h"
#include "interop/gguf/format.h"
#include "interop/hf_config.h"
#include "interop/import.h"

namespace mxtape {
namespace {

std::string scale_of(const std::string& name) { return name.substr(0, name.rfind('.')) + ".scale"; }

/// A part of a tensor of ours; `theirs` is its name in the file. NVFP4 may have a multiplier in another one.
std::vector<float> values_of(const GgufFile& file, const ModelFacts& model, const TensorPart& part) {
  const std::string scale = scale_of(part.theirs);
  const bool scaled = !part.vector && file.tensors().contains(scale);
  const auto theirs = file.values(part.theirs, scaled ? file.values(scale)[0] : 1);
  const auto cols = std::ptrdiff_t(part.vector ? 1 : part.cols);
  std::vector<float> ours(theirs.size());
  for (auto row = theirs.begin(); row != theirs.end(); row += cols)
    std::copy_n(row, cols, ours.begin() + gguf_row(model, part.theirs, (row - theirs.begin()) / cols) * cols);
  return ours;
}

}  // namespace

bool is_gguf(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) && RandomAccessFile(path).beginning(4) == gguf_magic;
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
  std::set<std::string> types, unused;
  for (const auto& [name, tensor] : file->tensors()) unused.insert(name), types.emplace(tensor.type->name);
  for (const auto& type : types) model.types += (model.types.empty() ? "" : " ") + type;
  const auto take = [&](const std::string& name, const std::vector<std::uint64_t>& wanted) {
    const auto found = file->tensors().find(name);
    const bool there = found != file->tensors().end();
    require(there && found->second.dims == wanted, ExitCode::data, "{}: '{}' is {}, want {} by its keys",
            path.string(), name, there ? shape_text(found->second.dims) : "missing", shape_text(wanted));
    unused.erase(name);
    ++model.tensors_read;
    return name;
  };
  for (TensorPlan& plan : tensor_plan(model.facts)) {
    if (plan.ours == "positions.weight") plan.shape.dims[0] = config.context;
    for (TensorPart& part : plan.parts) {
      part.transposed = false;
      part.theirs = take(gguf_name(part.theirs), part.their_dims());
      if (!part.vector && unused.contains(scale_of(part.theirs))) take(scale_of(part.theirs), {1});
    }
    const auto read = [file, facts = model.facts, plan](const TensorSink& sink) {
      for (const TensorPart& part : plan.parts) {
        const auto values = values_of(*file, facts, part);  // positions beyond the context are left out
        sink(std::span(values).first(std::min(values.size(), std::size_t(plan.shape.count()))));
      }
    };
    model.tensors.push_back({plan.ours, plan.shape, read});
  }
  require(unused.empty(), ExitCode::data, "{}: {} tensors that this model has not, as '{}'", path.string(),
          unused.size(), shown_name(unused.empty() ? "" : *unused.begin()));
  if (!file->text("tokenizer.ggml.model").empty() && file->text("tokenizer.huggingface.json").empty())
    model.notes.push_back("its tokenizer is not read: the model takes ids");
  return model;
}

}  // namespace mxtape
