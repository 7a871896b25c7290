#pragma once
#include <algorithm>
#include <string>
#include <vector>

namespace mxtape::test {

/// The first fault of a page as XML: a tag that is not closed, or closed by another; an attribute without
/// quotes, an ampersand or "<" that is none. "" if it is well-formed.
inline std::string html_fault(const std::string& page) {
  std::vector<std::string> open;
  std::size_t i = page.starts_with("<!DOCTYPE html>") ? 15 : 0;
  for (; i < page.size(); ++i) {
    if (page[i] == '&') {
      const auto end = page.find(';', i);
      if (end == std::string::npos || end - i > 8) return "an ampersand at " + page.substr(i, 20);
    }
    if (page[i] == '>') return "a '>' at " + page.substr(i, 20);
    if (page[i] != '<') continue;
    const auto end = page.find('>', i);
    if (end == std::string::npos) return "no end of " + page.substr(i, 20);
    std::string tag = page.substr(i + 1, end - i - 1);
    i = end;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "'" + tag + "' closes nothing";
      open.pop_back();
      continue;
    }
    const bool empty = tag.ends_with("/");
    std::size_t quotes = 0;
    for (const char c : tag) quotes += c == '"';
    for (std::size_t k = 0; k < tag.size(); ++k)
      if (tag[k] == '=' && (k + 1 == tag.size() || tag[k + 1] != '"') &&
          std::count(tag.begin(), tag.begin() + std::ptrdiff_t(k), '"') % 2 == 0)
        return "no quotes in " + tag;
    if (quotes % 2 != 0 || tag.find('<') != std::string::npos) return "quotes in " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /\n"));
    if (!empty) open.push_back(name);
    if (name == "style") {  // CSS until its end
      const auto close = page.find("</style>", i);
      if (close == std::string::npos) return "style is not closed";
      i = close - 1;
    }
  }
  return open.empty() ? "" : "'" + open.back() + "' is not closed";
}

}  // namespace mxtape::test
