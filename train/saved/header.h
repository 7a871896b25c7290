#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/hdf5.h"
#include "data/hdf5/token_file.h"
#include "recipes/recipe.h"

namespace mxtape {

/// What a saved model says besides its tensors.
struct CheckpointHeader {
  std::int64_t step = 0;  ///< optimizer steps done
  Recipe recipe;  ///< resolved, the vocabulary filled in, without what changes no number (threads, folder)
  Tokenizer tokenizer;
  std::string data_hash;  ///< of the token file
  /// Where the run came from, and what was changed on the way: a JSON array (program/records/lineage.h), or
  /// empty.
  std::string lineage = "";
  std::string written_by = "";  ///< "mxtape 0.1.0"; filled in when it is read
};

/// The attribute `content` of the files that hold a model.
inline constexpr std::string_view checkpoint_content = "mxtape checkpoint";
inline constexpr std::string_view packed_content = "mxtape packed model";

/// A file whose seal has been checked: HDF5 must not see a byte before. Throws Error(data) as verify_seal().
std::shared_ptr<const Hdf5Reader> open_sealed(const std::filesystem::path&);
/// Its attribute `content`, or "".
std::string content_of(const Hdf5Reader&);

/// The header as attributes of "/", with content and layout version.
void write_header(Hdf5Writer&, std::string_view content, std::int64_t layout_version,
                  const CheckpointHeader&);
/// Throws Error(data) if something is missing or of another layout version.
CheckpointHeader read_header(const Hdf5Reader&, std::int64_t layout_version);

/// The extents of a dataset, at most four.
Shape shape_of(const std::vector<std::int64_t>& dims);

}  // namespace mxtape
