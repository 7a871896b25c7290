// A GGUF file: keys, config, names, places and numbers, and its tokenizer.
#include "interop/import.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused([&] {
    const std::filesystem::path file = fuzz::file_with(bytes, count);
    const ImportedModel model = open_gguf_file(file);
    for (const TensorInParts& tensor : model.tensors) {
      std::int64_t numbers = 0;
      tensor.read([&](std::span<const float> some) { numbers += std::int64_t(some.size()); });
      fuzz::promise(numbers == tensor.shape.count(), "as many numbers as the shape says");
      // Of four bits and a scale for 32: 17 bytes.
      fuzz::promise(numbers <= 2 * std::int64_t(count), "no more numbers than the file has codes");
    }
    constexpr std::int32_t first = 0;
    if (model.tokenizer) (void)model.tokenizer->decode({&first, 1});
  });
}
