// What transformers itself computes from an exported folder. MXTAPE_PYTHON names a Python that has torch and
// transformers; without one the test is skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "interop/import.h"
#include "program/models/export.h"
#include "program/models/import.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

std::string python() {
  const char* const given = std::getenv("MXTAPE_PYTHON");
  return given ? given : "python3";
}
int shell(const std::string& command) { return std::system(command.c_str()); }

TEST(Transformers, LoadAnExportedFolderWithTheLogitsAndGreedyTextsOfTheSharedSet) {
  const fs::path set = fs::path(MXTAPE_SHARED) / "interop", check = set / "check_export.py";
  if (!fs::exists(check)) GTEST_SKIP() << "no " << check;
  if (shell(python() + " -c 'import torch, transformers' 2> /dev/null") != 0)
    GTEST_SKIP() << python() << " has no torch and transformers; MXTAPE_PYTHON names one that has";
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(set / "models")) {
    const fs::path source = entry.path();
    if (!fs::exists(source / "greedy.json")) continue;
    const TemporaryFolder folder;
    (void)import_model({.source = source, .out = folder / "model"});
    (void)export_model({.run = (folder / "model").string(), .out = folder / "out"});
    const std::string command = python() + " '" + check.string() + "' '" + (folder / "out").string() + "' '" +
                                (source / "reference.safetensors").string() + "' --greedy '" +
                                (source / "greedy.json").string() + "'";
    EXPECT_EQ(shell(command), 0) << command;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace mxtape
