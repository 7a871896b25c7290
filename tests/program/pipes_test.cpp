// A pipe where a file is wanted: an error at once, not a program that waits for a writer.
#include <sys/stat.h>

#include <chrono>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class Pipes : public ProgramTest {
 protected:
  Pipes() {
    for (const char* name : {"pipe", "pipe.npy", "pipe.h5", "pipe.toml"})
      EXPECT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
  }
  /// The exit code; -1 if the program hangs.
  int run_shortly(const std::vector<std::string>& arguments) {
    Program program(folder_.path(), arguments);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (program.running() && std::chrono::steady_clock::now() < end) ::usleep(2000);
    output_ = program.output();
    return program.running() ? -1 : program.wait();
  }
};

TEST_F(Pipes, AreRefusedWhereverAFileIsRead) {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"check", "pipe.toml"},
                             {"train", "pipe.toml"},
                             {"check", "tiny.toml", "--data.file=pipe"},
                             {"train", "tiny.toml", "--data.file=pipe"},
                             {"train", "tiny.toml", "--resume=pipe"},
                             {"sample", "pipe"},
                             {"eval", "pipe"},
                             {"info", "pipe"},
                             {"verify", "pipe"},
                             {"diff", "pipe", "pipe"},
                             {"plot", "pipe"},
                             {"prepare", "pipe", "--out=o.h5"},
                             {"corpus", "--score", "pipe"},
                             {"prepare", "pipe", "--tokens=u16", "--vocabulary=9", "--out=o.h5"},
                             {"prepare", "tiny.toml", "--tokenizer-of=pipe", "--out=o.h5"},
                             {"compare", "pipe.npy"},
                             {"compare", "pipe.h5:/x"},
                             {"quantize", "pipe.npy", "o.h5"},
                             {"quantize", "--back", "pipe.h5", "o.npy"}}) {
    const int code = run_shortly(words);
    EXPECT_TRUE(code == int(ExitCode::usage) || code == int(ExitCode::data))
        << words[0] << " " << words[1] << ": " << code << "\n"
        << output_;
    EXPECT_TRUE(says("pipe")) << words[0];
  }
}

TEST_F(Pipes, FoldersAndDevicesAreRefusedAsPipesAre) {
  using Words = std::vector<std::string>;
  for (const bool device : {false, true}) {
    for (const char* name : {"odd", "odd.npy", "odd.h5", "odd.toml"}) {
      std::filesystem::remove(folder_ / name);
      if (device)
        std::filesystem::create_symlink("/dev/zero", folder_ / name);
      else
        std::filesystem::create_directory(folder_ / name);
    }
    for (const Words& words : {Words{"check", "odd.toml"},
                               {"train", "odd.toml"},
                               {"check", "tiny.toml", "--data.file=odd"},
                               {"train", "tiny.toml", "--data.file=odd"},
                               {"train", "tiny.toml", "--resume=odd"},
                               {"sample", "odd"},
                               {"eval", "odd"},
                               {"info", "odd"},
                               {"verify", "odd"},
                               {"diff", "odd", "odd"},
                               {"plot", "odd"},
                               {"prepare", "odd", "--out=o.h5"},
                               {"corpus", "--score", "odd"},
                               {"prepare", "odd", "--tokens=u16", "--vocabulary=9", "--out=o.h5"},
                               {"prepare", "tiny.toml", "--tokenizer-of=odd", "--out=o.h5"},
                               {"compare", "odd.npy"},
                               {"compare", "odd.h5:/x"},
                               {"quantize", "odd.npy", "o.h5"},
                               {"quantize", "--back", "odd.h5", "o.npy"}}) {
      const int code = run_shortly(words);
      EXPECT_TRUE(code == int(ExitCode::usage) || code == int(ExitCode::data))
          << words[0] << " " << words[1] << (device ? ", a device: " : ", a folder: ") << code << "\n"
          << output_;
    }
  }
}

TEST_F(Pipes, InARunsFolderAreRefusedBeforeAnythingIsLost) {
  ASSERT_EQ(run({"train", "tiny.toml", "--train.save_every=3"}), 0) << output_;
  std::filesystem::remove(checkpoint(6));
  for (const char* name : {"metrics.jsonl", "events.out.tfevents.mxtape"}) {
    const auto path = folder_ / "runs/tiny" / name;
    std::filesystem::rename(path, folder_ / "kept");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(run_shortly({"train", "tiny.toml", "--resume=auto"}), int(ExitCode::data)) << output_;
    EXPECT_TRUE(says(fmt::format("{}: is a device or pipe, want a file", name)));
    std::filesystem::rename(folder_ / "kept", path);
  }
  EXPECT_EQ(run({"train", "tiny.toml", "--train.save_every=3", "--resume=auto"}), 0) << output_;
}

}  // namespace
}  // namespace mxtape::test
