#include "core/text/sections.h"

#include "core/error.h"

namespace mxtape {

std::string_view section_of(std::string_view text, std::string_view name) {
  const std::string heading = fmt::format("\n[{}]\n", name);
  const auto at = text.find(heading);
  require(at != text.npos, "a built-in text has no section [{}]", name);
  text.remove_prefix(at + heading.size());
  text = text.substr(0, text.find("\n["));
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

}  // namespace mxtape
