#include "core/text/program_name.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mxtape {
namespace {

std::string name_in_use = "mxtape";

}  // namespace

std::string shell_quoted(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return (c < 128 && std::isalnum(c)) ||
           std::string_view("_./=:,+-").find(char(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

const std::string& program_name() { return name_in_use; }

void set_program_name(const std::string& word) {
  if (!word.empty()) name_in_use = shell_quoted(word);
}

}  // namespace mxtape
