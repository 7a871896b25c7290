#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace mxtape {

/// A message as people read it: of a line of more than 2,000 bytes, which repeats what somebody wrote, the
/// middle is left out.
std::string with_short_lines(std::string_view message);

/// What an error of the JSON library says, without "[json.exception.parse_error.101] " in front and without
/// more than a line of the text that it quotes.
std::string json_reason(const std::exception&);

}  // namespace mxtape
