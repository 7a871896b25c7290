// What import copies besides the weights, and whence.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/files/atomic_file.h"
#include "program/models/import.h"
#include "tests/program/program.h"
#include "tests/support/foreign_gpt2.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

/// A folder with a model, to which a test adds a file.
class ImportedFiles : public testing::Test {
 protected:
  ImportedFiles() {
    model_.draw(11);
    model_.write(source_);
    write_atomically(folder_ / "secret", std::string_view("{\"root\": 1}"));
  }
  /// The message of an import; "" if it succeeds.
  std::string refusal(const fs::path& source) {
    std::string message;
    try {
      (void)import_model({.source = source, .out = folder_ / "out"});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data) << e.what();
      EXPECT_FALSE(fs::exists(folder_ / "out"));
      message = e.what();
    }
    fs::remove_all(folder_ / "out");
    return message;
  }
  std::string refusal() { return refusal(source_); }

  const TemporaryFolder folder_;
  const fs::path source_ = folder_ / "hf";
  ForeignGpt2 model_;
};

TEST_F(ImportedFiles, ALinkThatLeavesTheFolderIsRefusedByName) {
  const std::string name = "generation_config.json";
  for (const fs::path& target : {folder_ / "secret", fs::path("../secret"), fs::path("../nowhere"),
                                 fs::path(name), fs::path("/dev/null"), fs::path("..")}) {
    fs::create_symlink(target, source_ / name);
    EXPECT_TRUE(contains(refusal(), "hf/" + name + ": a link ")) << target << ": " << refusal();
    fs::remove(source_ / name);
  }
  write_atomically(source_ / "other.json", std::string_view("{}"));
  fs::create_symlink("other.json", source_ / name);
  EXPECT_EQ(refusal(), "") << "inside the folder";
  fs::create_symlink(source_, folder_ / "link");
  EXPECT_EQ(refusal(folder_ / "link"), "") << "the folder by a link";
}

TEST_F(ImportedFiles, TheLinksOfTheHubsCacheAreFollowed) {
  const fs::path commit = folder_ / "models--a--b/snapshots/0123", blobs = folder_ / "models--a--b/blobs";
  fs::create_directories(commit);
  fs::create_directories(blobs);
  write_atomically(source_ / "generation_config.json", std::string_view("{}"));
  for (const auto& entry : fs::directory_iterator(source_)) {
    const fs::path name = entry.path().filename();
    fs::copy(entry.path(), blobs / ("blob-of-" + name.string()));
    fs::create_symlink("../../blobs/blob-of-" + name.string(), commit / name);
  }
  EXPECT_EQ(refusal(commit), "");
  fs::remove(commit / "generation_config.json");
  fs::create_symlink("../../../secret", commit / "generation_config.json");
  EXPECT_TRUE(contains(refusal(commit), "out of its folder"));
}

TEST_F(ImportedFiles, WhatIsNoFileIsNotPassedOver) {
  for (const std::string name : {"tokenizer.json", "generation_config.json", "merges.txt"}) {
    ASSERT_EQ(::mkfifo((source_ / name).c_str(), 0600), 0);
    EXPECT_TRUE(contains(refusal(), "hf/" + name + ": is a folder, device or pipe")) << refusal();
    fs::remove(source_ / name);
    fs::create_directory(source_ / name);
    EXPECT_TRUE(contains(refusal(), "hf/" + name + ": is a folder, device or pipe")) << refusal();
    fs::remove(source_ / name);
  }
}

TEST_F(ImportedFiles, WhatIsCopiedIsWhatItsNameSays) {
  const std::pair<const char*, std::string> cases[] = {
      {"generation_config.json", "root:*:20228:0"},
      {"generation_config.json", "[1]"},
      {"generation_config.json", ""},
      {"generation_config.json", std::string(5'000'000, '[')},
      {"special_tokens_map.json", "{\"a\": 1, \"a\": 2}"},
      {"chat_template.jinja", "\xff\xfe"},
      {"added_tokens.json", "{} {}"}};
  for (const auto& [name, text] : cases) {
    write_atomically(source_ / name, text);
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, std::string("hf/") + name + ": ")) << name << ": " << message;
    EXPECT_FALSE(contains(message, "[json.exception")) << message;
    EXPECT_LT(message.size(), 600u);
    fs::remove(source_ / name);
  }
}

TEST_F(ImportedFiles, AShardsNameThatNoFileCanHaveIsRefusedInFewWords) {
  model_.write(source_, TensorType::f32, 2000);
  fs::remove(source_ / "model.safetensors");
  auto index = nlohmann::json::parse(read_whole_text(source_ / "model.safetensors.index.json"));
  index["weight_map"].begin().value() = std::string(5000, 'x');
  write_atomically(source_ / "model.safetensors.index.json", index.dump());
  EXPECT_TRUE(contains(refusal(), "is no name of a file beside it"));
  EXPECT_LT(refusal().size(), 400u);
}

}  // namespace
}  // namespace mxtape::test
