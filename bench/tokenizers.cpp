// MB/s of CPU time that encoding takes, on one thread:
//   build/bench/bench_tokenizers TOKENIZER TEXT...      # a folder or file, and the texts as they are
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/parallel.h"
#include "data/tokenizers/tokenizer_files.h"

namespace {

/// The best of several passes: other work on the machine only ever adds.
void measure(const mxtape::Tokenizer& tokenizer, const std::string& path, const std::string& text) {
  double best = 1e30;
  std::size_t count = 0;
  for (int pass = 0; pass < 7; ++pass) {
    const std::clock_t begin = std::clock();
    count = tokenizer.encode(text).size();
    best = std::min(best, double(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  fmt::print("{:<40} {:>11} bytes {:>10} tokens {:>8.1f} MB/s\n", path, text.size(), count,
             double(text.size()) / best / 1e6);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: {} TOKENIZER TEXT...\n", arguments[0]);
    return 2;
  }
  try {
    mxtape::set_threads(1);
    const auto tokenizer = mxtape::read_tokenizer(arguments[1]);
    fmt::print("{}\n", tokenizer.text());
    for (int i = 2; i < count; ++i) measure(tokenizer, arguments[i], mxtape::read_whole_text(arguments[i]));
    measure(tokenizer, "a million times the letter a", std::string(1'000'000, 'a'));
  } catch (const mxtape::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return int(error.code());
  }
}
