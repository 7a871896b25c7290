#include "autograd/source.h"

#include "core/error.h"
#include "core/text/nearest_name.h"

namespace mxtape {
namespace {

constexpr std::string_view names[]{"source=master", "source=forward", "source=shared"};

}  // namespace

OperandSource parse_source(std::string_view text) {
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (text == names[i]) return OperandSource(i);
  fail(ExitCode::usage, "operand: unknown source '{}'{}", text, suggestion(text, names));
}

std::string to_text(OperandSource source) { return std::string(names[std::size_t(source)]); }

}  // namespace mxtape
