#include "recipes/text/rule_format.h"

#include "autograd/operands/source.h"
#include "formats/rotation/rotation.h"
#include "formats/straight_through/straight_through.h"

namespace mxtape {

std::string plain_rule_format(const std::string& text) {
  if (is_rotation_text(text)) return to_text(parse_rotation(text));
  if (is_straight_through_text(text)) return to_text(parse_straight_through(text));
  if (is_source_text(text)) return to_text(parse_source(text));
  return to_text(parse_quantizer(text));
}

}  // namespace mxtape
