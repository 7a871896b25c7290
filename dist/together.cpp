#include "dist/together.h"

#include <algorithm>
#include <optional>

#include "core/current_error.h"

namespace mxtape {
namespace {

/// Where two texts of several lines differ: the first such line of each.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  for (;;) {
    const std::string line_a(a.substr(0, a.find('\n'))), line_b(b.substr(0, b.find('\n')));
    if (line_a != line_b || (a.empty() && b.empty())) return {line_a, line_b};
    a.remove_prefix(std::min(line_a.size() + 1, a.size()));
    b.remove_prefix(std::min(line_b.size() + 1, b.size()));
  }
}

}  // namespace

std::string name_of(const Place& place) {
  return fmt::format("rank {} of {}{}", place.rank, place.size,
                     place.host.empty() ? "" : " (" + place.host + ")");
}

void together(Group* group, const std::function<void()>& work) {
  if (!group) return work();
  std::optional<Error> mine;
  try {
    work();
  } catch (const std::exception&) {
    mine = current_error();
  }
  const Place& place = group->place();
  const auto all = group->all_gather(
      mine ? fmt::format("{}\n{}\n{}", int(mine->code()), name_of(place), mine->what()) : "",
      Patience::alone);
  for (const std::string& text : all) {
    if (text.empty()) continue;
    const std::size_t name = text.find('\n') + 1, what = text.find('\n', name) + 1;
    const auto code = ExitCode(std::stoi(text));
    if (place.rank != 0) throw SaidElsewhere(code);
    throw Error(code, &text == &all[0] ? text.substr(what)
                                       : text.substr(name, what - 1 - name) + ": " + text.substr(what));
  }
}

void require_same(Group& group, ExitCode code, std::string_view what, std::string_view mine,
                  std::string_view advice) {
  const Place& place = group.place();
  const auto all = group.all_gather(name_of(place) + "\n" + std::string(mine), Patience::alone);
  const auto split = [](const std::string& text) {
    const std::size_t end = text.find('\n');
    return std::pair{text.substr(0, end), text.substr(end + 1)};
  };
  const auto [first_name, first] = split(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto [name, text] = split(all[rank]);
    if (text == first) continue;
    if (place.rank != 0) throw SaidElsewhere(code);
    const auto [here, there] = first_difference(first, text);
    fail(code, "the processes of the run differ in {}: {} has '{}', {} has '{}'; {}", what, first_name, here,
         name, there, advice);
  }
}

}  // namespace mxtape
