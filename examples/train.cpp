// Trains a tiny character model in mixed precision: 4-bit weights, 6-bit activations and gradients.
//   train [TEXT.txt]         without a file: the paragraph below, which the model learns by heart. It takes a
//                            longer text to bring the validation loss down.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <string>

#include "train/sampling/sample.h"
#include "train/trainer.h"

namespace {

using namespace mxtape;

// Lewis Carroll, Alice's Adventures in Wonderland, 1865.
constexpr const char* paragraph =
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to "
    "do: "
    "once or twice she had peeped into the book her sister was reading, but it had no pictures or "
    "conversations in it, \"and what is the use of a book,\" thought Alice, \"without pictures or "
    "conversations?\" So she was considering in her own mind (as well as she could, for the hot day made her "
    "feel very sleepy and stupid), whether the pleasure of making a daisy-chain would be worth the trouble "
    "of "
    "getting up and picking the daisies, when suddenly a White Rabbit with pink eyes ran close by her. ";

std::string read_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  require(bool(file), ExitCode::data, "{}: cannot be read; want a text file", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The last tenth of the text is for validation.
TokenFile tokens_of(const std::string& text) {
  TokenFile data;
  data.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, text);
  const std::vector<std::int32_t> tokens = data.tokenizer.encode(text);
  const auto all = std::span(tokens);
  const std::size_t cut = tokens.size() * 9 / 10;
  data.train = Split::from_tokens(all.first(cut), data.tokenizer.size());
  data.validation = Split::from_tokens(all.subspan(cut), data.tokenizer.size());
  return data;
}

/// What a .toml file would say; read_recipe() reads one.
Recipe mixed_precision() {
  Recipe r;
  r.name = "mixed";
  r.model = {.layers = 2, .heads = 2, .width = 32, .context = 32};
  r.train.steps = 200;
  r.train.batch_size = 8;
  r.optim.learning_rate = 1e-2f;
  r.schedule.warmup_steps = 10;
  r.precision.weights = "mxfp4 rule=even";
  r.precision.activations = "mxfp6_e2m3 rule=even";
  r.precision.gradients = "mxfp6_e3m2 rule=even round=stochastic";
  r.precision.rules.push_back({.layers = "blocks.0.*", .slots = {"wgrad.dy"}, .format = "bf16"});
  validate(r);
  return r;
}

}  // namespace

int main(int argc, char** argv) try {
  const TokenFile data = tokens_of(argc > 1 ? read_text(argv[1]) : paragraph);
  const auto backend = make_backend("cpu");
  Trainer trainer(*backend, mixed_precision(), data);
  fmt::print("{}, {}\n", backend->description(), data.tokenizer.text());
  while (!trainer.finished()) {
    const Trainer::StepResult result = trainer.step();
    if (trainer.steps_done() == 1 || trainer.steps_done() % 50 == 0)
      fmt::print("step {:3}  loss {:.4f}\n", trainer.steps_done(), result.loss);
  }
  fmt::print("validation loss {:.4f} nats per character\n", trainer.validate().loss);

  const std::vector<std::int32_t> prompt{data.train[0]};
  const auto continued = sample(*backend, trainer.model(), prompt, {.tokens = 80, .temperature = 0.5});
  fmt::print("it writes: {}{}\n", data.tokenizer.decode(prompt), data.tokenizer.decode(continued));
  return 0;
} catch (const mxtape::Error& e) {
  fmt::print(stderr, "train: {}\n", e.what());
  return int(e.code());
}
