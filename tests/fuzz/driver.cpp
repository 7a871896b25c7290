// Stands in for libFuzzer where that is not linked: gives a target each file of a folder, and then as many
// altered ones as the second argument says. The same inputs in every run.
#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

/// A bit flipped, a byte put in another's place, a piece cut out, doubled, or replaced by one of another
/// input.
Bytes altered(Bytes input, const Bytes& other, std::mt19937& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    const auto at = std::ptrdiff_t(random() % (input.size() + 1));
    const auto length =
        std::ptrdiff_t(random() % std::min<std::size_t>(input.size() - std::size_t(at) + 1, 32));
    const auto begin = input.begin() + at;
    switch (random() % 5) {
      case 0:
        if (begin != input.end()) *begin ^= std::uint8_t(1u << random() % 8);
        break;
      case 1:
        if (begin != input.end()) *begin = std::uint8_t("0123456789=.\"[]{}-\n\xff"[random() % 20]);
        break;
      case 2:
        input.erase(begin, begin + length);
        break;
      case 3: {
        const Bytes piece(begin, begin + length);
        input.insert(begin, piece.begin(), piece.end());
        break;
      }
      default:
        if (!other.empty()) {
          const auto from = std::ptrdiff_t(random() % other.size());
          const auto count = std::min(std::ptrdiff_t(1 + random() % 32), std::ptrdiff_t(other.size()) - from);
          input.insert(begin, other.begin() + from, other.begin() + from + count);
        }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER INPUTS\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
  }
  const int taken = mxtape::fuzz::taken;
  if (taken == 0) {
    std::fprintf(stderr, "%s: holds no input that is taken\n", argv[1]);
    return 1;
  }
  std::mt19937 random(1);
  const int count = std::atoi(argv[2]);
  for (int i = 0; i < count; ++i) {
    const Bytes input = altered(corpus[random() % corpus.size()], corpus[random() % corpus.size()], random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%zu files, of which %d are taken, and %d altered ones, of which %d are\n", corpus.size(),
              taken, count, mxtape::fuzz::taken - taken);
  return 0;
}
