#pragma once
#include <span>
#include <string>
#include <string_view>

#include "formats/quantizer.h"

// The words of a quantizer's text form: what text.cpp parses and writes.
namespace mxtape {

/// One "key=value" word, or a bare flag with an empty value, and the text it stands in.
struct TextWord {
  std::string_view key, value, text;
};

/// A key of the text form: how it changes a quantizer, and how it is written (empty: it means nothing for q).
struct TextKey {
  std::string_view name;
  bool flag;  ///< stands alone, without a value
  void (*read)(Quantizer&, const TextWord&);
  std::string (*write)(const Quantizer&);
};

/// In the order in which they apply and are written.
std::span<const TextKey> text_keys();

/// Whether the scale has an exponent that a rule chooses.
inline bool has_exponent(const Quantizer& q) { return q.scale == ScaleKind::power_of_two; }
/// Whether a block of f32 can be beyond it.
inline bool may_overflow(const Quantizer& q) {
  const int most = shared_exponent(exponent_rule(q.element, q.rule), 0x1.fffffep127f);
  return has_exponent(q) && most >= 1 << (q.scale_bits - 1);
}

}  // namespace mxtape
