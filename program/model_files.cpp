#include "program/model_files.h"

#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// What a folder's tokenizer may consist of. generation_config.json is no part of it, but goes with it.
constexpr std::string_view names[] = {"tokenizer.json",
                                      "tokenizer.model",
                                      "vocab.json",
                                      "merges.txt",
                                      "encoder.json",
                                      "vocab.bpe",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "chat_template.jinja",
                                      generation_config_name};

}  // namespace

std::vector<std::string> model_files_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code unknown;
  for (const auto name : names)
    if (fs::is_regular_file(folder / name, unknown)) files.emplace_back(name);
  return files;
}

fs::path folder_of_model_files(const fs::path& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : folder;
}

void copy_model_files(const fs::path& from, const fs::path& to) {
  std::error_code unknown;
  if (fs::equivalent(from, to, unknown)) return;
  for (const auto& name : model_files_in(from)) write_atomically(to / name, read_whole(from / name));
}

}  // namespace mxtape
