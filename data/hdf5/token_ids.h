#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "data/hdf5/token_file.h"

namespace mxtape {

/// How another program's files hold token ids. Layouts: docs/data.md.
struct IdFormat {
  int bits = 16;  ///< of one id: 16 or 32, unsigned, little-endian
  std::int64_t vocabulary = 0;
};

/// What was found in one file.
struct IdFile {
  std::string path;
  bool header = false;  ///< llm.c's; else ids from the first byte on
  std::int64_t count = 0;
  std::int64_t largest = 0;  ///< id
};

/// Reads files of token ids and joins them in their order. Throws Error(data) with the file for an empty or
/// cut one, for an id outside the vocabulary (with its position), for a header that does not fit the file;
/// Error(usage) where the format cannot be what it is called with. `on_file` is called after each file.
Split read_ids(std::span<const std::string> files, const IdFormat&,
               const std::function<void(const IdFile&)>& on_file);

/// Writes ids as read_ids reads them, with llm.c's header where that is asked for. Throws Error(usage) for
/// more ids than the header can count, Error(resource) as write_atomically.
void write_ids(const std::filesystem::path&, std::span<const std::int32_t> ids, int bits, bool llmc_header);

}  // namespace mxtape
