#include "autograd/source.h"

#include <array>

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

constexpr std::array<std::string_view, 3> names{"source=master", "source=forward", "source=shared"};

}  // namespace

OperandSource parse_source(std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return OperandSource(i);
  fail(ExitCode::usage, "operand: unknown source '{}'{}", text, suggestion(text, names));
}

std::string to_text(OperandSource source) { return std::string(names[std::size_t(source)]); }

}  // namespace mxtape
