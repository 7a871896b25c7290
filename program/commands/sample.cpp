#include <cstdio>

#include "data/tokenizers/text_stream.h"
#include "program/command.h"
#include "program/run_name.h"
#include "program/trained_model.h"
#include "train/sampling/sample.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string checkpoint, device, prompt = "\n";
  std::int64_t samples = 1;
  SampleOptions options;
};

void run(const Arguments& arguments) {
  const TrainedModel trained = load_trained_model(arguments.checkpoint, arguments.device);
  const Tokenizer& tokenizer = trained.header.tokenizer;
  std::vector<std::int32_t> prompt;
  try {
    prompt = tokenizer.encode(arguments.prompt);
  } catch (const Error& error) {
    fail(error.code(), "--prompt: {}", error.what());
  }
  require(!prompt.empty() || tokenizer.kind() != Tokenizer::Kind::ids, ExitCode::usage,
          "--prompt: want token ids, as in --prompt \"0 1\": {} was trained on ids without their tokenizer",
          trained.file.string());
  SampleOptions options = arguments.options;
  options.tokens_known = tokenizer.size();
  options.pass = trained.next_pass();
  TextStream text(tokenizer);
  options.on_token = [&](std::int32_t token) {
    fmt::print("{}", text.push(token));
    std::fflush(stdout);
  };
  for (std::int64_t i = 0; i < arguments.samples; ++i, ++options.seed) {
    text = TextStream(tokenizer);
    fmt::print("{}", i == 0 ? "" : "----\n");
    for (const std::int32_t token : prompt) fmt::print("{}", text.push(token));
    sample(*trained.backend, *trained.model, prompt, options);
    fmt::print("{}\n", text.finish());
  }
}

}  // namespace

void add_sample_command(CLI::App& app) {
  auto* command = app.add_subcommand("sample", "Let a trained model continue a text");
  auto a = std::make_shared<Arguments>();
  command->add_option("checkpoint", a->checkpoint, model_name_help)->required();
  command->add_option("--device", a->device, "cpu or cuda; default: the device of the checkpoint's recipe");
  command->add_option(
      "--prompt", a->prompt,
      "text to continue; default: a line break. Ids with blanks between, where the data are ids");
  command->add_option("--tokens", a->options.tokens, "tokens to draw; may exceed the context")
      ->check(whole(0))
      ->capture_default_str();
  command
      ->add_option("--temperature", a->options.temperature,
                   "0: always the likeliest; 1: the model's own distribution")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--top-k", a->options.top_k, "draw from the k likeliest tokens only; 0: from all")
      ->check(whole(0))
      ->capture_default_str();
  command
      ->add_option("--samples", a->samples,
                   "texts to draw, with the seeds seed, seed + 1, ...; a line of dashes between them")
      ->check(whole(1))
      ->capture_default_str();
  command->add_option("--seed", a->options.seed, "the same seed draws the same text")
      ->check(whole(0))
      ->capture_default_str();
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
