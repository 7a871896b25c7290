#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "program/corpus/corpus.h"
#include "program/show/command.h"
#include "program/show/progress.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {

constexpr std::int64_t default_tales = 10'000;

struct Arguments {
  std::int64_t tales = 0, characters = 0;
  std::uint64_t seed = 1;
  double validation = 0.1;
  std::string out, text, score;
  bool force = false;
};

Value value_of(const tales::Score& part) {
  return object("tales", part.tales, "characters", part.characters, "nats", part.nats, "nats_per_character",
                part.per_character());
}

Report score_file(const std::string& path) {
  const std::string text = read_input(path), name = shown_name(path);
  const auto result = in_file(name, [&] { return tales::score(text); });
  Report out;
  out.line("{}: {} tales, {} characters, {:.3f} nats, {:.6f} nats per character", name, result.tales,
           result.characters, result.nats, result.per_character());
  out.put("text", path, "score", value_of(result));
  return out;
}

/// A line to stderr every two seconds: a gigabyte takes minutes.
auto report_progress() {
  return [line = Line(stderr, std::chrono::seconds(2), false)](std::int64_t characters) mutable {
    if (line.is_due()) line.keep(fmt::format("corpus: {} characters", characters));
  };
}

Report run(Arguments& options, const Given& given) {
  for (const char* option : {"--validation", "--force", "--characters"})
    require(!given(option) || given("--out") || given("--text"), ExitCode::usage,
            "corpus: {} has no effect on tales that are printed; it needs --out or --text", option);
  if (!options.score.empty()) return score_file(options.score);
  Report out;
  const bool to_file = !options.out.empty() || !options.text.empty();
  if (options.tales == 0 && options.characters == 0) options.tales = to_file ? default_tales : 1;
  if (!to_file) {
    std::vector<std::string> texts;
    for (std::int64_t tale = 0; tale < options.tales; ++tale) {
      texts.push_back(tales::write_tale(options.seed, std::uint32_t(tale)).text);
      if (!given.json) std::fputs(texts.back().c_str(), stdout), texts.clear();  // however many there are
    }
    out.put("seed", options.seed, "tales", texts);
    return out;
  }
  std::vector<std::string> outputs;
  for (const auto& output : {options.text, options.out})
    if (!output.empty()) require_output(output, outputs, options.force), outputs.push_back(output);
  const auto made = tales::write_corpus(options.seed, {options.tales, options.characters}, options.validation,
                                        report_progress());
  for (const auto& [what, part] : {std::pair("all", &made.all), {"validation", &made.validation}}) {
    out.line("{:<10} {} tales, {} characters, {:.4f} nats per character", what, part->tales, part->characters,
             part->per_character());
    out.put(what, value_of(*part));
  }
  out.line("source     {:.4f} +- {:.4f} nats per character", made.entropy.value, made.entropy.standard_error);
  out.put("seed", options.seed, "source",
          object("nats_per_character", made.entropy.value, "standard_error", made.entropy.standard_error));
  out.show(given.json);
  if (!options.text.empty()) write_atomically(options.text, made.text);
  out.put("text", Value(options.text, "no --text"), "out", Value(options.out, "no --out"));
  if (options.out.empty()) return out;
  const auto source = fmt::format("mxtape corpus --seed {} --tales {}", options.seed, made.all.tales);
  const auto hash = tales::to_token_file(made, source).write(options.out);
  out.line("wrote      {} (xxh3-128 {})", options.out, hash);
  out.put("hash", hash);
  return out;
}

Options options(Arguments& a) {
  return {
      {"--tales", &a.tales, "number of tales; default: 10000 into a file, 1 printed", within(1, 0x1p32)},
      {"--characters", &a.characters, "characters to reach with whole tales, two or more; instead of --tales",
       from(1).excludes("--tales")},
      {"--seed", &a.seed, "which tales"},
      {"--validation", &a.validation, "share of the tales, the last ones, kept for validation",
       within(0.0001, 0.9)},
      {"--out", &a.out, "token file to write; without it and --text the tales are printed"},
      {"--text", &a.text, "plain text file to write"},
      {"--force", &a.force, "write over files that are there"},
      {"--score", &a.score, "print the nats per character of this text under the grammar",
       excludes("--tales --characters --seed --validation --out --text --force")}};
}

}  // namespace

Command commands::corpus() {
  return {"corpus", "Write tales from a grammar of known entropy, or score a text under it",
          with(options, run)};
}

}  // namespace mxtape
