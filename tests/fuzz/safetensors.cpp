// A file of safetensors: header, offsets and numbers.
#include "data/safetensors/safetensors_file.h"

#include <vector>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused([&] {
    const SafetensorsFile file(fuzz::file_with(bytes, count));
    std::uint64_t data = 0;
    for (const TensorInfo& tensor : file.tensors()) {
      data += tensor.end - tensor.begin;
      fuzz::promise(file.find(tensor.name) == &tensor, "a tensor is found by its name");
    }
    fuzz::promise(data < count, "no more data than the file has");
    for (const TensorInfo& tensor : file.tensors()) {
      std::vector<float> values(tensor.count());
      file.read_f32(tensor, 0, values);
    }
  });
}
