#include <fmt/format.h>

#include <algorithm>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/base64.h"
#include "core/text/short_lines.h"
#include "data/tokenizers/text/categories.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/conformance/interop.h"
#include "tests/conformance/tokenizer_files_cases.h"

namespace mxtape::conformance {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

std::string bytes_of(const json& base64) {
  auto bytes = from_base64(base64.get<std::string>());
  require(bytes.has_value(), ExitCode::data, "conformance: {} is no base64", base64.dump());
  return *bytes;
}

/// "ids[3] = 5, want 7"; empty if they are equal.
std::string difference(const char* what, const Ids& got, const Ids& want) {
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    if (got[i] != want[i]) return fmt::format("{}[{}] = {}, want {}", what, i, got[i], want[i]);
  return got.size() == want.size() ? "" : fmt::format("{} {}, want {}", got.size(), what, want.size());
}
Outcome outcome_of(const std::string& difference) {
  return difference.empty() ? passed() : failed(difference);
}

Outcome compare_text(const Tokenizer& tokenizer, const std::string& text, const json& want) {
  const Ids ids = tokenizer.encode(text, SpecialTokens::parse);
  std::string found = difference("ids", ids, want.at("ids").get<Ids>());
  const char* const as_text = want.contains("ids_specials_as_text") ? "ids_specials_as_text" : "ids";
  if (found.empty())
    found = difference("ids of specials as text", tokenizer.encode(text, SpecialTokens::text),
                       want.at(as_text).get<Ids>());
  if (!found.empty()) return failed(found);
  const std::string decoded = tokenizer.decode(ids), wanted = want.value("decoded", text);
  return outcome_of(
      decoded == wanted ? "" : fmt::format("decoded {}, want {}", shown_text(decoded), shown_text(wanted)));
}

/// The text with U+FFFD for each byte that belongs to no character.
std::string with_replacements(std::string_view text) {
  const std::size_t bad = first_bad_byte(text);
  std::string result(text.substr(0, bad));
  return bad == text.size() ? result : result + "\xef\xbf\xbd" + with_replacements(text.substr(bad + 1));
}

Outcome compare_decoding(const Tokenizer& tokenizer, const json& want) {
  const std::string text = tokenizer.decode(want.at("ids").get<Ids>());
  const bool bytes = want.contains("bytes");
  const std::string wanted = bytes ? bytes_of(want["bytes"]) : want.at("sentencepiece").get<std::string>();
  const std::string got = bytes ? text : with_replacements(text);
  return outcome_of(got == wanted ? ""
                                  : fmt::format("decoded {}, want {}", shown_text(got), shown_text(wanted)));
}

Outcome compare_run(const Tokenizer& tokenizer, const json& run) {
  const auto unit = run.at("unit").get<std::string>();
  const auto count = run.at("count").get<std::int64_t>(),
             times = run.at("ids").at("times").get<std::int64_t>();
  require(count >= 0 && count <= 10'000'000 && times >= 0 && times <= 10'000'000, ExitCode::data,
          "conformance: a run of {} and {} times; want at most 10 million", count, times);
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += unit;
  Ids want = run["ids"].at("head").get<Ids>();
  const Ids period = run["ids"].at("period").get<Ids>(), tail = run["ids"].at("tail").get<Ids>();
  for (std::int64_t i = 0; i < times; ++i) want.insert(want.end(), period.begin(), period.end());
  want.insert(want.end(), tail.begin(), tail.end());
  return outcome_of(difference("ids", tokenizer.encode(text, SpecialTokens::parse), want));
}

/// What is asked of the tokenizer as a whole.
Outcome compare_facts(const Tokenizer& tokenizer, const json& want) {
  if (tokenizer.size() != want.at("vocabulary"))
    return failed(fmt::format("{} tokens, want {}", tokenizer.size(), want.at("vocabulary").dump()));
  if (want.contains("template_before")) {
    const std::string found =
        difference("template", tokenizer.template_before(), want["template_before"].get<Ids>());
    if (!found.empty()) return failed(found);
  }
  if (want.contains("added_tokens"))
    for (const auto& [id, content] : want["added_tokens"].items())
      if (tokenizer.special(content.get<std::string>()) != std::stoi(id))
        return failed(fmt::format("{} is no added token {}", content.dump(), id));
  const auto copy = Tokenizer::from_json(tokenizer.to_json());
  return outcome_of(copy == tokenizer ? "" : "what token files keep of it is another tokenizer");
}

Outcome compare_bad_bytes(const Tokenizer& tokenizer, const json& want) {
  const auto position = fmt::format("byte {} ", want.at("first_bad_byte").get<std::int64_t>());
  try {
    tokenizer.encode(bytes_of(want.at("b64")), SpecialTokens::parse);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    return outcome_of(text.starts_with(position) ? "" : fmt::format("{}; want {}", text, position));
  }
  return failed("taken, though it is not UTF-8");
}

void add_folder(std::vector<InteropCase>& cases, const fs::path& folder, const json& texts,
                const json& not_utf8) {
  const std::string place = "tokenizers/" + folder.filename().string();
  const auto want = std::make_shared<const json>(read_json(folder / "ids.json"));
  std::shared_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = std::make_shared<const Tokenizer>(read_tokenizer(folder));
  } catch (const Error& error) {
    cases.push_back({place, [text = std::string(error.what())] { return failed(text); }});
    return;
  }
  const auto add = [&](const std::string& name, std::function<Outcome()> run) {
    cases.push_back({place + "/" + name, std::move(run)});
  };
  add("facts", [=] { return compare_facts(*tokenizer, *want); });
  const json& ids = want->at("cases");
  require(ids.size() == texts.size(), ExitCode::data, "conformance: {}: {} cases for {} texts", place,
          ids.size(), texts.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    add(fmt::format("ids[{}]", i), [=, text = texts[i].get<std::string>()] {
      return compare_text(*tokenizer, text, want->at("cases")[i]);
    });
  const auto add_all = [&](const char* key, Outcome (*compare)(const Tokenizer&, const json&)) {
    for (std::size_t i = 0; want->contains(key) && i < want->at(key).size(); ++i)
      add(fmt::format("{}[{}]", key, i), [=] { return compare(*tokenizer, want->at(key)[i]); });
  };
  add_all("decode_only", compare_decoding);
  add_all("long_runs", compare_run);
  for (std::size_t i = 0; i < not_utf8.size(); ++i)
    add(fmt::format("not_utf8[{}]", i),
        [=, bad = not_utf8[i]] { return compare_bad_bytes(*tokenizer, bad); });
}

/// The code points that letters, numbers and white space are, by our tables.
Outcome compare_class(const json& ranges, const std::string& name) {
  const CharacterTable& table = CharacterTable::get();
  std::vector<bool> want(0x110000);
  for (const json& range : ranges)
    for (std::int64_t c = range.at(0); c <= range.at(1); ++c) want.at(std::size_t(c)) = true;
  const auto set = categories_named(name);
  require(set || name == "space", ExitCode::data, "conformance: no class of code points '{}'", name);
  for (char32_t c = 0; c < want.size(); ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;  // no text has them
    const bool got =
        name == "space" ? table.classify(c) == white_space : (*set >> unsigned(table.category(c)) & 1) != 0;
    if (got != want[c])
      return failed(fmt::format("U+{:04X} {} one", std::uint32_t(c), got ? "is" : "is not"));
  }
  return passed();
}

}  // namespace

json read_json(const fs::path& path) {
  try {
    return json::parse(read_whole_text(path));
  } catch (const json::exception& error) {
    fail(ExitCode::data, "conformance: {}: {}", path.string(), json_reason(error));
  }
}

std::vector<InteropCase> tokenizer_cases(const fs::path& set, const std::string&) {
  const fs::path folder = set / "tokenizers";
  std::vector<InteropCase> cases;
  try {
    const json texts = read_json(folder / "strings.json").at("texts");
    const auto read_if_there = [&](const char* name) {
      return fs::exists(folder / name) ? read_json(folder / name) : json::object();
    };
    const json not_utf8 = read_if_there("not_utf8.json");
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(folder))
      if (fs::exists(entry.path() / "ids.json")) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    for (const fs::path& path : folders) add_folder(cases, path, texts, not_utf8);
    const json classes = read_if_there("classes.json").value("ranges", json::object());
    for (const auto& [name, ranges] : classes.items())
      cases.push_back({"tokenizers/classes/" + name,
                       [name = name, ranges = ranges] { return compare_class(ranges, name); }});
    add_patched_files(cases, folder, read_if_there("cases.json"), texts);
    add_trainer(cases, read_if_there("trainer.json"));
  } catch (const json::exception& error) {
    fail(ExitCode::data, "conformance: {}: {}", folder.string(), json_reason(error));
  }
  return cases;
}

}  // namespace mxtape::conformance
