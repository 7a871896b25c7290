
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

TEST(TokenizerForms, CharactersAndBytesAreKnownAgainFromTheirExportedFile) {
  const TemporaryFolder folder;
  for (const Tokenizer& tokenizer :
       {Tokenizer::from_text(Tokenizer::Kind::characters, "a b\n\"\\é世"), Tokenizer()}) {
    const std::string text = tokenizer_json_of(tokenizer);
    write_atomically(folder / "tokenizer.json", text);
    const Tokenizer read = read_tokenizer(folder.path());
    EXPECT_TRUE(read == tokenizer) << text;
    // One piece of two characters, and it is no such file.
    nlohmann::json other = nlohmann::json::parse(text);
    other["model"]["vocab"]["ab"] = other["model"]["vocab"].size();
    EXPECT_FALSE(plain_tokenizer_of(other).has_value());
    other = nlohmann::json::parse(text);
    other["normalizer"] = {{"type", "NFC"}};
    EXPECT_FALSE(plain_tokenizer_of(other).has_value());
  }
}

TEST(TokenizerForms, OtherReadersRefuseACharacterThatIsNoToken) {
  const Tokenizer tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, "nave");
  auto file = nlohmann::json::parse(tokenizer_json_of(tokenizer));
  // The tokenizers library: "Unk token `...` not found in the vocabulary". With null it gives no id.
  const std::string unknown = file["model"]["unk_token"];
  EXPECT_FALSE(file["model"]["vocab"].contains(unknown));
  file["model"]["unk_token"] = nullptr;
  ASSERT_TRUE(plain_tokenizer_of(file).has_value());
  EXPECT_TRUE(*plain_tokenizer_of(file) == tokenizer);
}

TEST(TokenizerForms, ATokenizerOfMergesIsSpelledOutForOtherReaders) {
  const TemporaryFolder folder;
  write_atomically(folder / "merges.txt", std::string("#version: 0.2\na b\n"));
  const Tokenizer tokenizer = read_tokenizer(folder.path());
  const auto file = nlohmann::json::parse(tokenizer_json_of(tokenizer));
  for (const char* const key : {"single_word", "lstrip", "rstrip", "normalized"})
    EXPECT_TRUE(file["added_tokens"][0].contains(key)) << key;
  EXPECT_TRUE(file["decoder"].contains("trim_offsets"));
  EXPECT_TRUE(Tokenizer::from_tokenizer_json(file.dump()) == tokenizer);
}

TEST(TokenizerForms, IdsWithoutATokenizerHaveNoFile) {
  EXPECT_EQ(tokenizer_json_of(Tokenizer::of_ids(7)), "");
}

}  // namespace
}  // namespace mxtape
