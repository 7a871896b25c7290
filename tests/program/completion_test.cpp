// The completion script and the manual are made from the tables: nothing of these may be missing in them.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "core/files/atomic_file.h"
#include "program/commands/exit_code_names.h"
#include "program/show/command.h"
#include "recipes/knobs.h"
#include "recipes/shipped.h"
#include "tests/program/program.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::test {
namespace {

bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

struct Shell {
  int code;
  std::string output;  ///< stdout and stderr
};
Shell shell(const TemporaryFolder& folder, const std::string& command) {
  const std::string line = "cd '" + folder.path().string() + "' && { " + command + "; } 2>&1";
  std::string output;
  std::array<char, 4096> buffer;
  FILE* pipe = ::popen(line.c_str(), "r");
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// All commands, their options, the keys and the shipped recipes, as the user types them.
std::vector<std::string> all_words() {
  std::vector<std::string> words;
  for (const Command& command : all_commands()) {
    words.emplace_back(command.name);
    for (const Option& option : command.bind().options)
      if (!option.by_place()) words.push_back(option.key());
  }
  Recipe recipe;
  for (const Knob& knob : knobs(recipe)) words.emplace_back(knob.name);
  for (const auto& shipped : shipped_recipes()) words.emplace_back(shipped.name);
  return words;
}

/// `text` as it is read: roff writes a dash as "\-".
std::string without_backslashes(std::string text) {
  std::erase(text, '\\');
  return text;
}

TEST(Completion, KnowsEveryCommandOptionKeyAndShippedRecipe) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"completion", "bash"});
  ASSERT_EQ(r.code, 0);
  for (const auto& word : all_words()) EXPECT_TRUE(contains(r.output, word)) << word;
}

TEST(Completion, OfAnotherShellIsRefused) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"completion", "fish"});
  EXPECT_EQ(r.code, int(ExitCode::usage));
  EXPECT_TRUE(contains(r.output, "bash")) << r.output;
}

class BashCompletion : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_program("bash")) GTEST_SKIP() << "bash is not installed";
    write_atomically(folder_ / "mxtape.bash", run_program(folder_.path(), {"completion", "bash"}).output);
  }
  /// What bash offers for the last of these words, as it splits them: sorted, with blanks between.
  std::string offered(const std::vector<std::string>& words) {
    std::string line = "source ./mxtape.bash; COMP_WORDS=(mxtape";
    for (const auto& word : words) line += " '" + word + "'";
    line += "); COMP_CWORD=" + std::to_string(words.size()) +
            "; _mxtape; printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort";
    write_atomically(folder_ / "complete.bash", line + "\n");
    std::string out = shell(folder_, "bash complete.bash").output;
    for (char& c : out)
      if (c == '\n') c = ' ';
    if (!out.empty()) out.pop_back();
    return out;
  }
  const TemporaryFolder folder_;
};

TEST_F(BashCompletion, IsAScriptThatBashAccepts) {
  const Shell checked = shell(folder_, "bash -n mxtape.bash");
  EXPECT_EQ(checked.code, 0) << checked.output;
  EXPECT_EQ(checked.output, "");
  EXPECT_EQ(shell(folder_, "bash -c 'set -u; source ./mxtape.bash; complete -p mxtape'").output,
            "complete -o default -F _mxtape mxtape\n");
}

TEST_F(BashCompletion, CompletesCommandsOptionsKeysAndValues) {
  EXPECT_EQ(offered({"tr"}), "train");
  EXPECT_EQ(offered({"help", "pl"}), "plot");
  EXPECT_EQ(offered({"--ver"}), "--version");
  EXPECT_EQ(offered({"sample", "--to"}), "--tokens --top-k --top-p");
  EXPECT_EQ(offered({"train", "--optim.beta"}), "--optim.beta1= --optim.beta2=");
  EXPECT_EQ(offered({"sample", "--optim.beta"}), "") << "it takes no keys";
  EXPECT_EQ(offered({"train", "x.toml", "--schedule.kind", "=", "co"}), "constant cosine");
  EXPECT_EQ(offered({"train", "x.toml", "--schedule.kind", "="}), "constant cosine linear wsd");
  EXPECT_EQ(offered({"train", "x.toml", "--schedule.kind", "li"}), "linear");
  EXPECT_EQ(offered({"compare", "--axis", ""}), "cols rows");
  EXPECT_EQ(offered({"eval", "--precision", "mxfp4"}), "mxfp4");
  EXPECT_EQ(offered({"eval", "--device", "cu"}), "cuda");
}

TEST_F(BashCompletion, CompletesRecipesByNameAndByFile) {
  write_atomically(folder_ / "demo-mine.toml", "x");
  write_atomically(folder_ / "demo-mine.txt", "x");
  EXPECT_EQ(offered({"train", "demo-m"}), "demo-mine.toml demo-mxfp4");
  EXPECT_EQ(offered({"recipes", "demo-m"}), "demo-mxfp4");
  EXPECT_EQ(offered({"plot", "demo"}), "") << "bash's own completion of files takes over";
}

TEST(Manual, TellsEveryCommandOptionKeyShippedRecipeAndExitCode) {
  const TemporaryFolder folder;
  const Result r = run_program(folder.path(), {"manual"});
  ASSERT_EQ(r.code, 0);
  const std::string text = without_backslashes(r.output);
  for (const auto& word : all_words()) EXPECT_TRUE(contains(text, word)) << word;
  for (const auto& row : exit_code_names)
    EXPECT_TRUE(contains(text, "fB" + std::to_string(int(row.code)) + "fR\n" + std::string(row.name)));
}

TEST(Manual, IsFormattedWithoutAWarning) {
  if (!has_program("groff")) GTEST_SKIP() << "groff is not installed";
  const TemporaryFolder folder;
  write_atomically(folder / "mxtape.1", run_program(folder.path(), {"manual"}).output);
  const Shell checked = shell(folder, "groff -man -ww -z -Tascii mxtape.1");
  EXPECT_EQ(checked.code, 0);
  EXPECT_EQ(checked.output, "");
  const Shell printed = shell(folder, "groff -man -rLL=400n -Tascii -P-c -P-b -P-u mxtape.1");
  for (const char* text : {"--allow-change", "train.batch_size", "(default: 0.1)", "shakespeare-mxfp4"})
    EXPECT_TRUE(contains(printed.output, text)) << text;
}

TEST(ExitCodeNames, AreTheRowsOfTheirPage) {
  std::ifstream page(MXTAPE_SOURCE "/docs/exit_codes.md");
  std::vector<std::string> rows, want;
  for (std::string line; std::getline(page, line);)
    if (line.size() > 2 && line[0] == '|' && std::isdigit(line[2])) {
      const auto second = line.find('|', 1), third = line.find('|', second + 1);
      rows.push_back(line.substr(0, third + 1));
    }
  for (const auto& row : exit_code_names) want.push_back(fmt::format("| {} | {} |", int(row.code), row.name));
  EXPECT_EQ(rows, want);
}

}  // namespace
}  // namespace mxtape::test
