#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "data/tokenizers/bpe/byte_level.h"
#include "data/tokenizers/bpe/tokenizer_json.h"
#include "data/tokenizers/bpe/trainer.h"
#include "data/tokenizers/text/scanners.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using Json = nlohmann::ordered_json;  // ids in order, for people

Json byte_level(bool cuts) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", cuts}};
}

}  // namespace

Json pre_tokenizer_of(const std::string& pattern) {
  if (pattern == "gpt2") return byte_level(true);
  const Json split{{"type", "Split"},
                   {"pattern", {{"Regex", known_pattern_named(pattern)->pattern}}},
                   {"behavior", "Isolated"},
                   {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

BpeFiles files_of(const TrainedBpe& trained, const BpeTraining& options) {
  Json vocabulary = Json::object(), merges = Json::array(), added = Json::array();
  std::string bytes(256, '\0'), merges_txt = "#version: 0.2\n";
  std::vector<std::string> pieces;
  std::set<std::string> known;
  for (int b = 0; b < 256; ++b) bytes[std::size_t(gpt2_order(static_cast<unsigned char>(b)))] = char(b);
  const auto add = [&](const std::string& piece) {
    if (known.insert(piece).second) pieces.push_back(piece);
  };
  for (const char b : bytes) add(to_stand_ins({&b, 1}));
  for (const auto& [left, right] : trained.merges) {
    const std::string a = to_stand_ins(left), b = to_stand_ins(right);
    add(a + b);
    merges.push_back(Json::array({a, b}));
    merges_txt += a + " " + b + "\n";
  }
  for (const std::string& special : options.specials) {
    require(!special.empty() && known.count(special) == 0, ExitCode::usage,
            "--special {}: want a text that is no token yet", shown_text(special));
    added.push_back({{"id", pieces.size()},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    add(special);
  }
  // The library appends to an object by searching it: too slow for 100,000 keys, so the pairs are moved in.
  Json::object_t entries;
  for (std::size_t id = 0; id < pieces.size(); ++id)
    static_cast<Json::object_t::Container&>(entries).emplace_back(pieces[id], Json(id));
  vocabulary = std::move(entries);
  const Json normalizer = options.style == "qwen2" ? Json{{"type", "NFC"}} : Json();
  const Json file = bpe_file<Json>(vocabulary, merges, added, normalizer, pre_tokenizer_of(options.style),
                                   byte_level(true));
  return {file.dump(1) + "\n", vocabulary.dump(1) + "\n", merges_txt};
}

}  // namespace mxtape
