#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/error.h"
#include "recipes/recipe.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {

/// A folder of recipe files that lasts as long as the test.
class RecipeFiles {
 public:
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

 private:
  TemporaryFolder folder_;
};

/// The message of the usage error that `body` throws; "" if it throws none.
template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage) << e.what();
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mxtape
