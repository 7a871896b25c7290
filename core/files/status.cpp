#include "core/files/status.h"

#include "core/error.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

fs::file_status seen(const fs::path& path, fs::file_status (*look)(const fs::path&, std::error_code&)) {
  std::error_code error;
  const fs::file_status status = look(path, error);
  if (error == std::errc::filename_too_long || error == std::errc::too_many_symbolic_link_levels)
    return fs::file_status(fs::file_type::not_found);
  require(fs::status_known(status), ExitCode::resource, "{}: cannot be looked at: {}", path.string(),
          error.message());
  return status;
}

}  // namespace

fs::file_status status_of(const fs::path& path) { return seen(path, fs::status); }
fs::file_status link_status_of(const fs::path& path) { return seen(path, fs::symlink_status); }

bool is_there(const fs::path& path) { return fs::exists(status_of(path)); }
bool is_folder(const fs::path& path) { return fs::is_directory(status_of(path)); }

}  // namespace mxtape
