#pragma once
#include <string>
#include <string_view>

namespace mxtape {

/// The text with control characters by number, "<U+001B>", but for line feeds and tabs: a message quotes
/// files of anybody, and a terminal obeys these.
std::string printable(std::string_view text);

}  // namespace mxtape
