#pragma once
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/safetensors/safetensors_file.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {

/// Runs that leave for other programs, and what those make of them. MXTAPE_PYTHON names a Python that has
/// their packages.
class ForeignTest : public ProgramTest {
 protected:
  /// Trains a model in a format for one step, as runs/NAME, and exports its numbers as NAME.safetensors.
  void train(const std::string& name, const std::string& weights, bool llama,
             const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"train",
                                   "tiny.toml",
                                   "--name=" + name,
                                   "--train.steps=1",
                                   "--schedule.warmup_steps=0",
                                   "--precision.weights=" + weights,
                                   "--model.width=64"};
    if (!llama) words.emplace_back("--model.gelu=tanh");
    if (llama)
      for (const char* word : {"--model.norm=rms", "--model.positions=rope", "--model.mlp=swiglu",
                               "--model.bias=false", "--model.kv_heads=1", "--model.mlp_width=128"})
        words.emplace_back(word);
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(run(words), 0) << output_;
    ASSERT_EQ(run({"export", "runs/" + name, "--to", "safetensors", "--weights", "rounded", "-o",
                   name + ".safetensors"}),
              0)
        << output_;
  }
  static bool python_has(const std::string& package) {
    return std::system((python() + " -c 'import " + package + "' 2> /dev/null").c_str()) == 0;
  }
  static std::string python() {
    const char* const given = std::getenv("MXTAPE_PYTHON");
    return given ? given : "python3";
  }
  /// What a script of tests/interop/ prints, run in the folder.
  std::string printed(const std::string& script, const std::string& arguments) {
    const std::string command = "cd '" + folder_.path().string() + "' && " + python() +
                                " '" MXTAPE_SOURCE "/tests/interop/" + script + "' " + arguments +
                                " > printed.txt 2> errors.txt";
    EXPECT_EQ(std::system(command.c_str()), 0) << command << "\n"
                                               << text_of("printed.txt") << text_of("errors.txt");
    return text_of("printed.txt");
  }
  std::string text_of(const std::string& file) const {
    std::stringstream text;
    text << std::ifstream(folder_ / file).rdbuf();
    return text.str();
  }
};

}  // namespace mxtape::test
