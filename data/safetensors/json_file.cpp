#include "data/safetensors/json_file.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/random_access.h"
#include "data/safetensors/safetensors_file.h"
#include "data/tokenizers/bpe/tokenizer_json.h"

namespace mxtape {

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const RandomAccessFile file(path);
  require(file.size() <= largest_header, ExitCode::data, "{}: {} bytes; want at most {}", path.string(),
          file.size(), largest_header);
  const std::string text = file.beginning(std::size_t(file.size())), other = stand_in(text, text.size());
  require(other.empty(), ExitCode::data, "{}: {}", path.string(), other);
  try {
    return parse_json_strictly(text);
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", path.string(), e.what());
  }
}

}  // namespace mxtape
