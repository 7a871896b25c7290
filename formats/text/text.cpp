#include <map>
#include <vector>

#include "formats/text/peer_names.h"
#include "formats/text/text_keys.h"
#include "formats/text/text_words.h"

namespace mxtape {
namespace {

Quantizer read_base(std::string_view name, std::string_view text) {
  for (const Preset& preset : presets)
    if (preset.name == name) return preset.quantizer;
  if (const auto element = parse_element(name)) return plain_cast(*element);
  auto known = names_in(presets);
  for (const NamedFormat& row : element_formats) known.push_back(row.name);
  for (const PeerName& row : peer_names) {
    if (row.name != name) continue;
    if (row.is_exact()) return read_base(row.ours, text);
    require(row.element.empty(), ExitCode::usage,
            "quantizer '{}': '{}' leaves open whether blocks have a scale; write '{}' for blocks of 32 with "
            "one, '{}' for a plain cast",
            text, name, row.blocks, row.element);
    fail(ExitCode::usage, "quantizer '{}': '{}' {}", text, name, row.remark);
  }
  fail(ExitCode::usage,
       "quantizer '{}': no {}{} (also any e<x>m<y> with x from 1 to 8 and y to 22, int<n> with n from 2 to "
       "24)",
       text, name == text ? "such format" : fmt::format("format '{}'", name), suggestion(name, known));
}

const TextKey& find_key(const TextWord& w) {
  for (const TextKey& key : text_keys())
    if (key.name == w.key) return key;
  fail(ExitCode::usage, "quantizer '{}': unknown word '{}'{}", w.text, w.key,
       suggestion(w.key, names_in(text_keys())));
}

/// Puts fields that mean nothing here to their defaults, so that equal roundings compare equal.
void forget_unused(Quantizer& q) {
  const Quantizer defaults;
  if (q.scale == ScaleKind::none) q.block = defaults.block;
  if (q.is_identity()) q.rounding = defaults.rounding;
  if (!has_exponent(q)) q.rule = defaults.rule;
  if (!may_overflow(q)) q.overflow = defaults.overflow;
  if (q.statistic != Statistic::rms) q.clip = defaults.clip;
  if (!q.is_stochastic()) q.sr_bits = defaults.sr_bits;
}

}  // namespace

Quantizer parse_quantizer(std::string_view text) {
  const auto words = split(text);
  require(!words.empty(), ExitCode::usage,
          "quantizer: empty; want a format such as mxfp4 or e2m1 block=32 scale=e8m0");
  Quantizer q = read_base(words[0], text);
  std::map<const TextKey*, TextWord> given;  // applied in the order of the table
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const bool bare = equals == std::string_view::npos;
    const TextWord w{words[i].substr(0, equals), bare ? "" : words[i].substr(equals + 1), text};
    const TextKey& key = find_key(w);
    require(bare == key.flag, ExitCode::usage, "quantizer '{}': '{}' {}", text, words[i],
            key.flag ? "stands alone, without a value" : "needs a value");
    require(given.emplace(&key, w).second, ExitCode::usage, "quantizer '{}': '{}' is given twice", text,
            w.key);
  }
  for (const auto& [key, word] : given) key->read(q, word);
  for (const auto& [key, word] : given)
    require(!key->write(q).empty(), ExitCode::usage, "quantizer '{}': '{}' has no effect here{}", text,
            key->name, q.scale == ScaleKind::none && !q.is_identity() ? "; is scale=e8m0 missing?" : "");
  forget_unused(q);
  const std::string contradiction = q.contradiction();
  require(contradiction.empty(), ExitCode::usage, "quantizer '{}': {}", text, contradiction);
  return q;
}

std::string to_text(const Quantizer& q) {
  std::string best;
  const auto try_base = [&](std::string_view name, Quantizer told) {  // told: what the text so far parses to
    std::string text(name);
    for (const TextKey& key : text_keys()) {
      const std::string value = key.write(q);
      if (value == key.write(told)) continue;
      if (value.empty()) return;  // the base says something that q does not
      text += key.flag ? fmt::format(" {}", key.name) : fmt::format(" {}={}", key.name, value);
      key.read(told, TextWord{key.name, value, text});
    }
    if (best.empty() || text.size() < best.size()) best = text;
  };
  const std::string element = q.element.name();
  for (const Preset& preset : presets)
    if (preset.quantizer.element.name() == element) try_base(preset.name, preset.quantizer);
  if (const auto plain = parse_element(element)) try_base(element, plain_cast(*plain));
  return best;
}

}  // namespace mxtape
