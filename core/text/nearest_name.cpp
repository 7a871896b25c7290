#include "core/text/nearest_name.h"

#include <algorithm>
#include <set>

namespace mxtape {

int edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances of a[0, i) to every prefix of b; a swap looks back two rows.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = int(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = int(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

namespace {
std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return small;
}
}  // namespace

std::vector<std::string_view> nearest_names(std::string_view text, std::span<const std::string_view> known) {
  const std::string word = in_small_letters(text);
  int best = std::max(2, int(word.size()) / 3) + 1;
  std::vector<std::string_view> nearest;
  for (const auto name : known) {
    const std::string whole = in_small_letters(name), last = whole.substr(whole.rfind('/') + 1);
    int distance = std::min(edit_distance(word, whole), edit_distance(word, last));
    // Nothing but letters left out, fewer than are there: "grads" of "gradients".
    if (std::size_t(distance) + word.size() == whole.size() && 2 * word.size() > whole.size())
      distance = (distance + 1) / 2;
    if (last.starts_with(word + "-")) distance = std::min(distance, 1);  // "demo" of "demo-bf16"
    if (distance < best) {
      best = distance;
      nearest = {name};
    } else if (distance == best && !nearest.empty()) {
      nearest.push_back(name);
    }
  }
  return nearest;
}

std::string listed(std::span<const std::string_view> names) {
  constexpr std::size_t most = 40;
  std::string text;
  for (const auto name : names.first(std::min(most, names.size()))) text.append(" ").append(name);
  if (names.size() > most) text.append(" and ").append(std::to_string(names.size() - most)).append(" more");
  return text;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  const auto nearest = nearest_names(word, known);
  if (nearest.empty()) return known.empty() ? "" : "; known:" + listed(known);
  std::string text = "; did you mean ";
  for (std::size_t i = 0; i < nearest.size(); ++i)
    text.append(i ? " or '" : "'").append(nearest[i]).append("'");
  return text + "?";
}

std::string near_path(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.parent_path();
  std::set<std::string> there;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, error), end; entry != end;
       entry.increment(error))
    there.insert((folder / entry->path().filename()).string());
  const std::vector<std::string_view> names(there.begin(), there.end());
  const int most = std::max(2, int(path.stem().native().size()) / 3);  // endings are alike by custom
  std::string text;
  for (const auto name : nearest_names(path.filename().native(), names))
    if (edit_distance(path.native(), name) <= most)
      text.append(text.empty() ? " (near: '" : ", '").append(name).append("'");
  return text.empty() ? text : text + ")";
}

}  // namespace mxtape
