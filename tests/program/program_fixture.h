#pragma once
#include <gtest/gtest.h>

#include "core/files/atomic_file.h"
#include "program/records/run_folder.h"
#include "tests/program/program.h"
#include "tests/train/tiny_run.h"

namespace mxtape::test {

/// A folder with data.h5 and tiny.toml, in which the program is run.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    test::tiny_data().write(folder_ / "data.h5");
    Recipe recipe = test::tiny_mxfp4_recipe(6);
    recipe.data.file = "data.h5";
    write_atomically(folder_ / "tiny.toml", to_toml(recipe));
  }

  int run(std::vector<std::string> arguments) {
    Program program(folder_.path(), arguments);
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
  testing::AssertionResult says(const std::string& text) const {
    if (output_.find(text) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "no '" << text << "' in:\n" << output_;
  }
  std::filesystem::path checkpoint(std::int64_t step) const {
    return folder_ / fmt::format("runs/tiny/checkpoints/step_{:08}.h5", step);
  }
  /// A number after `label` in the output.
  double number_after(const std::string& label) const {
    const auto at = output_.find(label);
    if (at == std::string::npos) throw std::runtime_error("no '" + label + "' in:\n" + output_);
    return std::stod(output_.substr(at + label.size()));
  }

  const TemporaryFolder folder_;
  std::string output_;
};

}  // namespace mxtape::test
