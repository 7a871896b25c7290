#include <algorithm>

#include "data/tokenizers/bpe/json_section.h"
#include "data/tokenizers/bpe/tokenizer_json.h"

namespace mxtape {
namespace {

using nlohmann::json;

/// Calls body(step, path) for the steps of a Sequence, or for the one step that it is.
template <class Body>
void for_each_step(const json& value, const std::string& path, const std::string& list, const Body& body) {
  JsonSection section(value, path);
  if (section.text("type") != "Sequence") return body(value, path);
  const json& steps = section.array(list);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string place = fmt::format("{}.{}[{}]", path, list, i);
    require(!steps[i].is_object() || steps[i].value("type", "") != "Sequence", ExitCode::data,
            "{}: a Sequence in a Sequence is not understood", place);
    body(steps[i], place);
  }
  section.done();
}

/// {"String": ".."} or {"Regex": ".."}; returns whether it is a regular expression.
bool read_pattern(JsonSection& step, std::string& text) {
  JsonSection pattern = step.section("pattern");
  const bool regex = pattern.find("Regex") != nullptr;
  text = pattern.text(regex ? "Regex" : "String");
  pattern.done();
  require(!text.empty(), ExitCode::data, "{}: is empty", pattern.path());
  return regex;
}

SplitStep::Prepend prepend_scheme(JsonSection& step) {
  const bool legacy = step.flag("add_prefix_space", true);
  const std::string scheme = step.text_or("prepend_scheme", legacy ? "always" : "never");
  if (scheme == "always") return SplitStep::Prepend::always;
  if (scheme == "first") return SplitStep::Prepend::first;
  if (scheme == "never") return SplitStep::Prepend::never;
  step.refuse("prepend_scheme", scheme, "always first never");
}

SplitStep::Behaviour behaviour_of(JsonSection& step) {
  using Behaviour = SplitStep::Behaviour;
  constexpr std::pair<std::string_view, Behaviour> known[] = {
      {"Isolated", Behaviour::isolated},
      {"Removed", Behaviour::removed},
      {"MergedWithPrevious", Behaviour::with_previous},
      {"MergedWithNext", Behaviour::with_next},
      {"Contiguous", Behaviour::contiguous}};
  const std::string& name = step.text("behavior");
  for (const auto& [word, behaviour] : known)
    if (word == name) return behaviour;
  step.refuse("behavior", name, "Isolated Removed MergedWithPrevious MergedWithNext Contiguous");
}

SplitStep split_step(JsonSection& step) {
  using Kind = SplitStep::Kind;
  const std::string& type = step.text("type");
  if (type == "ByteLevel") {
    step.ignore("trim_offsets");  // of offsets, which a trainer does not need
    const bool prefix = step.flag("add_prefix_space", true);
    return {.kind = Kind::byte_level,
            .prepend = prefix ? SplitStep::Prepend::always : SplitStep::Prepend::never,
            .cuts = step.flag("use_regex", true)};
  }
  if (type == "Split") {
    SplitStep split{.kind = Kind::literal, .behaviour = behaviour_of(step), .invert = step.flag("invert")};
    if (read_pattern(step, split.text)) split.kind = Kind::pattern;
    return split;
  }
  if (type == "Digits") return {.kind = Kind::digits, .one_by_one = step.flag("individual_digits")};
  if (type == "Metaspace") {
    step.ignore("str_rep");
    return {.kind = Kind::metaspace,
            .text = step.text("replacement"),
            .prepend = prepend_scheme(step),
            .cuts = step.flag("split", true)};
  }
  step.refuse("type", type, "ByteLevel Split Digits Metaspace Sequence");
}

/// The ids of a template's special token.
std::vector<std::int32_t> template_token(JsonSection& tokens, const std::string& name,
                                         std::size_t vocabulary) {
  JsonSection token = tokens.section(name);
  std::vector<std::int32_t> ids;
  for (const json& id : token.array("ids")) {
    const auto value = JsonSection::integer_of(id, token.path("ids"));
    require(std::size_t(value) < vocabulary, ExitCode::data, "{}: id {}; the vocabulary has {}",
            token.path("ids"), value, vocabulary);
    ids.push_back(std::int32_t(value));
  }
  return ids;
}

void read_template(JsonSection& step, BpeRules& rules) {
  JsonSection tokens = step.section("special_tokens");
  bool before = true;
  for (const json& part : step.array("single")) {
    JsonSection item(part, step.path("single"));
    if (item.find("Sequence")) {
      require(before, ExitCode::data, "{}: the text twice is not understood", step.path("single"));
      before = false;
      continue;
    }
    JsonSection special = item.section("SpecialToken");
    const auto ids = template_token(tokens, special.text("id"), rules.pieces.size());
    auto& side = before ? rules.before : rules.after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  require(!before, ExitCode::data, "{}: the text is missing", step.path("single"));
  step.ignore("pair");
}

}  // namespace

void read_normalizer(const json& normalizer, const std::string& path, BpeRules& rules) {
  for_each_step(normalizer, path, "normalizers", [&](const json& value, const std::string& place) {
    JsonSection step(value, place);
    const std::string& type = step.text("type");
    NormalizerStep made{.kind = NormalizerStep::Kind::nfc};
    if (type == "Prepend") {
      made = {.kind = NormalizerStep::Kind::prepend, .text = step.text("prepend")};
    } else if (type == "Replace") {
      made.kind = NormalizerStep::Kind::replace;
      if (read_pattern(step, made.text)) step.refuse("pattern", "Regex", "String");
      made.with = step.text("content");
    } else if (type != "NFC") {
      step.refuse("type", type, "NFC Prepend Replace Sequence");
    }
    step.done();
    rules.normalizer.push_back(made);
  });
}

void read_pre_tokenizer(const json& pre_tokenizer, const std::string& path, BpeRules& rules) {
  for_each_step(pre_tokenizer, path, "pretokenizers", [&](const json& value, const std::string& place) {
    const bool last = rules.splitter.empty() || rules.splitter.back().kind != SplitStep::Kind::byte_level;
    require(last, ExitCode::data, "{}: a step after ByteLevel is not understood", place);
    JsonSection step(value, place);
    rules.splitter.push_back(split_step(step));
    step.done();
  });
}

void read_post_processor(const json& post_processor, const std::string& path, BpeRules& rules) {
  for_each_step(post_processor, path, "processors", [&](const json& value, const std::string& place) {
    JsonSection step(value, place);
    const std::string& type = step.text("type");
    if (type == "ByteLevel") return;  // of offsets alone
    if (type != "TemplateProcessing") step.refuse("type", type, "ByteLevel TemplateProcessing Sequence");
    require(rules.before.empty() && rules.after.empty(), ExitCode::data,
            "{}: a second template is not understood", place);
    read_template(step, rules);
    step.done();
  });
}

void read_decoder(const json& decoder, const std::string& path, BpeRules& rules) {
  DecodeRules& d = rules.decoder;
  bool fused = false;
  for_each_step(decoder, path, "decoders", [&](const json& value, const std::string& place) {
    JsonSection step(value, place);
    const std::string& type = step.text("type");
    if (type == "ByteLevel") {
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) step.ignore(key);
    } else if (type == "ByteFallback") {
      d.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      std::string from;
      if (read_pattern(step, from)) step.refuse("pattern", "Regex", "String");
      require(!fused && !d.byte_fallback, ExitCode::data,
              "{}: Replace after ByteFallback or Fuse is not understood", place);
      d.replace.emplace_back(from, step.text("content"));
    } else if (type == "Strip") {
      require(fused && d.strip_start == 0 && step.text("content") == " " && step.integer("stop") == 0,
              ExitCode::data,
              "{}: a Strip of anything but blanks at the start, after Fuse, is not understood", place);
      d.strip_start = int(step.integer("start"));
    } else if (type == "Metaspace") {
      d.metaspace = step.text("replacement");
      d.drop_first = prepend_scheme(step) != SplitStep::Prepend::never;
      step.ignore("split");
      step.ignore("str_rep");
    } else {
      step.refuse("type", type, "ByteLevel ByteFallback Fuse Replace Strip Metaspace Sequence");
    }
    step.done();
  });
}

}  // namespace mxtape
