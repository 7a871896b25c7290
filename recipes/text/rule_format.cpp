#include "recipes/text/rule_format.h"

namespace mxtape {

SlotValue parse_rule_format(const std::string& text) {
  if (is_rotation_text(text)) return parse_rotation(text);
  if (is_straight_through_text(text)) return parse_straight_through(text);
  if (is_source_text(text)) return parse_source(text);
  return parse_quantizer(text);
}

std::string plain_rule_format(const std::string& text) {
  return std::visit([](const auto& value) { return to_text(value); }, parse_rule_format(text));
}

}  // namespace mxtape
