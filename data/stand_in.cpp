#include "data/stand_in.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "core/error.h"

namespace mxtape {

void require_no_stand_in(const std::filesystem::path& path, std::string_view first, std::uint64_t size) {
  require(size > 0, ExitCode::data, "{}: is empty", path.string());
  require(!first.starts_with("version https://git-lfs"), ExitCode::data,
          "{}: a Git LFS pointer of {} bytes, not the file; `git lfs pull` fetches it", path.string(), size);
  std::string low(first.substr(0, 64));
  std::ranges::transform(low, low.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  const auto begin = std::min(low.find_first_not_of(" \t\r\n"), low.size());
  const std::string_view text = std::string_view(low).substr(begin);
  require(!text.starts_with("<!doctype") && !text.starts_with("<html"), ExitCode::data,
          "{}: a page of HTML, not the file; download it anew", path.string());
}

}  // namespace mxtape
