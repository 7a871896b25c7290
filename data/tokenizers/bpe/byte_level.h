#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace mxtape {

/// GPT-2's spelling of bytes in files: 33..126, 161..172 and 174..255 are themselves as characters, the other
/// 68 in order are U+0100 and up.
char32_t stand_in(unsigned char byte);
/// The number of a byte in GPT-2's order, which is that of its first 256 ids: those that stand for themselves
/// first.
int gpt2_order(unsigned char byte);
/// "Ġthe" for " the".
std::string to_stand_ins(std::string_view bytes);
/// The other way; none if a character is no stand-in.
std::optional<std::string> from_stand_ins(std::string_view piece);

}  // namespace mxtape
