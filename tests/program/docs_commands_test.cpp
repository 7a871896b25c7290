// What the pages for newcomers tell people to type: each command runs, and each "none" names an option that
// is refused.
#include <array>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "data/npy.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* pages[] = {"docs/coming_from.md"};

std::string text_of(const std::string& page) {
  std::stringstream text;
  text << std::ifstream(fs::path(MXTAPE_SOURCE) / page).rdbuf();
  return text.str();
}

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

/// Code spans, and lines of indented code with what a backslash joins to them.
std::vector<std::string> commands_of(const std::string& page) {
  const std::string text = std::regex_replace(text_of(page), std::regex(R"( \\\n +)"), " ");
  std::vector<std::string> commands = matches(text, "`([^`\n]*\\bmxtape [^`\n]*)`");
  for (const std::string& line : matches(text, "\n    (mxtape [a-z][^\n]*)"))
    if (!line.starts_with("mxtape: ")) commands.push_back(line);
  return commands;
}

class DocsCommands : public ProgramTest {
 protected:
  /// The folder has whatever the pages' placeholders stand for.
  void SetUp() override {
    fs::create_symlink(MXTAPE_PROGRAM, folder_ / "mxtape");
    fs::create_directory_symlink(fs::path(MXTAPE_SOURCE) / "tests", folder_ / "tests");
    write_atomically(folder_ / "new.toml", std::string_view("[precision]\nweights = \"mxfp6\"\n"));
    write_atomically(folder_ / "text.txt", std::string_view("the text of a newcomer\n"));
    write_atomically(folder_ / "other.toml", std::string_view("extends = \"tiny.toml\"\nname = \"other\"\n"));
    fs::copy(folder_ / "tiny.toml", folder_ / "mytext.toml");
    write_npy(folder_ / "x.npy", std::array{std::int64_t{2}, std::int64_t{32}}, std::vector<float>(64, 0.3f));
    for (const char* line : {"train tiny.toml --train.save_every=3",
                             "train mytext.toml --name=mytext --train.steps=1000 --train.eval_every=0",
                             "export runs/tiny --to hf -o FOLDER", "export runs/tiny --to llmc -o FILE.bin",
                             "prepare text.txt --tokenizer char --out chars.h5"})
      ASSERT_EQ(shell(std::string("mxtape ") + line), 0) << output_;
  }
  int shell(const std::string& line) {
    Program program(folder_.path(), {"-c", "export PATH=\"$PWD:$PATH\"; " + line}, {}, "/bin/bash");
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
};

TEST_F(DocsCommands, ThatThePagesNameRun) {
  const std::pair<const char*, const char*> stands_for[] = {{"--from RUN", "--from runs/tiny@3"},
                                                            {R"(\bRUN\.\.\.)", "runs/tiny"},
                                                            {R"(\bRUN\b)", "runs/tiny"},
                                                            {R"(\bBASE\b)", "runs/mytext"},
                                                            {R"(\bRECIPE\b)", "other.toml"},
                                                            {R"(\bTRAIN\b|\bVALIDATION\b)", "text.txt"},
                                                            {R"(\bDIR\b)", "out"}};
  std::set<std::string> ran;
  for (const char* page : pages)
    for (std::string command : commands_of(page)) {
      for (const auto& [word, value] : stands_for)
        command = std::regex_replace(command, std::regex(word), value);
      if (std::regex_match(command, std::regex("mxtape [a-z-]+")))
        command += " --help";  // named, not shown whole
      if (!ran.insert(command).second) continue;
      EXPECT_EQ(shell(command), 0) << page << ": " << command << "\n" << output_;
    }
  EXPECT_GT(ran.size(), 6u);
}

TEST_F(DocsCommands, ThatAreNamedBesideNoneAreRefused) {
  int tried = 0;
  const std::string rows = std::regex_replace(text_of("docs/coming_from.md"), std::regex("\n  "), " ");
  for (const std::string& row : matches(rows, "\n([|*][^\n]* none[^\n]*)")) {
    if (row.starts_with("| none |")) continue;  // what the other program has not
    const auto options = matches(row, "none \\(`(--[^`]*)`\\)");
    ASSERT_EQ(options.size(), 1u) << "no option that was tried: " << row;
    EXPECT_EQ(run({"train", "tiny.toml", options[0]}), 2) << row << "\n" << output_;
    ++tried;
  }
  EXPECT_GT(tried, 10);
}

}  // namespace
}  // namespace mxtape::test
