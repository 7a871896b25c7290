#pragma once
#include <filesystem>
#include <string>

#include "data/hdf5/token_file.h"
#include "train/checkpoint.h"

namespace mxtape {

/// Throws Error(data) if the data's tokens are not those that the checkpoint was trained with: its weights
/// know them by number, so no --allow-change could make up for it.
void require_same_tokenizer(const CheckpointHeader&, const std::filesystem::path& checkpoint,
                            const TokenFile&, const std::string& data_file);
/// The same of weights in `file` that know the tokens `there`; `option`: of `mxtape prepare`, that gives
/// them.
void require_same_tokenizer(const Tokenizer& there, const std::filesystem::path& file,
                            const std::string& option, const TokenFile&, const std::string& data_file);

}  // namespace mxtape
