#pragma once
#include <charconv>
#include <optional>
#include <string_view>

namespace mxtape {

/// The number in decimals that the whole of a text is; none if it is something else, or beyond the type.
template <class T>
std::optional<T> number_of(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace mxtape
