// docs/tutorial.md is followed to its end: its files are written, its commands run, and each line that it
// shows is among what they print. Runs are a tenth as long, and so numbers are not compared; what the machine
// multiplies with and verdicts are not, either.
#include <fstream>
#include <regex>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

class Tutorial : public ProgramTest {
 protected:
  int shell(const std::string& command) {
    Program program(folder_.path(), {"-c", "export PATH=\"$PWD:$PATH\"; " + command}, {}, "/bin/bash");
    const int code = program.wait();
    output_ = program.output();
    return code;
  }
};

std::string replaced(const std::string& text, const char* pattern, const char* by) {
  return std::regex_replace(text, std::regex(pattern), by);
}

/// What two runs of different length on two machines have in common.
std::string lasting(std::string line) {
  line = replaced(line, "(integer|bf16|f32) (GEMM|operands).*", "");
  line = replaced(line, "(worse|better|within|baseline|not resolved).*", "");
  line = replaced(line, "[-+]?[0-9][0-9.]*(e[-+][0-9]+)?", "0");
  return replaced(line, " +", " ");
}

std::vector<std::string> lines_of(std::istream& text) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST_F(Tutorial, ItsCommandsRunAndPrintWhatItShows) {
  std::filesystem::create_symlink(MXTAPE_PROGRAM, folder_ / "mxtape");
  std::ifstream page(std::filesystem::path(MXTAPE_SOURCE) / "docs/tutorial.md");
  const std::string command = "    $ ", shown = "    ";
  std::string file;  // that the text named last
  std::set<std::string> printed;
  int commands = 0, compared = 0;
  bool in_file = false;
  std::string content;
  for (const std::string& line : lines_of(page)) {
    std::smatch name;
    if (!in_file && std::regex_search(line, name, std::regex("`([a-z]+\\.toml)`:$"))) file = name[1];
    if (line.starts_with("```")) {
      if (in_file)
        write_atomically(folder_ / file, replaced(content, "(steps|every) = ([0-9]+)0\\b", "$1 = $2"));
      in_file = !in_file;
      content.clear();
    } else if (in_file) {
      content += line + "\n";
    } else if (line.starts_with(command)) {
      const std::string words = replaced(line.substr(command.size()), "steps=([0-9]+)0\\b", "steps=$1");
      ASSERT_EQ(shell(words), 0) << words << "\n" << output_;
      std::istringstream text(output_);
      printed.clear();
      for (const std::string& out : lines_of(text)) printed.insert(lasting(out));
      ++commands;
    } else if (line.starts_with(shown) && line != "    ...") {
      const std::string wanted = lasting(line.substr(shown.size()));
      EXPECT_TRUE(printed.contains(wanted)) << "no '" << wanted << "' in:\n" << output_;
      ++compared;
    }
  }
  EXPECT_EQ(commands, 6);
  EXPECT_GT(compared, 20);
}

}  // namespace
}  // namespace mxtape::test
