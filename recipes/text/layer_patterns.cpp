#include "recipes/text/layer_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

constexpr std::string_view prefix = "blocks.", slice_prefix = "blocks[";

/// "blocks.11.attn" counted from the end: "blocks.-1.attn" in a model of 12 blocks. Other names as they are.
std::string from_the_end(const std::string& name, std::int64_t layers) {
  if (!name.starts_with(prefix)) return name;
  const auto dot = name.find('.', prefix.size());
  return fmt::format("{}{}{}", prefix, std::stoll(name.substr(prefix.size(), dot)) - layers,
                     name.substr(dot));
}

std::vector<std::string_view> split_alternatives(std::string_view patterns) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= patterns.size();) {
    const auto end = std::min(patterns.find('|', begin), patterns.size());
    parts.push_back(patterns.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// One end of a slice: a whole number, or nothing.
bool read_bound(std::string_view text, std::optional<std::int64_t>& bound) {
  if (text.empty()) return true;
  std::int64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  bound = number;
  return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

/// "blocks[:2].*" as globs, one for each block: "blocks.0.*", "blocks.1.*". Any other pattern is itself.
std::vector<std::string> globs_of(std::string_view pattern, std::int64_t layers, std::string_view where) {
  if (!pattern.starts_with(slice_prefix)) return {std::string(pattern)};
  const auto close = std::min(pattern.find(']'), pattern.size());
  const auto inside = pattern.substr(slice_prefix.size(), close - slice_prefix.size());
  const auto colon = inside.find(':');
  std::optional<std::int64_t> first, end;
  require(close < pattern.size() && colon != std::string_view::npos &&
              read_bound(inside.substr(0, colon), first) && read_bound(inside.substr(colon + 1), end),
          ExitCode::usage,
          "{}: '{}' is no slice of blocks; want blocks[first:end], either end left out or counted from the "
          "end, as in blocks[:2].*, blocks[-8:].* or blocks[2:-2].*; one block is blocks.3 or blocks.-1",
          where, pattern);
  for (const auto& bound : {first, end})
    require(!bound || (*bound <= layers && *bound >= -layers), ExitCode::usage,
            "{}: '{}' counts more blocks than the model has: model.layers = {}", where, pattern, layers);
  const auto from_start = [&](std::int64_t bound) { return bound < 0 ? bound + layers : bound; };
  const std::int64_t begin = from_start(first.value_or(0)), stop = end ? from_start(*end) : layers;
  require(begin < stop, ExitCode::usage, "{}: '{}' is empty: from block {} to before block {} of {}", where,
          pattern, begin, stop, layers);
  std::vector<std::string> globs;
  for (std::int64_t i = begin; i < stop; ++i)
    globs.push_back(fmt::format("{}{}{}", prefix, i, pattern.substr(close + 1)));
  return globs;
}

}  // namespace

bool matches_glob(std::string_view glob, std::string_view name) {
  const auto star = glob.find('*');
  if (star == std::string_view::npos) return glob == name;
  if (name.substr(0, star) != glob.substr(0, star)) return false;
  const auto rest = glob.substr(star + 1);
  for (std::size_t i = star; i <= name.size(); ++i)
    if (matches_glob(rest, name.substr(i))) return true;
  return false;
}

std::vector<std::string> matching_layers(std::string_view patterns, const std::vector<std::string>& names,
                                         std::int64_t layers, std::string_view where) {
  std::vector<std::string> found;
  for (const auto pattern : split_alternatives(patterns)) {
    const std::size_t before = found.size();
    for (const auto& glob : globs_of(pattern, layers, where))
      for (const auto& name : names)
        if (matches_glob(glob, name) || matches_glob(glob, from_the_end(name, layers))) found.push_back(name);
    if (found.size() > before) continue;
    // "blocks.last.*", "blocks.first": a block is a number.
    const bool named = pattern.starts_with(prefix) && pattern.size() > prefix.size() &&
                       std::isalpha(static_cast<unsigned char>(pattern[prefix.size()]));
    const std::vector<std::string_view> known(names.begin(), names.end());
    fail(ExitCode::usage, "{}: no layer matches '{}'{}; layers:{}", where, pattern,
         named ? "; the first block is blocks.0, the last one blocks.-1" : "", listed(known));
  }
  return found;
}

}  // namespace mxtape
