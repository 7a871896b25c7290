// A SentencePiece model, and texts that it encodes.
#include "tests/fuzz/tokenizers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  using namespace mxtape;
  return fuzz::taken_or_refused(
      [&] { fuzz::try_tokenizer(Tokenizer::from_sentencepiece(fuzz::text_of(bytes, count))); });
}
