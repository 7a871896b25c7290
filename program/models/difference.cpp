#include "program/models/difference.h"

#include <map>
#include <optional>

#include "train/saved/packed_model.h"

namespace mxtape {
namespace {

using Info = Hdf5Reader::Info;

std::string text_of(const Info& info) { return info.type + " " + indices_text(info.dims); }

std::string misfit_of(const std::optional<Info>& a, const std::optional<Info>& b) {
  if (!b) return "only in A, " + text_of(*a);
  if (!a) return "only in B, " + text_of(*b);
  return text_of(*a) == text_of(*b) ? "" : text_of(*a) + " -> " + text_of(*b);
}

}  // namespace

SavedModel open_saved_model(const std::filesystem::path& path) {
  auto file = open_sealed(path);
  if (content_of(*file) != packed_content) return {file, CheckpointFile(file).header(), ""};
  const PackedModelFile packed(file);
  return {file, packed.header().model, packed.header().precision};
}

CheckpointDifference difference_of(const SavedModel& a, const SavedModel& b) {
  require(a.packed_as.empty() == b.packed_as.empty(), ExitCode::usage,
          "{} is a {}, {} a {}; want two of a kind", a.file->path().string(),
          a.packed_as.empty() ? "checkpoint" : "packed model", b.file->path().string(),
          b.packed_as.empty() ? "checkpoint" : "packed model");
  CheckpointDifference difference;
  const auto compare = [&](const char* name, const std::string& in_a, const std::string& in_b) {
    if (in_a != in_b) difference.header.push_back({name, in_a, in_b});
  };
  compare("step", std::to_string(a.header.step), std::to_string(b.header.step));
  compare("tokenizer", a.header.tokenizer.to_json(), b.header.tokenizer.to_json());
  compare("data_hash", a.header.data_hash, b.header.data_hash);
  compare("written_by", a.header.written_by, b.header.written_by);
  compare("precision", a.packed_as, b.packed_as);
  Recipe renamed = a.header.recipe;
  renamed.name = b.header.recipe.name;
  difference.recipe = differences(without_whereabouts(renamed), without_whereabouts(b.header.recipe));

  std::map<std::string, std::pair<std::optional<Info>, std::optional<Info>>> tensors;
  for (const Info& info : a.file->datasets()) tensors[info.name].first = info;
  for (const Info& info : b.file->datasets()) tensors[info.name].second = info;
  difference.all_tensors = std::int64_t(tensors.size());
  for (const auto& [name, both] : tensors) {
    CheckpointDifference::Tensor tensor{
        name, both.first ? both.first->dims : both.second->dims, misfit_of(both.first, both.second), {}};
    if (tensor.misfit.empty()) tensor.values = difference_of(a.file->read_f32(name), b.file->read_f32(name));
    if (!tensor.misfit.empty() || tensor.values.count) difference.tensors.push_back(std::move(tensor));
  }
  std::stable_partition(difference.tensors.begin(), difference.tensors.end(),
                        [](const auto& tensor) { return tensor.name.starts_with("parameters/"); });
  return difference;
}

}  // namespace mxtape
