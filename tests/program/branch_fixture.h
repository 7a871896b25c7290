#pragma once
#include <fstream>
#include <sstream>

#include "tests/program/program_fixture.h"

namespace mxtape::test {

inline std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class BranchTest : public ProgramTest {
 protected:
  /// A run of 6 steps with checkpoints after 3 and 6.
  void train_parent(const std::string& more = "--train.accumulation=1") {
    ASSERT_EQ(run({"train", "tiny.toml", "--name=parent", "--train.save_every=3", more}), 0) << output_;
  }
  /// The same, "old", by a file that says more than precision.
  void train_parent_with_a_rule() {
    write_atomically(folder_ / "old.toml",
                     "extends = 'tiny.toml'\nseed = 3\n[[precision.rules]]\nlayers = 'blocks.*'\n"
                     "slots = ['dgrad.dy']\nformat = 'mxfp8'\n");
    ASSERT_EQ(run({"train", "old.toml", "--train.save_every=3"}), 0) << output_;
  }
  void write_new(const std::string& text) { write_atomically(folder_ / "new.toml", text); }
  std::filesystem::path in(const std::string& file) const { return folder_ / "runs" / file; }
  /// Of a run below `out`, as a file: what sha256sum would compare.
  std::vector<std::byte> bytes(const std::string& run, std::int64_t step, const char* out = "runs") const {
    return read_whole(folder_ / out / fmt::format("{}/checkpoints/step_{:08}.h5", run, step));
  }
  /// Of runs of other names, or of another past: both are in the file.
  std::vector<float> weights(const std::string& run, std::int64_t step) const {
    const Hdf5Reader file(in(fmt::format("{}/checkpoints/step_{:08}.h5", run, step)));
    std::vector<float> all;
    for (const auto& dataset : file.datasets())
      for (const float x : file.read_f32(dataset.name)) all.push_back(x);
    return all;
  }
};

}  // namespace mxtape::test
