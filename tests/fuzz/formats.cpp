// The text of a number format, and of a rotation. What is taken has a text that means the same.
#include "formats/quantizer.h"
#include "formats/rotation.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  const std::string text = fuzz::text_of(bytes, count);
  fuzz::taken_or_refused([&] {
    const Quantizer quantizer = parse_quantizer(text);
    fuzz::promise(parse_quantizer(to_text(quantizer)) == quantizer, "a format reads back as it was written");
  });
  return fuzz::taken_or_refused([&] {
    const Rotation rotation = parse_rotation(text);
    fuzz::promise(parse_rotation(to_text(rotation)) == rotation, "a rotation reads back as it was written");
  });
}
