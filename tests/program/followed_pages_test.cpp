// The tutorial and the how-to pages are followed to their ends: their files are written, their commands run,
// and each line that they show is among what is printed. Runs are a hundredth as long, and so numbers are not
// compared; what the machine multiplies with and verdicts are not, either.
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

namespace fs = std::filesystem;

std::string replaced(const std::string& text, const std::string& pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

/// Of the steps and seeds that a page asks for, a hundredth (but of 40 a tenth), and two.
std::string shorter(const std::string& text) {
  return replaced(replaced(text, "(steps ?= ?|every ?= ?|@)([0-9]+?)0{1,2}\\b", "$1$2"), "seeds = [0-9]+",
                  "seeds = 2");
}

/// What two runs of different length on two machines have in common.
std::string lasting(std::string line) {
  line = replaced(line, "(integer|bf16|f32) (GEMM|operands).*", "");
  line = replaced(line, "(worse|better|within|baseline|not resolved).*", "");
  line = replaced(line, "[-+]?[0-9][0-9.]*(e[-+][0-9]+)?", "0");
  return replaced(replaced(line, " +", " "), " $", "");
}

std::vector<std::string> lines_of(std::istream& text) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string python() {
  const char* const given = std::getenv("MXTAPE_PYTHON");
  return given ? given : "python3";
}

class FollowedPages : public ProgramTest {
 protected:
  void SetUp() override { fs::create_symlink(MXTAPE_PROGRAM, folder_ / "mxtape"); }

  void follow(const std::string& page) {
    std::ifstream text(fs::path(MXTAPE_SOURCE) / "docs" / page);
    ASSERT_TRUE(text.is_open()) << page;
    std::string file, language, content;  // of a block; the file is what the text named last
    bool in_block = false;
    for (const std::string& line : lines_of(text)) {
      std::smatch name;
      if (!in_block && std::regex_search(line, name, std::regex("`([a-z0-9-]+\\.[a-z]+)`:$"))) file = name[1];
      if (line.starts_with("```")) {
        if (in_block && language == "toml") write_atomically(folder_ / file, shorter(content));
        if (in_block && language == "bash") prints(page, "bash -n", content);
        if (in_block && language == "python") prints(page, python() + " -", content);
        in_block = !in_block;
        language = line.substr(3);
        content.clear();
      } else if (in_block) {
        content += line + "\n";
      } else if (line.starts_with("    $ ")) {
        prints(page, shorter(line.substr(6)), "");
      } else if (line.starts_with("    ") && line != "    ..." && !skipped_) {
        const std::string wanted = lasting(line.substr(4));
        EXPECT_TRUE(printed_.contains(wanted)) << page << ": no '" << wanted << "' in:\n" << output_;
        ++compared_;
      }
    }
  }

  int commands_ = 0, compared_ = 0;
  std::string without_;  // what Python lacks for a block that was skipped

 private:
  /// Runs a command line, which reads `input`. A missing Python, or one that lacks a module, is no failure.
  void prints(const std::string& page, const std::string& command, const std::string& input) {
    write_atomically(folder_ / "input", std::string_view(input));
    const int code = shell(command + " < input");
    std::smatch lacks;
    skipped_ = code != 0 &&
               std::regex_search(output_, lacks, std::regex("No module named.*|python3: command not found"));
    if (skipped_) {
      without_ = fmt::format("docs/{}: {}; MXTAPE_PYTHON names one that has it", page, lacks.str());
      return;
    }
    ASSERT_EQ(code, 0) << page << ": " << command << "\n" << input << output_;
    std::istringstream text(output_);
    printed_.clear();
    for (const std::string& out : lines_of(text)) printed_.insert(lasting(out));
    ++commands_;
  }
  int shell(const std::string& command) {
    Program program(folder_.path(), {"-c", "export PATH=\"$PWD:$PATH\"; " + command}, {}, "/bin/bash");
    const int code = program.wait();
    output_ = program.output();
    return code;
  }

  std::set<std::string> printed_;
  bool skipped_ = false;
};

using Tutorial = FollowedPages;
using HowTo = FollowedPages;

TEST_F(Tutorial, ItsCommandsRunAndPrintWhatItShows) {
  follow("tutorial.md");
  EXPECT_EQ(commands_, 7);
  EXPECT_GT(compared_, 20);
}

/// One folder, as for a reader who works through all of them; the first page makes what the others take.
TEST_F(HowTo, TheCommandsOfAllPagesRunAndPrintWhatTheyShow) {
  const std::vector<std::string> pages = {"compare_formats", "which_layers", "format_by_layer",
                                          "other_bits",      "finetune",     "paper",
                                          "own_format",      "processes",    "python"};
  std::size_t found = 0;
  for (const auto& page : fs::directory_iterator(fs::path(MXTAPE_SOURCE) / "docs/howto"))
    found += page.path().extension() == ".md";
  EXPECT_EQ(found, pages.size()) << "a page that is not followed";
  fs::copy(fs::path(MXTAPE_SOURCE) / "docs/numerics.md", folder_ / "mytext.txt");
  for (const std::string& page : pages) follow("howto/" + page + ".md");
  EXPECT_GT(commands_, 20);
  EXPECT_GT(compared_, 40);
  if (!without_.empty()) GTEST_SKIP() << without_;
}

}  // namespace
}  // namespace mxtape::test
