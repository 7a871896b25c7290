#include <cstdio>
#include <limits>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/in_file.h"
#include "core/files/output_file.h"
#include "core/files/status.h"
#include "core/text/program_name.h"
#include "data/hdf5/token_ids.h"
#include "data/tokenizers/bpe/trainer.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_files.h"
#include "program/show/command.h"
#include "program/show/progress.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string action, special_tokens = "text", out, tokens;
  std::vector<std::string> operands;
  bool llmc_header = false, force = false;
  BpeTraining training{.specials = {"<|endoftext|>"}};
};

/// A line every few seconds on standard error: what is done, and how long the rest will take.
auto training_progress(std::int64_t vocabulary) {
  return [=, line = Line(stderr, std::chrono::seconds(3), false)](std::int64_t tokens) mutable {
    if (tokens % 64 != 0 || !line.is_due()) return;
    const auto done = double(std::max<std::int64_t>(tokens - 256, 1));
    line.keep(fmt::format("{} of {} tokens, at most {:.0f} s left", tokens, vocabulary,
                          line.seconds() * double(vocabulary - tokens) / done));
  };
}

Report train(const Arguments& options) {
  require(!options.out.empty(), ExitCode::usage,
          "tokenizer train: want --out FOLDER for the files it writes");
  require_valid(options.training);
  UnfinishedFolder folder(options.out);
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const auto& path : options.operands) bytes += texts.emplace_back(read_input(path)).size();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (std::size_t i = 0; i < views.size(); ++i) {
    require(!views[i].empty(), ExitCode::data, "{}: is empty, want text", options.operands[i]);
    const std::size_t bad = first_bad_byte(views[i]);
    require(bad == views[i].size(), ExitCode::data, "{}: byte {} is not UTF-8; convert the text",
            options.operands[i], bad);
  }
  const TrainedBpe trained =
      train_bpe(views, options.training, training_progress(options.training.vocabulary));
  const BpeFiles files = files_of(trained, options.training);
  const Tokenizer made = Tokenizer::from_tokenizer_json(files.tokenizer_json);
  write_atomically(folder.path() / "vocab.json", files.vocab_json);
  write_atomically(folder.path() / "merges.txt", files.merges_txt);
  write_atomically(folder.path() / "tokenizer.json", files.tokenizer_json);
  folder.finish();
  Report out;
  out.line("read       {} bytes, {} words, {} of them distinct", bytes, trained.words,
           trained.distinct_words);
  out.line("vocabulary {}: 256 bytes, {} merges, {} special", made.text(), trained.merges.size(),
           options.training.specials.size());
  if (made.size() < options.training.vocabulary)
    out.line("           fewer than {}: no other pair occurs {} times", options.training.vocabulary,
             options.training.least_count);
  out.line("wrote      {}: tokenizer.json, vocab.json, merges.txt (hash {})", options.out, made.hash());
  out.put("bytes", bytes, "words", trained.words, "distinct_words", trained.distinct_words, "vocabulary",
          made.size(), "merges", trained.merges.size(), "specials", options.training.specials, "out",
          options.out, "hash", made.hash());
  return out;
}

/// The tokenizer, the text and its file of `tokenizer encode|decode TOKENIZER [FILE]`.
std::tuple<Tokenizer, std::string, std::string> tokenizer_and_text(const Arguments& options) {
  require(options.operands.size() <= 2, ExitCode::usage, "tokenizer {}: {} files; want TOKENIZER [FILE]",
          options.action, options.operands.size());
  const std::string from = options.operands.size() == 2 ? options.operands[1] : std::string(standard_input);
  require(from == standard_input || is_there(from), ExitCode::data,
          "{}: no such file; what is typed comes by standard input: echo ... | {} tokenizer {} {}", from,
          program_name(), options.action, options.operands[0]);
  auto inputs = files_of_tokenizer(options.operands[0]);
  inputs.push_back(from);
  if (!options.out.empty()) require_output(options.out, inputs, options.force);
  auto tokenizer = read_tokenizer(options.operands[0]);
  return {std::move(tokenizer), read_input(from), from};
}

Report encode(const Arguments& options, bool json) {
  const auto [tokenizer, text, from] = tokenizer_and_text(options);
  const auto specials = options.special_tokens == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  require(specials == SpecialTokens::text || tokenizer.finds_specials(), ExitCode::usage,
          "--specials parse: {} is no tokenizer.json; its special tokens are never found in a text",
          options.operands[0]);
  const auto ids = in_file(from, [&] { return tokenizer.encode(text, specials); });
  Report out;
  out.put("tokenizer", tokenizer.text(), "count", ids.size());
  if (options.out.empty()) {
    if (json) return out.put("tokens", ids), out;
    std::string line;
    for (const std::int32_t id : ids) line += std::to_string(id) + ' ';
    if (!line.empty()) line.back() = '\n';
    out.text(std::move(line));
    return out;
  }
  const bool narrow = options.tokens.empty() ? tokenizer.size() <= 65536 : options.tokens == "u16";
  require(!narrow || tokenizer.size() <= 65536, ExitCode::usage,
          "--tokens u16: the tokenizer has {} tokens; want u32", tokenizer.size());
  write_ids(options.out, ids, narrow ? 16 : 32, options.llmc_header);
  const char* const type = narrow ? "u16" : "u32";
  out.line("wrote      {} ({} {} ids of {})", options.out, ids.size(), type, tokenizer.text());
  out.put("out", options.out, "type", type);
  return out;
}

Report decode(const Arguments& options) {
  const auto [tokenizer, text, from] = tokenizer_and_text(options);
  const auto ids = Tokenizer::of_ids(tokenizer.size());
  const std::string decoded = in_file(from, [&] { return tokenizer.decode(ids.encode(text)); });
  Report out;
  out.put("tokenizer", tokenizer.text(), "text", decoded);
  if (options.out.empty())
    out.text(decoded);
  else
    write_atomically(options.out, decoded);
  return out;
}

/// Each option is for some actions only; nothing that was typed is ignored.
void require_fits(const Given& given, const Arguments& options) {
  const auto only = [&](const std::string& action, const std::vector<std::string>& names) {
    for (const auto& name : names)
      require(action.find(options.action) != action.npos || !given(name), ExitCode::usage,
              "{} is for tokenizer {}", name, action);
  };
  only("train", {"--vocabulary", "--style", "--min-count", "--longest", "--special"});
  only("encode", {"--specials", "--tokens", "--llmc-header"});
  only("encode and decode", {"--force"});
}

Options options(Arguments& a) {
  BpeTraining& t = a.training;
  return {
      {"ACTION", &a.action, "train FILE..., encode TOKENIZER [FILE], decode TOKENIZER [FILE]",
       one_of("train encode decode")},
      {"FILE", &a.operands,
       "texts to train on; or a tokenizer's folder or file, then a file of text, or of ids as decimals "
       "(default: standard input)"},
      {"--out", &a.out,
       "train: the folder to make, with tokenizer.json, vocab.json and merges.txt; else a file instead of "
       "standard output, of encode with ids in binary"},
      {"--vocabulary", &t.vocabulary, "train: tokens in all, 256 bytes and the special ones included",
       within(256, 1 << 24)},
      {"--style", &t.style, "train: how texts are cut into words", one_of("gpt2 llama3 qwen2")},
      {"--min-count", &t.least_count, "train: pairs that occur less often are not merged", from(1)},
      {"--longest", &t.longest, "train: bytes of the longest token; default: no limit",
       within(2, std::numeric_limits<std::int32_t>::max())},
      {"--special", &t.specials, "train: a special token; may be repeated"},
      {"--specials", &a.special_tokens,
       "encode: what <|endoftext|> and the like are: text, or parse for the tokens of that name",
       one_of("text parse")},
      {"--tokens", &a.tokens, "encode with --out: width of an id; default: the narrowest",
       one_of("u16 u32").needs("--out")},
      {"--llmc-header", &a.llmc_header, "encode with --out: begin with llm.c's header", needs("--out")},
      {"--force", &a.force, "encode, decode: write over a file that is there", needs("--out")}};
}

Report run(const Arguments& a, const Given& given) {
  require_fits(given, a);
  if (a.action == "train") return train(a);
  return a.action == "encode" ? encode(a, given.json) : decode(a);
}

}  // namespace

Command commands::tokenizer() {
  return {"tokenizer", "Train a tokenizer, or turn text into token ids and back", with(options, run)};
}

}  // namespace mxtape
