#include <algorithm>
#include <cstdio>

#include "core/files/in_file.h"
#include "data/tokenizers/text_stream.h"
#include "program/models/trained_model.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/streams.h"
#include "train/sampling/sample.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string checkpoint, device, prompt;
  std::int64_t samples = 1;
  std::vector<std::string> stops;
  bool whole_passes = false;
  SampleOptions options;
};

std::vector<std::int32_t> encoded_prompt(const Arguments& arguments, const TrainedModel& trained) {
  const Tokenizer& tokenizer = trained.header.tokenizer;
  auto prompt = at_place("--prompt", [&] { return tokenizer.encode(arguments.prompt); });
  require(!prompt.empty() || tokenizer.kind() != Tokenizer::Kind::ids, ExitCode::usage,
          "--prompt: want token ids, as in --prompt \"0 1\": {} was trained on ids without their tokenizer",
          trained.file.string());
  return prompt;
}

/// A text as it grows token by token: its prompt, then what is drawn, up to a stop text.
struct Text {
  TextStream stream;
  StopFilter filter;
  std::string shown{}, drawn{};  ///< that was not printed yet, in whole characters; all without the prompt
  std::vector<std::int32_t> tokens{};  ///< that were drawn, the stop text's among them
  bool finished = false;               ///< a stop text is complete, or the last token was drawn

  void show(const std::string& text) { shown += text, drawn += text; }
  void push(std::int32_t token) {
    tokens.push_back(token);
    show(filter.push(stream.push(token)));
    finished = filter.stopped();
  }
  void finish() {
    if (!finished) show(filter.push(stream.finish()));
    if (!filter.stopped()) show(filter.finish());
    finished = true;
  }
};

void print_times(const SampleTimes& times) {
  if (times.prompt_tokens == 0) return;
  const auto rate = [](std::int64_t tokens, double seconds) {
    return fmt::format("{} tokens in {:.3g} s, {:.4g} tokens/s", tokens, seconds, double(tokens) / seconds);
  };
  say(stderr, "mxtape: prompt {}{}\n", rate(times.prompt_tokens, times.prompt_seconds),
      times.tokens > 0 ? "; then " + rate(times.tokens, times.seconds) : "");
}

Report document(const Arguments& arguments, const TrainedModel& trained, const std::string& whole_passes,
                const std::vector<Text>& texts, const SampleTimes& times) {
  const SampleOptions& o = arguments.options;
  Table samples("seed; text; tokens; stop");
  const bool ids = trained.header.tokenizer.kind() == Tokenizer::Kind::ids;
  const auto bare = [&](std::string text) {  // without the blanks around ids that run() puts there
    if (ids) text.erase(0, text.find_first_not_of(' ')), text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  for (std::size_t i = 0; i < texts.size(); ++i)
    samples.row(o.seed + i, bare(texts[i].drawn), texts[i].tokens,
                Value(bare(texts[i].filter.stop()), "it ended after --tokens"));
  Report out;
  out.put("checkpoint", trained.file.string(), "step", trained.header.step, "prompt", arguments.prompt,
          "temperature", o.temperature, "top_k", o.top_k, "top_p", o.top_p, "min_p", o.min_p, "whole_passes",
          Value(whole_passes, "keys and values of the tokens before are kept"), "samples", samples,
          "prompt_tokens", times.prompt_tokens, "prompt_seconds", times.prompt_seconds, "tokens",
          times.tokens, "seconds", times.seconds);
  return out;
}

Report run(Arguments& arguments, const Given& given) {
  if (!given("--prompt")) arguments.prompt = "\n";
  const StopFilter checked(arguments.stops);  // before the model is read
  require(arguments.options.seed <= std::uint64_t(INT64_MAX - arguments.samples + 1), ExitCode::usage,
          "sample: --seed {} with --samples {}: seeds go up from there; want the last at most {}",
          arguments.options.seed, arguments.samples, INT64_MAX);
  const TrainedModel trained = load_trained_model(arguments.checkpoint, arguments.device);
  const std::vector<std::int32_t> prompt = encoded_prompt(arguments, trained);
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const bool ids = tokenizer.kind() == Tokenizer::Kind::ids;
  for (std::string& stop : arguments.stops)  // with a blank on each side: 2 is no part of 12
    if (ids) stop = " " + at_place("--stop", [&] { return tokenizer.decode(tokenizer.encode(stop)); });
  require(std::ranges::find(arguments.stops, " ") == arguments.stops.end() || !ids, ExitCode::usage,
          "--stop: want ids, with blanks between");
  SampleOptions options = arguments.options;
  options.tokens_known = tokenizer.size();
  options.pass = trained.next_pass();
  options.cache = !arguments.whole_passes;
  const std::string why = arguments.whole_passes ? "--whole-passes was given" : trained.model->no_cache();
  if (!why.empty() && !arguments.whole_passes)
    say(stderr, "mxtape: sample: {}: keys and values cannot be kept, each token takes a whole pass\n", why);

  std::vector<Text> texts(std::size_t(arguments.samples),
                          Text{TextStream(tokenizer), StopFilter(arguments.stops)});
  for (Text& text : texts) {
    for (const std::int32_t token : prompt) text.shown += text.stream.push(token);
    if (ids) text.shown.pop_back(), text.shown += text.filter.push(" ");
  }
  // The first that is not finished is printed as it grows, those behind it when their turn comes.
  std::size_t now = 0;
  bool begun = false;
  const auto show = [&] {
    if (given.json) return;
    for (; now < texts.size(); ++now, begun = false) {
      if (now > 0 && !std::exchange(begun, true)) fmt::print("----\n");
      fmt::print("{}", std::exchange(texts[now].shown, {}));
      if (!texts[now].finished) break;
      fmt::print("\n");
    }
    std::fflush(stdout);
  };
  show();
  const SampleTimes times = sample_texts(*trained.backend, *trained.model, prompt, options, arguments.samples,
                                         [&](std::int64_t text, std::int32_t token) {
                                           Text& grown = texts[std::size_t(text)];
                                           grown.push(token);
                                           const bool goes_on = !grown.finished;
                                           if (std::ssize(grown.tokens) == options.tokens) grown.finish();
                                           show();
                                           return goes_on;
                                         });
  for (Text& text : texts) text.finish();
  show();                               // the figures come last, also where both go to one file
  if (!given.json) print_times(times);  // the document has them
  return document(arguments, trained, why, texts, times);
}

Options options(Arguments& a) {
  SampleOptions& o = a.options;
  return {
      {"checkpoint", &a.checkpoint, model_name_help},
      device_of_run_option(a.device),
      {"--prompt", &a.prompt,
       "text to continue; default: a line break. Ids with blanks between, where the data are ids"},
      {"--tokens", &o.tokens, "tokens to draw; may exceed the context"},
      {"--temperature", &o.temperature, "0: always the likeliest; 1: the model's own distribution"},
      {"--top-k", &o.top_k, "draw from the k likeliest tokens only; 0: from all"},
      {"--top-p", &o.top_p, "then from the fewest likeliest that together have probability p", within(0, 1)},
      {"--min-p", &o.min_p, "then from those that are at least p times as likely as the likeliest",
       within(0, 1)},
      {"--stop", &a.stops,
       "end a text before this one; may be repeated, and may span several tokens; ids, if the data are"},
      {"--samples", &a.samples,
       "texts to draw, with the seeds seed, seed + 1, ...; a line of dashes between them", within(1, 1e6)},
      {"--seed", &o.seed, "the same seed draws the same text"},
      {"--whole-passes", &a.whole_passes,
       "compute every token from the whole context, without keys and values that were kept"}};
}

}  // namespace

Command commands::sample() { return {"sample", "Let a trained model continue a text", with(options, run)}; }

}  // namespace mxtape
