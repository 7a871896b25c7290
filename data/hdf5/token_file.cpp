#include "data/hdf5/token_file.h"

#include <algorithm>

#include "core/text/program_name.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/seal.h"

namespace mxtape {
namespace {

constexpr char format_name[] = "mxtape tokens";
constexpr std::int64_t format_version = 1;

std::string split_hash(const Split& split) {
  return split.narrow.empty() ? content_hash(std::as_bytes(std::span(split.wide)))
                              : content_hash(std::as_bytes(std::span(split.narrow)));
}

/// The position of the first token outside the vocabulary, or count().
std::int64_t first_outside(const Split& split, std::int64_t vocabulary) {
  const auto outside = [&](std::uint32_t token) { return token >= vocabulary; };
  return split.narrow.empty() ? std::ranges::find_if(split.wide, outside) - split.wide.begin()
                              : std::ranges::find_if(split.narrow, outside) - split.narrow.begin();
}

std::string file_hash(const std::string& tokenizer, const Split& train, const Split& validation) {
  const std::string parts = tokenizer + '\n' + split_hash(train) + '\n' + split_hash(validation);
  return content_hash(std::as_bytes(std::span(parts)));
}

void write_split(Hdf5Writer& file, const std::string& name, const Split& split, std::int64_t vocabulary) {
  const auto bad = first_outside(split, vocabulary);
  require(bad == split.count(), "token file: {} token {} at position {}; the vocabulary has {}", name,
          bad == split.count() ? 0 : split[bad], bad, vocabulary);
  if (vocabulary <= Split::narrow_vocabulary)
    file.dataset_u16(name, split.narrow);
  else
    file.dataset_u32(name, split.wide);
  file.attribute(name, "count", split.count());
  file.attribute(name, "xxh3-128", split_hash(split));
}

Split read_split(const Hdf5Reader& file, const std::string& name, std::int64_t vocabulary) {
  const std::string place = file.path().string();
  const auto info = file.info(name);
  const std::string wanted = vocabulary <= Split::narrow_vocabulary ? "u16" : "u32";
  require(info.type == wanted && info.dims.size() == 1, ExitCode::data,
          "{}: dataset '{}' is {} with {} axes; want {} with 1 for a vocabulary of {}", place, name,
          info.type, info.dims.size(), wanted, vocabulary);
  const auto count = file.int_attribute(name, "count");
  require(info.count() == count, ExitCode::data, "{}: '{}' holds {} tokens, its attribute 'count' says {}",
          place, name, info.count(), count);
  Split split;
  if (wanted == "u16")
    split.narrow = file.read_u16(name);
  else
    split.wide = file.read_u32(name);
  const auto bad = first_outside(split, vocabulary);
  require(bad == count, ExitCode::data, "{}: '{}' has token {} at position {}; the vocabulary has {}", place,
          name, bad == count ? 0u : std::uint32_t(split[bad]), bad, vocabulary);
  const auto found = split_hash(split), stated = file.text_attribute(name, "xxh3-128");
  require(found == stated, ExitCode::data, "{}: '{}' has hash {}, its attribute says {}", place, name, found,
          stated);
  return split;
}

}  // namespace

Split Split::from_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  Split split;
  if (vocabulary <= Split::narrow_vocabulary)
    split.narrow.assign(tokens.begin(), tokens.end());
  else
    split.wide.assign(tokens.begin(), tokens.end());
  return split;
}

Split Split::take_from(std::int64_t position) {
  const auto take = [&](auto& tokens) {
    if (tokens.empty()) return tokens;
    std::remove_reference_t<decltype(tokens)> taken(tokens.begin() + position, tokens.end());
    tokens.resize(std::size_t(position));
    return taken;
  };
  return {take(narrow), take(wide)};
}

std::string TokenFile::fill(Hdf5Writer& file) const {
  const auto description = tokenizer.to_json();
  const auto content = file_hash(description, train, validation);
  write_split(file, "train", train, tokenizer.size());
  write_split(file, "validation", validation, tokenizer.size());
  file.text("tokenizer", description);
  file.attribute("/", "format", std::string(format_name));
  file.attribute("/", "version", format_version);
  file.attribute("/", "vocabulary", tokenizer.size());
  file.attribute("/", "source", source);
  file.attribute("/", "xxh3-128", content);
  if (floor) file.attribute("/", "floor", *floor);
  if (entropy) {
    file.attribute("/", "entropy", entropy->value);
    file.attribute("/", "entropy_error", entropy->standard_error);
  }
  return content;
}

std::string TokenFile::write(const std::filesystem::path& path) const& {
  Hdf5Writer file(path);
  auto content = fill(file);
  file.commit(Seal::yes);
  return content;
}

std::string TokenFile::write(const std::filesystem::path& path) && {
  Hdf5Writer file(path);
  auto content = fill(file);
  train = {};
  validation = {};
  file.commit(Seal::yes);
  return content;
}

TokenFile TokenFile::read(const std::filesystem::path& path) {
  std::error_code unknown;
  require(std::filesystem::exists(path, unknown) || unknown, ExitCode::data,
          "{0}: no such token file; `{1} prepare TEXT --out {0}` makes it from your text, `{1} prepare "
          "train.bin --tokens u16 --vocabulary N --out {0}` from token ids of nanoGPT or llm.c, `{1} corpus "
          "--out {0}` from synthetic tales",
          path.string(), program_name());
  try {
    verify_seal(path);
  } catch (const Error& error) {
    fail(error.code(), "{0}; `{1} prepare` and `{1} corpus` make token files", error.what(), program_name());
  }
  const Hdf5Reader file(path);
  const auto place = path.string();
  const auto format = file.find_text_attribute("/", "format").value_or("none");
  require(format == format_name, ExitCode::data,
          "{}: format '{}', want '{}'; `{} prepare` makes one from text or token ids", place, format,
          format_name, program_name());
  const auto version = file.int_attribute("/", "version");
  require(version == format_version, ExitCode::data, "{}: version {}, this program reads {}", place, version,
          format_version);

  TokenFile result;
  const auto description = file.read_text("tokenizer");
  result.tokenizer = Tokenizer::from_json(description);
  const auto vocabulary = file.int_attribute("/", "vocabulary");
  require(vocabulary == result.tokenizer.size(), ExitCode::data,
          "{}: vocabulary {}, but its tokenizer has {} tokens", place, vocabulary, result.tokenizer.size());
  result.source = file.text_attribute("/", "source");
  result.train = read_split(file, "train", vocabulary);
  result.validation = read_split(file, "validation", vocabulary);
  result.hash = file_hash(description, result.train, result.validation);
  const auto stated = file.text_attribute("/", "xxh3-128");
  require(result.hash == stated, ExitCode::data, "{}: hash {}, its attribute says {}", place, result.hash,
          stated);
  if (file.has_attribute("/", "floor")) result.floor = file.real_attribute("/", "floor");
  if (file.has_attribute("/", "entropy"))
    result.entropy = {file.real_attribute("/", "entropy"), file.real_attribute("/", "entropy_error")};
  return result;
}

}  // namespace mxtape
