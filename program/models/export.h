#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/safetensors/header.h"

namespace mxtape {

/// As what a model is given to other programs.
enum class ExportForm : std::uint8_t {
  hf,          ///< a folder for transformers
  compressed,  ///< the same, with codes as compressed-tensors has them
  llmc,        ///< llm.c's model.bin
  gguf,        ///< one file for llama.cpp and its kin
  safetensors  ///< one file with mxtape's names
};
/// Which numbers: the f32 ones that are trained, or Q(W) of fprop.w, which the forward pass multiplies by.
enum class ExportWeights : std::uint8_t { master, rounded };

struct ExportRequest {
  std::string run;            ///< as checkpoint_of() takes it
  std::filesystem::path out;  ///< the folder or file
  ExportForm form = ExportForm::hf;
  std::optional<ExportWeights> weights{};  ///< none: master; of codes rounded, if any are
  TensorType type = TensorType::f32;
  std::optional<std::uint64_t> shard_bytes{};  ///< of folders, as vocabulary; none: as ExportOptions has it
  std::optional<std::int64_t> vocabulary{};    ///< rows of the table; the others are padding
  std::function<void(std::int64_t done, std::int64_t all)> progress{};  ///< in tensors
};

struct ExportReport {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;
  std::string architecture;          ///< "gpt2"; empty for plain safetensors
  std::string weights;               ///< "master", "rounded"
  std::uint64_t bytes = 0;           ///< of all files
  std::vector<std::string> notes{};  ///< what the form cannot say
};

/// Writes a checkpoint's model in the form of another program. Throws Error(usage) for a model that the form
/// cannot say, for an option of another form and for an output that is there; Error(data) for a checkpoint
/// that cannot be used, or a number beyond the type.
ExportReport export_model(const ExportRequest&);

}  // namespace mxtape
