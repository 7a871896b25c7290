#include "core/text/printable.h"

#include <fmt/format.h>

namespace mxtape {

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool plain = (byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t';
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0)  // U+0080 to U+009F
      shown += fmt::format("<U+{:04X}>", text[++i] & 0xff);
    else if (plain)
      shown += text[i];
    else
      shown += fmt::format("<U+{:04X}>", byte);
  }
  return shown;
}

}  // namespace mxtape
