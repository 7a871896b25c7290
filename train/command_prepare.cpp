#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"
#include "data/token_file.h"
#include "train/command.h"

namespace mxtape {
namespace {

struct PrepareOptions {
  std::vector<std::string> texts;
  std::string tokenizer = "char";
  std::string out;
  double validation = 0.1;
};

/// One line at once: a step on a gigabyte takes seconds, and silence looks like a hang.
template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  std::puts(fmt::format(text, std::forward<Args>(args)...).c_str());
  std::fflush(stdout);
}

std::string read_texts(const PrepareOptions& options, Tokenizer::Kind kind) {
  std::string all;
  for (const auto& path : options.texts) {
    const auto bytes = read_whole(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    require(!text.empty(), ExitCode::data, "{}: is empty, want text", path);
    say("read       {} ({} bytes)", path, bytes.size());
    try {
      if (kind == Tokenizer::Kind::characters) for_each_character(text, [](char32_t, std::size_t) {});
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", path, error.what());
    }
    all += text;
  }
  return all;
}

void prepare(const PrepareOptions& options) {
  const auto kind = options.tokenizer == "byte" ? Tokenizer::Kind::bytes : Tokenizer::Kind::characters;
  const auto out =
      options.out.empty() ? std::filesystem::path(options.texts[0]).stem().string() + ".h5" : options.out;
  require_output(out, options.texts);
  const std::string text = read_texts(options, kind);

  TokenFile file;
  file.tokenizer = Tokenizer::from_text(kind, text);
  say("vocabulary {} {}", file.tokenizer.size(), kind == Tokenizer::Kind::bytes ? "bytes" : "characters");
  const auto tokens = file.tokenizer.encode(text);
  const auto train = std::size_t(double(tokens.size()) * (1 - options.validation));
  require(train > 1 && tokens.size() - train > 1, ExitCode::data,
          "{}: {} tokens, of which {} would be for training and {} for validation; want at least 2 of each",
          options.texts[0], tokens.size(), train, tokens.size() - train);
  file.train = Split::from_tokens(std::span(tokens).first(train), file.tokenizer.size());
  file.validation = Split::from_tokens(std::span(tokens).subspan(train), file.tokenizer.size());
  for (const auto& path : options.texts)
    file.source += (file.source.empty() ? "" : " ") + std::filesystem::path(path).filename().string();
  say("train      {} tokens", file.train.count());
  say("validation {} tokens (the end of the text)", file.validation.count());
  const auto hash = file.write(out);
  say("wrote      {} (xxh3-128 {})", out, hash);
}

}  // namespace

void add_prepare_command(CLI::App& app) {
  auto* command = app.add_subcommand("prepare", "Turn text files into a token file for training");
  auto options = std::make_shared<PrepareOptions>();
  command->add_option("TEXT", options->texts, "text files, joined in this order")->required();
  command
      ->add_option("--tokenizer", options->tokenizer, "char: one token a UTF-8 character; byte: one a byte")
      ->check(CLI::IsMember({"char", "byte"}))
      ->capture_default_str();
  command->add_option("--out", options->out,
                      "token file to write; default: <first TEXT without its ending>.h5 here");
  command
      ->add_option("--validation", options->validation, "share of the text, at its end, kept for validation")
      ->check(between(0.0001, 0.9))
      ->capture_default_str();
  command->callback([options] { prepare(*options); });
}

}  // namespace mxtape
