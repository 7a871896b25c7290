#include "data/tokenizers/bpe/byte_level.h"

#include <array>

#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

constexpr char32_t first_other = 0x100;
constexpr int others = 68;

constexpr bool is_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct StandIns {
  std::array<char32_t, 256> of_byte{};
  std::array<int, 256> order{};
  std::array<unsigned char, first_other + others> byte_of{};

  constexpr StandIns() {
    int other = 0, itself = 0;
    for (int b = 0; b < 256; ++b) {
      order[std::size_t(b)] = is_itself(b) ? itself++ : 256 - others + other;
      of_byte[std::size_t(b)] = is_itself(b) ? char32_t(b) : first_other + char32_t(other++);
      byte_of[of_byte[std::size_t(b)]] = static_cast<unsigned char>(b);
    }
  }
};
constexpr StandIns table;
static_assert(table.of_byte[' '] == 0x120 && table.order['!'] == 0 && table.order[173] == 255);

}  // namespace

char32_t stand_in(unsigned char byte) { return table.of_byte[byte]; }
int gpt2_order(unsigned char byte) { return table.order[byte]; }

std::string to_stand_ins(std::string_view bytes) {
  std::string piece;
  for (const char b : bytes) append_utf8(piece, stand_in(static_cast<unsigned char>(b)));
  return piece;
}

std::optional<std::string> from_stand_ins(std::string_view piece) {
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const Character c = character_at(piece, at);
    if (c.length == 0 || c.value >= table.byte_of.size()) return std::nullopt;
    if (c.value < first_other && !is_itself(int(c.value))) return std::nullopt;
    bytes += char(table.byte_of[c.value]);
    at += c.length;
  }
  return bytes;
}

}  // namespace mxtape
