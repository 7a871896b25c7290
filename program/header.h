#pragma once
#include <cstdio>
#include <optional>
#include <string>

#include "data/hdf5/token_file.h"
#include "kernels/backend.h"
#include "program/run_folder.h"
#include "recipes/recipe.h"
#include "train/evaluate.h"

namespace mxtape {

/// What a person wants to know before the first step: version, recipe, seed, device, model, precision, data,
/// folder.
void print_header(std::FILE*, const Recipe&, const TokenFile&, const Backend&, const std::string& memory,
                  const std::filesystem::path& folder);
/// "every 500 steps, 8 of 8 slots in 17 of 17 layers, in the formats in use and 2 others".
std::string telemetry_text(const Recipe&);
/// "1742 of 1742 windows every 250 steps, 19% of the run's work".
std::string validation_text(const Recipe&, const TokenFile&);
/// Validation loss, perplexity, on how much of the split, the gap to the floor where it is known, and the
/// memory used.
void print_result(std::FILE*, const Evaluation&, std::optional<double> floor, std::int64_t peak_bytes);
/// The files of the run.
void print_paths(std::FILE*, const RunFolder&, std::int64_t step);

}  // namespace mxtape
