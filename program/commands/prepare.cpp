#include "data/hdf5/token_file.h"
#include "data/hdf5/token_ids.h"
#include "data/tokenizers/text/utf8.h"
#include "data/tokenizers/tokenizer_files.h"
#include "program/models/trained_model.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string tokenizer = "char", tokenizer_of, special_tokens = "text", tokens, validation_file, out;
  std::int64_t vocabulary = 0;
  double validation = 0.1;
  bool force = false;
};

/// Each line at once: a step on a gigabyte takes seconds, and silence looks like a hang.
struct Said {
  const bool json;
  Report report{};
  Table read{"file; bytes; tokens; header"};

  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    report.line(text, std::forward<Args>(args)...);
    report.show(json);
  }
};

/// The texts, which must be UTF-8 where `remedy` says what to do if they are not.
std::vector<std::string> read_texts(Said& said, std::span<const std::string> files,
                                    std::optional<std::string_view> remedy) {
  std::vector<std::string> texts;
  for (const auto& path : files) {
    const std::string& text = texts.emplace_back(read_input(path));
    require(!text.empty(), ExitCode::data, "{}: is empty, want text", shown_name(path));
    said.line("read       {} ({} bytes)", shown_name(path), text.size());
    said.read.row(shown_name(path), text.size(), Value(nullptr, "a text"), Value(nullptr, "a text"));
    try {
      if (remedy) for_each_character(text, [](char32_t, std::size_t) {});
    } catch (const Error& error) {
      fail(error.code(), "{}: {}; {}", shown_name(path), error.what(), *remedy);
    }
  }
  return texts;
}

/// Whether the tokenizer is made from the text, not read from files.
bool is_made_here(const std::string& tokenizer) { return tokenizer == "char" || tokenizer == "byte"; }

std::string wrong_tokenizer(const std::string& name) {
  std::error_code unknown;
  const bool there = is_made_here(name) || std::filesystem::exists(name, unknown);
  return there ? "" : fmt::format("'{}': want char, byte, or a folder or file", name);
}

/// The tokenizer that a run's model was trained with.
Tokenizer tokenizer_of(const std::string& run) {
  const auto file = checkpoint_of(run);
  Tokenizer tokenizer = open_saved_model(file).header.tokenizer;
  require(tokenizer.kind() != Tokenizer::Kind::ids, ExitCode::usage,
          "--tokenizer-of {}: its tokens are ids of another program's tokenizer, which is not known here; "
          "make ids with that one, then: --tokens u16|u32 --vocabulary {}",
          run, tokenizer.size());
  return tokenizer;
}

/// The tokens of all texts, one after the other.
Split encode(const Tokenizer& tokenizer, SpecialTokens specials, std::span<const std::string> texts,
             std::span<const std::string> files) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      auto part = tokenizer.encode(texts[i], specials);
      if (tokens.empty())
        tokens = std::move(part);
      else
        tokens.insert(tokens.end(), part.begin(), part.end());
    } catch (const Error& error) {
      fail(error.code(), "{}: {}; remove or replace it", shown_name(files[i]), error.what());
    }
  }
  return Split::from_tokens(tokens, tokenizer.size());
}

/// The splits; validation is empty where it shall be a share of the tokens in train.
TokenFile from_texts(Said& said, const Arguments& options, std::span<const std::string> inputs) {
  TokenFile file;
  const bool of_files = !is_made_here(options.tokenizer), given = of_files || !options.tokenizer_of.empty();
  if (given)
    file.tokenizer = of_files ? read_tokenizer(options.tokenizer) : tokenizer_of(options.tokenizer_of);
  const auto kind = given                         ? file.tokenizer.kind()
                    : options.tokenizer == "byte" ? Tokenizer::Kind::bytes
                                                  : Tokenizer::Kind::characters;
  require(
      options.special_tokens == "text" || (given && file.tokenizer.finds_specials()), ExitCode::usage,
      "--specials parse: this tokenizer finds no special tokens in a text; one with a tokenizer.json does");
  std::optional<std::string_view> remedy;
  if (kind == Tokenizer::Kind::characters)
    remedy =
        given ? "convert the text" : "convert the text, or use --tokenizer byte, or --tokens for token ids";
  const auto texts = read_texts(said, inputs, remedy);
  if (!given)
    file.tokenizer = Tokenizer::from_texts(kind, std::vector<std::string_view>(texts.begin(), texts.end()));
  const auto all = std::span(texts);
  const std::size_t count = options.files.size();
  const auto specials = options.special_tokens == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  file.train = encode(file.tokenizer, specials, all.first(count), inputs.first(count));
  file.validation = encode(file.tokenizer, specials, all.subspan(count), inputs.subspan(count));
  said.line("vocabulary {}{}", file.tokenizer.text(),
            given ? fmt::format(", those of {}", of_files ? options.tokenizer : options.tokenizer_of) : "");
  if (kind == Tokenizer::Kind::subwords) said.line("tokenizer  hash {}", file.tokenizer.hash());
  return file;
}

/// Standard input can be read once, holds text, and gives no name to the output.
void require_standard_input_fits(const Arguments& options, std::span<const std::string> inputs) {
  const auto count = std::count(inputs.begin(), inputs.end(), standard_input);
  require(count <= 1, ExitCode::usage, "'-': standard input can be read once; found it {} times", count);
  require(count == 0 || options.tokens.empty(), ExitCode::usage,
          "'-': standard input is for text; want files of token ids with --tokens");
  require(count == 0 || !options.out.empty(), ExitCode::usage,
          "'-': standard input has no name to make the output's from; want --out FILE");
}

TokenFile from_ids(Said& said, const Arguments& options, std::span<const std::string> validation_files) {
  require(
      options.vocabulary > 0, ExitCode::usage,
      "--tokens wants --vocabulary N, the number of ids of the tokenizer that made them: 50257 for GPT-2's");
  const IdFormat format{.bits = options.tokens == "u16" ? 16 : 32, .vocabulary = options.vocabulary};
  std::int64_t largest = 0;
  const auto on_file = [&](const IdFile& found) {
    said.line("read       {} ({} {} ids, {})", found.path, found.count, options.tokens,
              found.header ? "llm.c's header" : "no header");
    said.read.row(found.path, found.count * format.bits / 8, found.count, found.header);
    largest = std::max(largest, found.largest);
  };
  TokenFile file;
  file.tokenizer = Tokenizer::of_ids(options.vocabulary);
  file.train = read_ids(options.files, format, on_file);
  file.validation = read_ids(validation_files, format, on_file);
  said.line("vocabulary {} ids; the largest found is {}", options.vocabulary, largest);
  return file;
}

Report run(const Arguments& options, const Given& given) {
  Said said{given.json};
  const bool whole = !options.validation_file.empty();
  std::vector<std::string> inputs = options.files;
  if (whole) inputs.push_back(options.validation_file);
  require_standard_input_fits(options, inputs);
  const auto out =
      options.out.empty() ? std::filesystem::path(options.files[0]).stem().string() + ".h5" : options.out;
  std::vector<std::string> files = inputs;
  std::erase(files, standard_input);
  if (!options.tokenizer_of.empty()) files.push_back(checkpoint_of(options.tokenizer_of).string());
  if (!is_made_here(options.tokenizer))
    std::ranges::copy(files_of_tokenizer(options.tokenizer), std::back_inserter(files));
  require_output(out, files, options.force);
  TokenFile file =
      options.tokens.empty()
          ? from_texts(said, options, inputs)
          : from_ids(said, options, std::span<const std::string>(inputs).subspan(options.files.size()));
  if (!whole)
    file.validation =
        file.train.take_from(std::int64_t(double(file.train.count()) * (1 - options.validation)));
  require(file.train.count() > 1 && file.validation.count() > 1, ExitCode::data,
          "{}: {} tokens for training and {} for validation; want at least 2 of each",
          shown_name(options.files[0]), file.train.count(), file.validation.count());
  for (const auto& path : inputs)
    file.source +=
        (file.source.empty() ? "" : " ") + std::filesystem::path(shown_name(path)).filename().string();
  said.line("train      {} tokens", file.train.count());
  said.line("validation {} tokens ({})", file.validation.count(),
            whole ? shown_name(options.validation_file) : "the end of what was read");
  said.report.put("read", said.read, "tokenizer", file.tokenizer.text(), "vocabulary", file.tokenizer.size(),
                  "tokenizer_hash", file.tokenizer.hash());
  said.report.put("train_tokens", file.train.count(), "validation_tokens", file.validation.count());
  const auto hash = std::move(file).write(out);
  said.line("wrote      {} (xxh3-128 {})", out, hash);
  said.report.put("out", out, "hash", hash);
  return std::move(said.report);
}

Options options(Arguments& a) {
  return {
      {"FILE", &a.files, "texts (- is standard input), or with --tokens files of ids; joined in this order"},
      {"--tokenizer", &a.tokenizer,
       "for texts: char, one token a UTF-8 character; byte, one a byte; or the folder or file of a "
       "tokenizer: tokenizer.json, vocab.json with merges.txt, tokenizer.model",
       Limits{.check = wrong_tokenizer}},
      {"--tokenizer-of", &a.tokenizer_of,
       "the tokenizer of a run (its folder, RUN@STEP or a checkpoint), for a text that its model shall go on "
       "with",
       excludes("--tokenizer")},
      {"--specials", &a.special_tokens,
       "what <|endoftext|> and the like in a text are: text, or parse for the tokens of that name",
       one_of("text parse")},
      {"--tokens", &a.tokens,
       "the files hold token ids of another tokenizer: little-endian u16 or u32, as nanoGPT and llm.c write "
       "them",
       one_of("u16 u32").excludes("--specials --tokenizer --tokenizer-of")},
      {"--vocabulary", &a.vocabulary, "for --tokens: how many ids that tokenizer has, 50257 for GPT-2's",
       within(1, std::numeric_limits<std::int32_t>::max()).needs("--tokens")},
      {"--out", &a.out, "token file to write; default: <first FILE without its ending>.h5 here"},
      {"--force", &a.force, "write over a file that is there"},
      {"--validation", &a.validation, "share of the tokens, at their end, kept for validation",
       within(0.0001, 0.9)},
      {"--validation-file", &a.validation_file,
       "a file of the same kind that is the validation split as a whole", excludes("--validation")}};
}

}  // namespace

Command commands::prepare() {
  return {"prepare", "Turn text files, or files of token ids, into a token file", with(options, run)};
}

}  // namespace mxtape
