#include <algorithm>

#include "core/error.h"
#include "data/json/json_section.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using nlohmann::json;

/// Calls body(step, type) for the steps of a Sequence, or for the one step that it is. Each is read whole.
template <class Body>
void for_each_step(const json& value, const std::string& path, const std::string& list, const Body& body) {
  JsonSection section(value, path);
  if (const std::string& type = section.text("type"); type != "Sequence") {
    body(section, type);
    return section.done();
  }
  const json& steps = section.array(list);
  require(steps.size() <= most_rule_steps, ExitCode::data, "{}.{}: {} steps; want at most {}", path, list,
          steps.size(), most_rule_steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    JsonSection step(steps[i], fmt::format("{}.{}[{}]", path, list, i));
    const std::string& type = step.text("type");
    require(type != "Sequence", ExitCode::data, "{}: a Sequence in a Sequence is not understood",
            step.path());
    body(step, type);
    step.done();
  }
  section.done();
}

/// A text of at most longest_rule_text bytes.
const std::string& rule_text(JsonSection& step, const std::string& key) {
  const std::string& text = step.text(key);
  require(text.size() <= longest_rule_text, ExitCode::data, "{}: has {} bytes; want at most {}",
          step.path(key), text.size(), longest_rule_text);
  return text;
}

/// What a Metaspace writes for a blank. More would be cut in two, less could not be found again.
const std::string& one_character(JsonSection& step, const std::string& key) {
  const std::string& text = step.text(key);
  require(!text.empty() && character_at(text, 0).length == text.size(), ExitCode::data,
          "{}: {}; want one character", step.path(key), shown_text(text));
  return text;
}

/// {"String": ".."} or {"Regex": ".."}; returns whether it is a regular expression.
bool read_pattern(JsonSection& step, std::string& text) {
  JsonSection pattern = step.section("pattern");
  const bool regex = pattern.find("Regex") != nullptr;
  text = regex ? pattern.text("Regex") : rule_text(pattern, "String");
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
  step.refuse("prepend_scheme", "always first never");
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
  step.refuse("behavior", "Isolated Removed MergedWithPrevious MergedWithNext Contiguous");
}

SplitStep split_step(JsonSection& step, const std::string& type) {
  using Kind = SplitStep::Kind;
  if (type == "ByteLevel") {
    step.ignore({"trim_offsets"});  // of offsets, which a trainer does not need
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
    step.ignore({"str_rep"});
    return {.kind = Kind::metaspace,
            .text = one_character(step, "replacement"),
            .prepend = prepend_scheme(step),
            .cuts = step.flag("split", true)};
  }
  step.refuse("type", "ByteLevel Split Digits Metaspace Sequence");
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
  token.ignore({"id", "tokens"});  // the same in words
  token.done();
  return ids;
}

void read_template(JsonSection& step, BpeRules& rules) {
  JsonSection tokens = step.section("special_tokens");
  bool before = true;
  const json& parts = step.array("single");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    JsonSection item(parts[i], fmt::format("{}[{}]", step.path("single"), i));
    const bool is_text = item.find("Sequence") != nullptr;
    JsonSection part = item.section(is_text ? "Sequence" : "SpecialToken");
    item.done();
    const std::string& id = part.text("id");
    part.ignore({"type_id"});  // of models that take two texts
    part.done();
    if (is_text) {
      if (id != "A") part.refuse("id", "A");
      require(before, ExitCode::data, "{}: the text twice is not understood", item.path());
      before = false;
      continue;
    }
    const auto ids = template_token(tokens, id, rules.pieces.size());
    auto& side = before ? rules.before : rules.after;
    side.insert(side.end(), ids.begin(), ids.end());
    require(side.size() <= most_template_tokens, ExitCode::data, "{}: more than {} tokens", item.path(),
            most_template_tokens);
  }
  require(!before, ExitCode::data, "{}: the text is missing", step.path("single"));
  step.ignore({"pair"});
}

}  // namespace

void read_normalizer(const json& normalizer, const std::string& path, BpeRules& rules) {
  for_each_step(normalizer, path, "normalizers", [&](JsonSection& step, const std::string& type) {
    NormalizerStep made{.kind = NormalizerStep::Kind::nfc};
    if (type == "Prepend") {
      made = {.kind = NormalizerStep::Kind::prepend, .text = rule_text(step, "prepend")};
    } else if (type == "Replace") {
      made.kind = NormalizerStep::Kind::replace;
      if (read_pattern(step, made.text)) step.refuse("pattern", "String");
      made.with = rule_text(step, "content");
    } else if (type != "NFC") {
      step.refuse("type", "NFC Prepend Replace Sequence");
    }
    rules.normalizer.push_back(made);
  });
}

void read_pre_tokenizer(const json& pre_tokenizer, const std::string& path, BpeRules& rules) {
  for_each_step(pre_tokenizer, path, "pretokenizers", [&](JsonSection& step, const std::string& type) {
    const bool last = rules.splitter.empty() || rules.splitter.back().kind != SplitStep::Kind::byte_level;
    require(last, ExitCode::data, "{}: a step after ByteLevel is not understood", step.path());
    SplitStep made = split_step(step, type);
    step.done();
    // Each writes a blank in front of every piece, which the next one may cut again: words without bound.
    const auto metaspace = [](const SplitStep& s) { return s.kind == SplitStep::Kind::metaspace; };
    require(!metaspace(made) || std::none_of(rules.splitter.begin(), rules.splitter.end(), metaspace),
            ExitCode::data, "{}: a second Metaspace is not understood", step.path());
    rules.splitter.push_back(std::move(made));
  });
}

void read_post_processor(const json& post_processor, const std::string& path, BpeRules& rules) {
  for_each_step(post_processor, path, "processors", [&](JsonSection& step, const std::string& type) {
    if (type == "ByteLevel") {  // of offsets alone
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) step.flag(key);
    } else if (type == "TemplateProcessing") {
      require(rules.before.empty() && rules.after.empty(), ExitCode::data,
              "{}: a second template is not understood", step.path());
      read_template(step, rules);
    } else {
      step.refuse("type", "ByteLevel TemplateProcessing Sequence");
    }
  });
}

void read_decoder(const json& decoder, const std::string& path, BpeRules& rules) {
  DecodeRules& d = rules.decoder;
  bool fused = false;
  for_each_step(decoder, path, "decoders", [&](JsonSection& step, const std::string& type) {
    if (type == "ByteLevel") {
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) step.flag(key);
    } else if (type == "ByteFallback") {
      d.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      std::string from;
      if (read_pattern(step, from)) step.refuse("pattern", "String");
      require(!fused && !d.byte_fallback && d.metaspace.empty(), ExitCode::data,
              "{}: Replace after ByteFallback, Fuse or Metaspace is not understood", step.path());
      d.replace.emplace_back(from, rule_text(step, "content"));
    } else if (type == "Strip") {
      require(fused && d.strip_start == 0 && step.text("content") == " " && step.integer("stop") == 0,
              ExitCode::data,
              "{}: a Strip of anything but blanks at the start, after Fuse, is not understood", step.path());
      d.strip_start = int(step.integer("start"));
    } else if (type == "Metaspace") {
      require(d.metaspace.empty(), ExitCode::data, "{}: a second Metaspace is not understood", step.path());
      d.metaspace = one_character(step, "replacement");
      d.drop_first = prepend_scheme(step) != SplitStep::Prepend::never;
      step.ignore({"split", "str_rep"});
    } else {
      step.refuse("type", "ByteLevel ByteFallback Fuse Replace Strip Metaspace Sequence");
    }
  });
}

}  // namespace mxtape
