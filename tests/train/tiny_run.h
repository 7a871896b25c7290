#pragma once
#include <string>

#include "data/hdf5/token_file.h"
#include "kernels/choose/make_backend.h"
#include "recipes/recipe.h"
#include "tests/support/temporary_folder.h"
#include "train/trainer.h"

namespace mxtape::test {

/// Words in a fixed, aperiodic order: something to learn within a few steps.
inline std::string tiny_text() {
  static const char* const words[] = {"the ", "cat ", "sees ", "a ", "small ", "dog. "};
  std::string text;
  for (std::uint32_t i = 0, state = 1; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    text += words[(i + (state >> 24)) % 6];
  }
  return text;
}

inline TokenFile tiny_data() {
  TokenFile file;
  file.tokenizer = Tokenizer::from_text(Tokenizer::Kind::characters, tiny_text());
  const auto tokens = file.tokenizer.encode(tiny_text());
  const std::size_t train = tokens.size() * 9 / 10;
  file.train = Split::from_tokens(std::span(tokens).first(train), file.tokenizer.size());
  file.validation = Split::from_tokens(std::span(tokens).subspan(train), file.tokenizer.size());
  file.source = "tiny_text";
  return file;
}

/// Two layers, 32 wide, 16 tokens long: a step takes a millisecond or so.
inline Recipe tiny_recipe(std::int64_t steps) {
  Recipe r;
  r.name = "tiny";
  r.seed = 7;
  r.model = {.layers = 2, .heads = 2, .width = 32, .context = 16};
  r.train.steps = steps;
  r.train.batch_size = 4;
  r.train.eval_windows = 8;
  r.train.sample_tokens = 0;
  r.schedule.warmup_steps = 2;
  r.optim.learning_rate = 1e-2f;
  r.compute.gemm = GemmChoice::library;  // as a backend that is made without options has it
  return r;
}

/// All that draws random numbers: stochastic gradients and weights, dropout, three micro-batches.
inline Recipe tiny_mxfp4_recipe(std::int64_t steps) {
  Recipe r = tiny_recipe(steps);
  r.model.dropout = 0.1f;
  r.train.accumulation = 3;
  r.precision.weights = "mxfp4 round=stochastic";
  r.precision.activations = "mxfp4";
  r.precision.gradients = "mxfp4 round=stochastic";
  return r;
}

/// A trainer with what it stands on.
struct TinyRun {
  Recipe recipe;
  TokenFile data = tiny_data();
  std::unique_ptr<Backend> backend;
  Trainer trainer{*backend, recipe, data};

  explicit TinyRun(const Recipe& r) : TinyRun(r, make_backend("cpu", r.compute.options())) {}
  TinyRun(Recipe r, std::unique_ptr<Backend> device) : recipe(std::move(r)), backend(std::move(device)) {}
  void run(std::int64_t until) {
    while (trainer.steps_done() < until) trainer.step();
  }
};

}  // namespace mxtape::test
