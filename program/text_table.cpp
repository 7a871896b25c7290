#include "program/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace mxtape {

void TextTable::row(std::vector<std::string> cells) {
  require(cells.size() == columns_.size(), "a row of {} cells in a table of {} columns", cells.size(),
          columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(std::size_t width) const {
  std::vector<std::size_t> widths, shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    widths.push_back(columns_[i].name.size());
    for (const auto& cells : rows_) widths[i] = std::max(widths[i], cells[i].size());
    shown.push_back(i);
  }
  const auto length = [&] {
    std::size_t sum = 2 * (shown.size() - 1);
    for (const std::size_t i : shown) sum += widths[i];
    return sum;
  };
  while (width != 0 && length() > width) {
    const auto rank = [&](std::size_t i) { return columns_[i].spare ? columns_[i].spare : 1 << 20; };
    const auto first =
        std::min_element(shown.begin(), shown.end(), [&](auto a, auto b) { return rank(a) < rank(b); });
    if (columns_[*first].spare == 0) break;
    shown.erase(first);
  }
  std::string text;
  const auto put = [&](const auto& cell_of) {
    std::string line;
    for (const std::size_t i : shown)
      line += columns_[i].left ? fmt::format("{:<{}}  ", cell_of(i), widths[i])
                               : fmt::format("{:>{}}  ", cell_of(i), widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  put([&](std::size_t i) { return columns_[i].name; });
  for (const auto& cells : rows_) put([&](std::size_t i) { return cells[i]; });
  return text;
}

}  // namespace mxtape
