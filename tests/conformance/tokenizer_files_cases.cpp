#include "tests/conformance/tokenizer_files_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/text/base64.h"
#include "data/tokenizers/bpe/trainer.h"
#include "data/tokenizers/tokenizer.h"

namespace mxtape::conformance {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

/// What a reader may do with a patched file: words of cases.json.
Outcome compare_patched(const std::string& file, const std::string& expect, const json& texts,
                        const json& want) {
  const bool may_refuse = expect.starts_with("refuse");
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::from_tokenizer_json(file);
  } catch (const Error& error) {
    const bool clear = error.code() == ExitCode::data;
    return may_refuse && clear ? passed()
                               : failed(fmt::format("refused: {}; want: {}", error.what(), expect));
  }
  if (expect == "refuse") return failed("opened; want a refusal");
  const bool same_ids = expect.find("same ids") != expect.npos;
  for (std::size_t i = 0; same_ids && i < texts.size(); ++i)
    if (tokenizer->encode(texts[i].get<std::string>(), SpecialTokens::parse) !=
        want.at("cases")[i].at("ids").get<Ids>())
      return failed(fmt::format("other ids for text {}; want: {}", i, expect));
  return passed();
}

Outcome compare_trained(const json& want) {
  const auto text = want.at("text").get<std::string>();
  BpeTraining options{.vocabulary = want.at("vocabulary").get<std::int64_t>(),
                      .least_count = want.at("min_count").get<std::int64_t>(),
                      .style = want.at("style").get<std::string>()};
  // "shorter_than" n lets tokens of up to n - 1 bytes be made, and all pairs of bytes.
  if (!want.at("shorter_than").is_null()) options.longest = want["shorter_than"].get<std::int64_t>() - 1;
  const std::string_view texts[] = {text};
  const TrainedBpe trained = train_bpe(texts, options);
  std::vector<std::pair<std::string, std::string>> merges;
  for (const json& merge : want.at("merges"))
    merges.emplace_back(from_base64(merge.at(0).get<std::string>()).value_or(""),
                        from_base64(merge.at(1).get<std::string>()).value_or(""));
  for (std::size_t i = 0; i < std::min(merges.size(), trained.merges.size()); ++i)
    if (trained.merges[i] != merges[i])
      return failed(fmt::format("merge {} is '{}' + '{}', want '{}' + '{}'", i, trained.merges[i].first,
                                trained.merges[i].second, merges[i].first, merges[i].second));
  return trained.merges.size() == merges.size()
             ? passed()
             : failed(fmt::format("{} merges, want {}", trained.merges.size(), merges.size()));
}

}  // namespace

void add_patched_files(std::vector<InteropCase>& cases, const std::filesystem::path& folder, const json& list,
                       const json& texts) {
  if (list.empty()) return;
  for (const json& entry : list.at("cases")) {
    const auto base = folder / entry.at("base").get<std::string>();
    const auto file = read_json(base / "tokenizer.json").patch(entry.at("patch")).dump();
    cases.push_back(
        {"tokenizers/files/" + entry.at("name").get<std::string>(),
         [file, expect = entry.at("expect").get<std::string>(), texts, want = read_json(base / "ids.json")] {
           return compare_patched(file, expect, texts, want);
         }});
  }
}

void add_trainer(std::vector<InteropCase>& cases, const json& trainer) {
  if (trainer.empty()) return;
  const json& list = trainer.at("cases");
  for (std::size_t i = 0; i < list.size(); ++i)
    cases.push_back(
        {fmt::format("tokenizers/trainer[{}]", i), [want = list[i]] { return compare_trained(want); }});
}

}  // namespace mxtape::conformance
