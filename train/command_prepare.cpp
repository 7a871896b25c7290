#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"
#include "data/token_file.h"
#include "data/token_ids.h"
#include "train/command.h"

namespace mxtape {
namespace {

struct PrepareOptions {
  std::vector<std::string> files;
  std::string tokenizer = "char", tokens, validation_file, out;
  std::int64_t vocabulary = 0;
  double validation = 0.1;
};

/// One line at once: a step on a gigabyte takes seconds, and silence looks like a hang.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  std::puts(fmt::format(text, std::forward<Args>(args)...).c_str());
  std::fflush(stdout);
}

std::string read_texts(std::span<const std::string> files, Tokenizer::Kind kind) {
  std::string all;
  for (const auto& path : files) {
    const auto bytes = read_whole(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    require(!text.empty(), ExitCode::data, "{}: is empty, want text", path);
    say("read       {} ({} bytes)", path, bytes.size());
    try {
      if (kind == Tokenizer::Kind::characters) for_each_character(text, [](char32_t, std::size_t) {});
    } catch (const Error& error) {
      fail(error.code(), "{}: {}; convert the text, or use --tokenizer byte, or --tokens for token ids", path,
           error.what());
    }
    all += text;
  }
  return all;
}

/// The splits; validation is empty where it shall be a share of the tokens in train.
TokenFile from_texts(const PrepareOptions& options, std::span<const std::string> validation_files) {
  const auto kind = options.tokenizer == "byte" ? Tokenizer::Kind::bytes : Tokenizer::Kind::characters;
  std::string text = read_texts(options.files, kind);
  const std::size_t train = text.size();
  text += read_texts(validation_files, kind);
  TokenFile file;
  file.tokenizer = Tokenizer::from_text(kind, text);
  const auto split = [&](std::string_view part) {
    return Split::from_tokens(file.tokenizer.encode(part), file.tokenizer.size());
  };
  file.train = split(std::string_view(text).substr(0, train));
  file.validation = split(std::string_view(text).substr(train));
  say("vocabulary {} {}", file.tokenizer.size(), kind == Tokenizer::Kind::bytes ? "bytes" : "characters");
  return file;
}

TokenFile from_ids(const PrepareOptions& options, std::span<const std::string> validation_files) {
  require(
      options.vocabulary > 0, ExitCode::usage,
      "--tokens wants --vocabulary N, the number of ids of the tokenizer that made them: 50257 for GPT-2's");
  const IdFormat format{.bits = options.tokens == "u16" ? 16 : 32, .vocabulary = options.vocabulary};
  std::int64_t largest = 0;
  const auto on_file = [&](const IdFile& found) {
    say("read       {} ({} {} ids, {})", found.path, found.count, options.tokens,
        found.header ? "llm.c's header" : "no header");
    largest = std::max(largest, found.largest);
  };
  TokenFile file;
  file.tokenizer = Tokenizer::of_ids(options.vocabulary);
  file.train = read_ids(options.files, format, on_file);
  file.validation = read_ids(validation_files, format, on_file);
  say("vocabulary {} ids; the largest found is {}", options.vocabulary, largest);
  return file;
}

void prepare(const PrepareOptions& options) {
  const auto out =
      options.out.empty() ? std::filesystem::path(options.files[0]).stem().string() + ".h5" : options.out;
  const bool whole = !options.validation_file.empty();
  std::vector<std::string> inputs = options.files;
  if (whole) inputs.push_back(options.validation_file);
  require_output(out, inputs);
  const auto validation_files = std::span<const std::string>(inputs).subspan(options.files.size());
  TokenFile file =
      options.tokens.empty() ? from_texts(options, validation_files) : from_ids(options, validation_files);
  if (!whole)
    file.validation =
        file.train.take_from(std::int64_t(double(file.train.count()) * (1 - options.validation)));
  require(file.train.count() > 1 && file.validation.count() > 1, ExitCode::data,
          "{}: {} tokens for training and {} for validation; want at least 2 of each", options.files[0],
          file.train.count(), file.validation.count());
  for (const auto& path : inputs)
    file.source += (file.source.empty() ? "" : " ") + std::filesystem::path(path).filename().string();
  say("train      {} tokens", file.train.count());
  say("validation {} tokens ({})", file.validation.count(),
      whole ? options.validation_file : "the end of what was read");
  const auto hash = std::move(file).write(out);
  say("wrote      {} (xxh3-128 {})", out, hash);
}

}  // namespace

void add_prepare_command(CLI::App& app) {
  auto* command = app.add_subcommand("prepare", "Turn text files, or files of token ids, into a token file");
  auto options = std::make_shared<PrepareOptions>();
  command->add_option("FILE", options->files, "texts, or with --tokens files of ids; joined in this order")
      ->required();
  auto* tokenizer = command
                        ->add_option("--tokenizer", options->tokenizer,
                                     "for texts: char, one token a UTF-8 character; byte, one a byte")
                        ->check(CLI::IsMember({"char", "byte"}))
                        ->capture_default_str();
  auto* tokens =
      command
          ->add_option("--tokens", options->tokens,
                       "the files hold token ids of another tokenizer: little-endian u16 or u32, as "
                       "nanoGPT and llm.c write them")
          ->check(CLI::IsMember({"u16", "u32"}))
          ->excludes(tokenizer);
  command
      ->add_option("--vocabulary", options->vocabulary,
                   "for --tokens: how many ids that tokenizer has, 50257 for GPT-2's")
      ->check(whole(1, std::numeric_limits<std::int32_t>::max()))
      ->needs(tokens);
  command->add_option("--out", options->out,
                      "token file to write; default: <first FILE without its ending>.h5 here");
  auto* share = command
                    ->add_option("--validation", options->validation,
                                 "share of the tokens, at their end, kept for validation")
                    ->check(between(0.0001, 0.9))
                    ->capture_default_str();
  command
      ->add_option("--validation-file", options->validation_file,
                   "a file of the same kind that is the validation split as a whole")
      ->excludes(share);
  command->callback([options] { prepare(*options); });
}

}  // namespace mxtape
