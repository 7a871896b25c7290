// An array of NumPy's.
#include "data/npy.h"

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused([&] {
    const NpyArray array = read_npy(fuzz::file_with(bytes, count));
    std::int64_t numbers = 1;
    for (const auto extent : array.dims) numbers *= extent;
    fuzz::promise(numbers == std::int64_t(array.values.size()), "as many numbers as the shape says");
  });
}
