#include "program/corpus/chooser.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"

namespace mxtape::tales {
namespace {

std::uint64_t sum_of(std::span<const Option> options) {
  std::uint64_t total = 0;
  for (const auto& option : options) total += option.weight;
  return total;
}

void require_apart(const Option& a, const Option& b) {
  const auto shorter = std::min(a.text.size(), b.text.size());
  require(shorter > 0 && a.text.compare(0, shorter, b.text, 0, shorter) != 0,
          "corpus grammar: '{}' and '{}' cannot be told apart", a.text, b.text);
}

const Option& at(std::span<const Option> first, std::span<const Option> second, std::size_t index) {
  return index < first.size() ? first[index] : second[index - first.size()];
}

/// Throws Error(internal) if an option's text begins another's, within `options` or between the two.
void require_prefix_free(std::span<const Option> options, std::span<const Option> others = {}) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) require_apart(options[i], options[j]);
    for (const auto& other : others) require_apart(options[i], other);
  }
}

}  // namespace

Table::Table(std::vector<Option> options) : options_(std::move(options)), total_(sum_of(options_)) {
  require_prefix_free(options_);
}

Table Table::without_endings(std::span<const std::string> words) const {
  Table rest;  // a part of a prefix-free set is prefix-free
  for (const auto& option : options_) {
    const std::string_view last = std::string_view(option.text).substr(option.text.rfind(' ') + 1);
    if (std::ranges::find(words, last) == words.end()) rest.options_.push_back(option);
  }
  rest.total_ = sum_of(rest.options_);
  return rest;
}

Option Chooser::record(std::span<const Option> first, std::span<const Option> second, std::uint64_t total) {
  const Option& taken = at(first, second, take(first, second, total));
  nats_ += std::log(double(total) / double(taken.weight));
  say(taken.text);
  return taken;
}

Option Chooser::pick(const Table& table, std::span<const Option> more) {
  require_prefix_free(more, table);
  return record(table, more, table.total() + sum_of(more));
}

Option Chooser::pick(std::span<const Option> options) {
  require_prefix_free(options);
  return record(options, {}, sum_of(options));
}

std::size_t Writer::take(std::span<const Option> first, std::span<const Option> second, std::uint64_t total) {
  const auto bits = key_.group(choices_++);
  __extension__ using Wide = unsigned __int128;
  auto draw = std::uint64_t(Wide(std::uint64_t(bits[0]) << 32 | bits[1]) * total >> 64);
  std::size_t index = 0;
  for (; draw >= at(first, second, index).weight; ++index) draw -= at(first, second, index).weight;
  return index;
}

void Reader::say(std::string_view text) {
  if (!text_.substr(position_).starts_with(text)) refuse(std::array{text});
  position_ += text.size();
}

std::size_t Reader::take(std::span<const Option> first, std::span<const Option> second, std::uint64_t) {
  const auto rest = text_.substr(position_);
  for (std::size_t index = 0; index < first.size() + second.size(); ++index)
    if (rest.starts_with(at(first, second, index).text)) return index;
  std::vector<std::string_view> wanted;
  for (const auto options : {first, second})
    for (const auto& option : options) wanted.push_back(option.text);
  refuse(wanted);
}

void Reader::refuse(std::span<const std::string_view> wanted) const {
  const auto rest = text_.substr(position_);
  const auto agreement = [&](std::string_view want) {
    return std::size_t(std::ranges::mismatch(rest, want).in1 - rest.begin());
  };
  std::size_t good = 0;
  for (const auto want : wanted) good = std::max(good, agreement(want));
  std::string examples;
  for (std::size_t i = 0, named = 0; i < wanted.size() && named < 4; ++i)
    if (agreement(wanted[i]) == good) {
      examples += fmt::format("{}'{}'", named ? " or " : "", wanted[i]);
      ++named;
    }
  const auto before = text_.substr(0, position_ + good);
  const auto line = 1 + std::ranges::count(before, '\n');
  fail(ExitCode::data, "character {} (line {}): found '{}' where the grammar has {}", before.size(), line,
       position_ + good < text_.size() ? std::string(text_.substr(position_ + good, 12))
                                       : "the end of the text",
       examples);
}

}  // namespace mxtape::tales
