#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace mxtape::test {

/// Programs are looked for in this folder alone, while it lives.
class OnlyPath {
 public:
  explicit OnlyPath(const std::filesystem::path& folder) : before_(std::getenv("PATH")) {
    ::setenv("PATH", folder.c_str(), 1);
  }
  ~OnlyPath() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

}  // namespace mxtape::test
