#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5/hdf5.h"
#include "data/tokenizers/tokenizer.h"
#include "interop/model_facts.h"

namespace mxtape {

/// Has `count` elements read some at a time, by read(first, room), and hands them on.
template <class Read>
void in_pieces(std::int64_t count, const TensorSink& sink, const Read& read) {
  std::vector<float> values;
  for (std::int64_t done = 0; done < count; done += std::int64_t(values.size())) {
    values.resize(std::size_t(std::min<std::int64_t>(1 << 20, count - done)));
    read(std::uint64_t(done), std::span(values));
    sink(values);
  }
}

/// A model that somebody else wrote, before its numbers are read. Its headers have been read and hold
/// together; the tensors are all there, in the right shapes and types.
struct ImportedModel {
  ModelFacts facts;
  std::int64_t context = 0;
  std::string where{};   ///< of the file that says what the model is, for messages
  std::string source{};  ///< "config.json and model.safetensors"
  std::string types{};   ///< "F32", "F16 BF16"
  std::int64_t tensors_read = 0;
  std::vector<std::string> buffers{};  ///< in the file, no parameters
  std::vector<std::string> unread{};   ///< keys of its config that mxtape does not know
  std::vector<std::string> notes{};
  std::vector<TensorInParts> tensors{};  ///< ours, read from somewhere else
  std::optional<Tokenizer> tokenizer{};  ///< that is in the file
  std::shared_ptr<const void> files{};   ///< what `read` reads from

  std::int64_t parameters() const;
  /// The recipe's [model]. Throws Error(data): model_config_of().
  ModelConfig config() const { return model_config_of(facts, context, where); }
};

struct TensorPart;
struct TensorPlan;
/// What a file has of a tensor.
struct ForeignTensor {
  std::vector<std::uint64_t> dims;
  std::string_view type;  ///< "F32"
};
/// Hands on so many rows of a part, in ours' order.
using PartReader = std::function<void(const TensorPart&, std::int64_t rows, const TensorSink&)>;
/// Adds the tensors of a plan, whose parts are in a file under `name`. Throws Error(data) for one that is
/// missing or of another shape, and for one that is left over.
void take_tensors(ImportedModel&, const std::vector<TensorPlan>&, std::string TensorPart::*name,
                  std::map<std::string, ForeignTensor> there, const PartReader&);

/// Reads a Hugging Face folder, a GGUF file, or one of llm.c's. Throws Error(data) with the file for whatever
/// does not fit: docs/interop.md. Error(usage) for a context that the model has not.
ImportedModel open_foreign_model(const std::filesystem::path& folder_or_file,
                                 std::optional<std::int64_t> context = {});
ImportedModel open_hf_folder(const std::filesystem::path&, std::optional<std::int64_t> context = {});
ImportedModel open_gguf_file(const std::filesystem::path&, std::optional<std::int64_t> context = {});
/// llm.c's model.bin: github.com/karpathy/llm.c, gpt2_write_to_checkpoint().
ImportedModel open_llmc_file(const std::filesystem::path&, std::optional<std::int64_t> context = {});

}  // namespace mxtape
