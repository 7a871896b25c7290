#include "data/hdf5/long_text.h"

#include <algorithm>

namespace mxtape {
namespace {

constexpr std::size_t longest = 48 * 1024;

std::string part(const std::string& name, std::size_t index) { return name + "." + std::to_string(index); }

}  // namespace

void write_long_text(Hdf5Writer& file, const std::string& name, const std::string& text) {
  if (text.size() <= longest) return file.attribute("/", name, text);
  std::size_t index = 0;
  for (std::size_t begin = 0; begin < text.size(); ++index) {
    std::size_t end = std::min(begin + longest, text.size());
    // Whole characters: a part that ends inside one would be no UTF-8 text.
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    file.attribute("/", part(name, index), text.substr(begin, end - begin));
    begin = end;
  }
}

std::string read_long_text(const Hdf5Reader& file, const std::string& name) {
  if (!file.has_attribute("/", part(name, 0))) return file.text_attribute("/", name);
  std::string text;
  for (std::size_t index = 0; file.has_attribute("/", part(name, index)); ++index)
    text += file.text_attribute("/", part(name, index));
  return text;
}

std::optional<std::string> find_long_text(const Hdf5Reader& file, const std::string& name) {
  if (!file.has_attribute("/", part(name, 0))) return file.find_text_attribute("/", name);
  return read_long_text(file, name);
}

}  // namespace mxtape
