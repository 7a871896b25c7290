#include "recipes/text/layer_patterns.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "core/text/number.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

constexpr std::string_view prefix = "blocks.", slice_prefix = "blocks[";

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
  return (bound = number_of<std::int64_t>(text)).has_value();
}

}  // namespace

bool matches_glob(std::string_view glob, std::string_view name) {
  // Only the last star seen may have to take more letters: those before it have found their place.
  std::size_t g = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*')
      star = g++, taken = n;
    else if (g < glob.size() && glob[g] == name[n])
      ++g, ++n;
    else if (star == std::string_view::npos)
      return false;
    else
      g = star + 1, n = ++taken;
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

LayerNames::LayerNames(std::vector<std::string> names, std::int64_t blocks) : blocks_(blocks) {
  for (std::string& name : names) {
    Name& one = names_.emplace_back();
    one.from_the_end = one.text = std::move(name);
    if (!one.text.starts_with(prefix)) continue;
    one.block = std::stoll(one.text.substr(prefix.size()));
    one.from_the_end = fmt::format("{}{}{}", prefix, one.block - blocks, one.in_block());
  }
}

std::string_view LayerNames::Name::in_block() const {
  return std::string_view(text).substr(text.find('.', prefix.size()));
}

/// "blocks[:2].*": blocks from `begin` to before `stop`, and what follows the bracket.
struct LayerNames::Slice {
  std::int64_t begin, stop;
  std::string_view glob;
};

LayerNames::Slice LayerNames::slice_of(std::string_view pattern, std::string_view where) const {
  const auto close = std::min(pattern.find(']'), pattern.size());
  const auto inside = pattern.substr(slice_prefix.size(), close - slice_prefix.size());
  const auto colon = inside.find(':');
  std::optional<std::int64_t> first, end;
  require(close < pattern.size() && colon != std::string_view::npos &&
              read_bound(inside.substr(0, colon), first) && read_bound(inside.substr(colon + 1), end),
          ExitCode::usage,
          "{}: {} is no slice of blocks; want blocks[first:end], either end left out or counted from the "
          "end, as in blocks[:2].*, blocks[-8:].* or blocks[2:-2].*; one block is blocks.3 or blocks.-1",
          where, shown_text(pattern));
  for (const auto& bound : {first, end})
    require(!bound || (*bound <= blocks_ && *bound >= -blocks_), ExitCode::usage,
            "{}: {} counts more blocks than the model has: model.layers = {}", where, shown_text(pattern),
            blocks_);
  const auto from_start = [&](std::int64_t bound) { return bound < 0 ? bound + blocks_ : bound; };
  const std::int64_t begin = from_start(first.value_or(0)), stop = end ? from_start(*end) : blocks_;
  require(begin < stop, ExitCode::usage, "{}: {} is empty: from block {} to before block {} of {}", where,
          shown_text(pattern), begin, stop, blocks_);
  return {begin, stop, pattern.substr(close + 1)};
}

std::vector<std::string> LayerNames::matching(std::string_view patterns, std::string_view where) const {
  std::vector<std::string> found;
  for (const auto pattern : split_alternatives(patterns)) {
    const std::size_t before = found.size();
    std::optional<Slice> slice;
    if (pattern.starts_with(slice_prefix)) slice = slice_of(pattern, where);
    for (const Name& name : names_) {
      const bool matches = slice
                               ? slice->begin <= name.block && name.block < slice->stop &&
                                     matches_glob(slice->glob, name.in_block())
                               : matches_glob(pattern, name.text) || matches_glob(pattern, name.from_the_end);
      if (matches) found.push_back(name.text);
    }
    if (found.size() > before) continue;
    // "blocks.last.*", "blocks.first": a block is a number.
    const bool named = pattern.starts_with(prefix) && pattern.size() > prefix.size() &&
                       std::isalpha(static_cast<unsigned char>(pattern[prefix.size()]));
    std::vector<std::string_view> known;
    for (const Name& name : names_) known.push_back(name.text);
    fail(ExitCode::usage, "{}: no layer matches {}{}; layers:{}", where, shown_text(pattern),
         named ? "; the first block is blocks.0, the last one blocks.-1" : "", listed(known));
  }
  return found;
}

}  // namespace mxtape
