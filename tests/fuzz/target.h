#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"

// A target is one function of libFuzzer's, https://llvm.org/docs/LibFuzzer.html. It takes any bytes; what it
// finds is a crash, a finding of a sanitizer, or a promise that does not hold.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count);

namespace mxtape::fuzz {

inline std::string text_of(const std::uint8_t* bytes, std::size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

/// Ends the process where a promise is broken.
inline void promise(bool holds, const char* text) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", text);
  std::abort();
}

/// How many inputs were taken: a target that refuses all of them tries nothing.
inline int taken = 0;

/// Input is taken, or refused by an Error that does not blame mxtape.
template <class Read>
int taken_or_refused(const Read& read) {
  try {
    read();
    ++taken;
  } catch (const Error& e) {
    promise(e.code() != ExitCode::internal, e.what());
  }
  return 0;
}

/// A file of this process in memory, or in the folder of temporary files, with these bytes.
inline std::filesystem::path file_with(const std::uint8_t* bytes, std::size_t count) {
  static const std::filesystem::path path = [] {
    for (const auto& folder : {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string name = (folder / "mxtape-fuzz-XXXXXX").string();
      if (::mkstemp(name.data()) >= 0) return name;
      std::perror(name.c_str());
    }
    std::exit(1);
  }();
  static const struct Remover {
    std::filesystem::path path;
    ~Remover() { std::filesystem::remove(path); }
  } remover{path};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), std::streamsize(count));
  return path;
}

}  // namespace mxtape::fuzz
