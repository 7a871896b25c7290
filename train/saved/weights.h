#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "train/saved/header.h"

namespace mxtape {

/// A parameter that comes in parts.
struct SavedTensor {
  std::string name;  ///< of the parameter
  Shape shape;
  /// Calls its argument with the elements, row-major, in as many parts as it likes.
  std::function<void(const std::function<void(std::span<const float>)>&)> read;
};

/// Writes a checkpoint that holds no moments: of a run before its first step. In memory is the file, once,
/// and what the tensors read. `progress` hears of numbers. Throws as write_checkpoint() (train/checkpoint.h).
void write_weights(const std::filesystem::path&, const CheckpointHeader&, std::span<const SavedTensor>,
                   const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

}  // namespace mxtape
