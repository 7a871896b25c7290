#include <set>
#include <unordered_map>

#include "core/error.h"
#include "data/json/json_section.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using nlohmann::json;
using Ids = std::unordered_map<std::string_view, std::int32_t>;

/// Puts a token at its id; pieces grows as needed, but never beyond `most` entries.
void place(BpeRules& rules, std::int64_t id, const std::string& piece, std::size_t most, bool in_model) {
  require(std::size_t(id) < most, ExitCode::data,
          "tokenizer.json: token {} has id {}; want 0 to {}, for there are {}", shown_text(piece), id,
          most - 1, most);
  std::string& place = rules.pieces[std::size_t(id)];
  require(place.empty() && !piece.empty(), ExitCode::data, "tokenizer.json: id {} is that of {} and of {}",
          id, shown_text(place), shown_text(piece));
  place = piece;
  rules.in_model[std::size_t(id)] = in_model;
}

AddedToken added_token(const json& value, const std::string& path) {
  JsonSection token(value, path);
  AddedToken added{.id = std::int32_t(token.integer("id")), .content = token.text("content")};
  added.special = token.flag("special");
  added.normalized = token.flag("normalized");
  for (const char* key : {"single_word", "lstrip", "rstrip"})
    if (token.flag(key)) token.refuse(key, "false");
  require(!added.content.empty(), ExitCode::data, "{}.content: is empty", path);
  require(added.content.size() <= longest_rule_text, ExitCode::data,
          "{}.content: has {} bytes; want at most {}", path, added.content.size(), longest_rule_text);
  token.done();
  return added;
}

void read_tokens(const json& vocabulary, const json* added, BpeRules& rules) {
  require(vocabulary.is_object() && !vocabulary.empty(), ExitCode::data,
          "tokenizer.json.model.vocab = {}; want an object with tokens and their ids",
          shown_json(vocabulary));
  std::size_t most = vocabulary.size();
  if (added) {
    require(added->is_array(), ExitCode::data, "tokenizer.json.added_tokens = {}; want a list",
            shown_json(*added));
    std::set<std::string> seen;
    for (std::size_t i = 0; i < added->size(); ++i) {
      const std::string here = fmt::format("tokenizer.json.added_tokens[{}]", i);
      const AddedToken& token = rules.added.emplace_back(added_token((*added)[i], here));
      const auto known = vocabulary.find(token.content);
      const bool fresh = known == vocabulary.end();
      require(!fresh || seen.insert(token.content).second, ExitCode::data, "{}: {} is there twice", here,
              shown_text(token.content));
      const json wanted = fresh ? json(most++) : *known;
      require(wanted == token.id, ExitCode::data, "{}: {} has id {}; want {}, {}", here,
              shown_text(token.content), token.id, shown_json(wanted),
              fresh ? "the next free one, which Hugging Face's tokenizers give it" : "as in the vocabulary");
    }
  }
  rules.pieces.resize(most);
  rules.in_model.resize(most);
  for (const auto& [piece, id] : vocabulary.items())
    place(rules, JsonSection::integer_of(id, "tokenizer.json.model.vocab." + shown_text(piece)), piece, most,
          true);
  for (const AddedToken& token : rules.added)
    if (!vocabulary.contains(token.content)) place(rules, token.id, token.content, most, false);
}

void read_merges(const json& merges, const Ids& ids, BpeRules& rules) {
  std::unordered_map<std::uint64_t, std::size_t> seen;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto here = [&] { return fmt::format("tokenizer.json.model.merges[{}]", i); };
    const json& merge = merges[i];
    std::string_view left, right;
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const auto blank = text.find(' ');
      require(blank != text.npos && text.find(' ', blank + 1) == text.npos, ExitCode::data,
              "{}: {}; want two tokens with a blank between", here(), shown_text(text));
      left = text.substr(0, blank);
      right = text.substr(blank + 1);
    } else {
      require(merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
              ExitCode::data, "{}: {}; want two tokens", here(), shown_json(merge));
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    }
    const auto id_of = [&](std::string_view piece) {
      const auto found = ids.find(piece);
      require(found != ids.end(), ExitCode::data, "{}: {} is not in the vocabulary", here(),
              shown_text(piece));
      return found->second;
    };
    const auto a = id_of(left), b = id_of(right), whole = id_of(std::string(left) + std::string(right));
    const auto [first, fresh] = seen.emplace(std::uint64_t(a) << 32 | std::uint64_t(b), i);
    require(fresh, ExitCode::data, "{}: {} and {} are merged already by merges[{}]", here(), shown_text(left),
            shown_text(right), first->second);
    rules.merges.push_back({a, b, whole});
  }
}

}  // namespace

void read_model(const json& model, const json* added_tokens, BpeRules& rules) {
  JsonSection section(model, "tokenizer.json.model");
  if (const auto type = section.text_or("type", "BPE"); type != "BPE") section.refuse("type", "BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* const found = section.find(key);
    const bool neutral = !found || (found->is_string() && found->get_ref<const std::string&>().empty()) ||
                         (found->is_number() && found->get<double>() == 0);
    if (!neutral) section.refuse(key, "none");
  }
  read_tokens(section.at("vocab"), added_tokens, rules);
  Ids ids;
  for (std::size_t id = 0; id < rules.pieces.size(); ++id)
    if (rules.in_model[id]) ids.emplace(rules.pieces[id], std::int32_t(id));
  read_merges(section.array("merges"), ids, rules);
  if (section.find("unk_token")) {
    const std::string& piece = section.text("unk_token");
    require(ids.count(piece) > 0, ExitCode::data,
            "tokenizer.json.model.unk_token: {} is not in the vocabulary", shown_text(piece));
    rules.unknown = ids.at(piece);
  }
  rules.fuse_unknown = section.flag("fuse_unk");
  rules.byte_fallback = section.flag("byte_fallback");
  rules.ignore_merges = section.flag("ignore_merges");
  section.done();
}

}  // namespace mxtape
