#include "program/records/model_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "core/files/status.h"
#include "data/json/json_file.h"
#include "data/tokenizers/sentencepiece/model_proto.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_files.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path.empty() ? "." : path, error);
  const bool nowhere =
      error == std::errc::no_such_file_or_directory || error == std::errc::too_many_symbolic_link_levels;
  require(!nowhere, ExitCode::data, "{}: a link that leads nowhere", path.string());
  require(!error, ExitCode::resource, "{}: cannot be followed: {}", path.string(), error.message());
  return real;
}

void require_stays(const fs::path& link) {
  const fs::path target = resolved(link), home = resolved(link.parent_path());
  const bool inside =
      std::mismatch(home.begin(), home.end(), target.begin(), target.end()).first == home.end();
  const bool cached = home.parent_path().filename() == "snapshots" &&
                      target.parent_path() == home.parent_path().parent_path() / "blobs";
  require(inside || cached, ExitCode::data,
          "{}: a link to {}, out of its folder; put the file itself there if it is part of the model",
          link.string(), target.string());
}

/// Throws Error(data) for what is not what the file's name says.
void check_content(const fs::path& file) {
  if (file.extension() == ".json")
    return require(read_json_file(file).is_object(), ExitCode::data, "{}: no object; want {{...}}",
                   file.string());
  const std::string text = read_whole_text(file);
  if (file.extension() == ".model") return in_file(file, [&] { (void)read_sentencepiece_proto(text); });
  require(first_bad_byte(text) == text.size(), ExitCode::data, "{}: byte {} is not UTF-8; want a text",
          file.string(), first_bad_byte(text));
}

}  // namespace

std::vector<std::string> model_files_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::vector<std::string_view> names(tokenizer_file_names.begin(), tokenizer_file_names.end());
  names.push_back(generation_config_name);  // no part of it, but goes with it
  for (const auto name : names) {
    const fs::path file = folder / name;
    const fs::file_status link = link_status_of(file);
    if (!fs::exists(link)) continue;
    if (fs::is_symlink(link)) require_stays(file);
    require(fs::is_regular_file(status_of(file)), ExitCode::data,
            "{}: is a folder, device or pipe; want a file, or nothing of that name", file.string());
    files.emplace_back(name);
  }
  return files;
}

fs::path folder_of_model_files(const fs::path& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).parent_path();
  return folder.filename() == "checkpoints" ? folder.parent_path() : folder;
}

void copy_model_files(const fs::path& from, const fs::path& to) {
  if (is_there(to) && resolved(from) == resolved(to)) return;
  for (const auto& name : model_files_in(from)) {
    check_content(from / name);
    write_atomically(to / name, read_whole(from / name));
  }
}

}  // namespace mxtape
