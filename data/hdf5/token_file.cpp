#include "data/hdf5/token_file.h"

#include <algorithm>

#include "core/text/nearest_name.h"
#include "core/text/program_name.h"
#include "data/hdf5/hash_record.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/seal.h"

namespace mxtape {
namespace {

constexpr char format_name[] = "mxtape tokens";
constexpr std::int64_t format_version = 1;

/// Calls `see` with all tokens as they are stored, part by part.
template <class See>
void see_all(const Split& split, const See& see) {
  const auto stored = [&]<class Id>(Id) {
    constexpr std::int64_t part = (1 << 20) / sizeof(Id);
    for (std::int64_t at = 0; at < split.stored.count; at += part)
      see(std::span<const Id>(split.stored.read<Id>(at, std::min(part, split.stored.count - at))));
  };
  if (!split.stored.file)
    split.narrow.empty() ? see(std::span(split.wide)) : see(std::span(split.narrow));
  else
    split.stored.narrow() ? stored(std::uint16_t{}) : stored(std::uint32_t{});
}

/// Of all tokens as they are stored: their hash, and the first outside the vocabulary, if there is one.
struct Looked {
  std::string hash;
  std::int64_t position = -1;
  std::uint32_t token = 0;
};

Looked look_at(const Split& split, std::int64_t vocabulary) {
  Looked found;
  ContentHash hash;
  std::int64_t at = 0;
  see_all(split, [&](auto tokens) {
    hash.add(std::as_bytes(tokens));
    std::uint32_t largest = 0;  // the compiler makes vectors of this loop, of find_if it does not
    for (const auto token : tokens) largest = std::max<std::uint32_t>(largest, token);
    if (largest >= vocabulary && found.position < 0) {
      const auto bad = std::ranges::find_if(tokens, [&](std::uint32_t t) { return t >= vocabulary; });
      found.position = at + (bad - tokens.begin());
      found.token = *bad;
    }
    at += std::int64_t(tokens.size());
  });
  found.hash = hash.digits();
  return found;
}

std::string file_hash(const std::string& tokenizer, const std::string& train, const std::string& validation) {
  const std::string parts = tokenizer + '\n' + train + '\n' + validation;
  return content_hash(std::as_bytes(std::span(parts)));
}

/// Returns the split's hash.
std::string write_split(Hdf5Writer& file, const std::string& name, const Split& split,
                        std::int64_t vocabulary) {
  if (split.stored.file) return write_split(file, name, split.in_memory(), vocabulary);
  const Looked seen = look_at(split, vocabulary);
  require(seen.position < 0, "token file: {} token {} at position {}; the vocabulary has {}", name,
          seen.token, seen.position, vocabulary);
  if (vocabulary <= Split::narrow_vocabulary)
    file.dataset_u16(name, split.narrow);
  else
    file.dataset_u32(name, split.wide);
  file.attribute(name, "count", split.count());
  file.attribute(name, "xxh3-128", seen.hash);
  return seen.hash;
}

Split open_split(const Hdf5Reader& file, const std::shared_ptr<const RandomAccessFile>& opened,
                 const std::string& name, std::int64_t vocabulary) {
  const std::string place = file.path().string();
  const auto info = file.info(name);
  const std::string wanted = vocabulary <= Split::narrow_vocabulary ? "u16" : "u32";
  require(info.type == wanted && info.dims.size() == 1, ExitCode::data,
          "{}: dataset '{}' is {} with {} axes; want {} with 1 for a vocabulary of {}", place, name,
          info.type, info.dims.size(), wanted, vocabulary);
  const auto count = file.int_attribute(name, "count");
  require(info.count() == count, ExitCode::data, "{}: '{}' holds {} tokens, its attribute 'count' says {}",
          place, name, info.count(), count);
  if (const auto begin = file.plain_at(name))
    return {.stored = {opened, *begin, count, vocabulary, file.text_attribute(name, "xxh3-128"),
                       std::make_shared<std::atomic<std::int64_t>>(opened->stamp().modified)}};
  if (wanted == "u16") return {.narrow = file.read_u16(name)};
  return {.wide = file.read_u32(name)};
}

/// Looks at each token. Returns the hash.
std::string verify_split(const Hdf5Reader& file, const std::string& name, const Split& split,
                         std::int64_t vocabulary) {
  const std::string place = file.path().string();
  const Looked found = look_at(split, vocabulary);
  require(found.position < 0, ExitCode::data, "{}: '{}' has token {} at position {}; the vocabulary has {}",
          place, name, found.token, found.position, vocabulary);
  const auto stated = file.text_attribute(name, "xxh3-128");
  require(found.hash == stated, ExitCode::data, "{}: '{}' has hash {}, its attribute says {}", place, name,
          found.hash, stated);
  return found.hash;
}

}  // namespace

std::string TokenFile::write(const std::filesystem::path& path) && {
  Hdf5Writer file(path);
  const auto description = tokenizer.to_json();
  const auto train_hash = write_split(file, "train", train, tokenizer.size());
  auto content =
      file_hash(description, train_hash, write_split(file, "validation", validation, tokenizer.size()));
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
  train = {};
  validation = {};
  file.commit(Seal::yes);
  return content;
}

TokenFile TokenFile::read(const std::filesystem::path& path, SealIs seal) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown)
    fail(ExitCode::data,
         "{0}{2}: no such token file; `{1} prepare TEXT --out {0}` makes it from your text, `{1} prepare "
         "train.bin --tokens u16 --vocabulary N --out {0}` from token ids of nanoGPT or llm.c, `{1} corpus "
         "--out {0}` from synthetic tales",
         path.string(), program_name(), near_path(path));
  const auto now = std::chrono::system_clock::now();
  std::shared_ptr<const RandomAccessFile> opened;
  bool hashed = false;
  try {
    opened = std::make_shared<RandomAccessFile>(path);
    hashed = hashed_before(*opened);
    if (!hashed && seal == SealIs::unknown) verify_seal(*opened);
  } catch (const Error& error) {
    fail(error.code(), "{0}; `{1} prepare` and `{1} corpus` make token files", error.what(), program_name());
  }
  const Hdf5Reader file(path);
  const auto place = path.string();
  require(RandomAccessFile(path).stamp() == opened->stamp(), ExitCode::data,
          "{}: was altered while it was opened; start again", place);
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
  result.train = open_split(file, opened, "train", vocabulary);
  result.validation = open_split(file, opened, "validation", vocabulary);
  result.hash = file.text_attribute("/", "xxh3-128");
  if (!hashed) {
    const auto train = verify_split(file, "train", result.train, vocabulary);
    const auto found =
        file_hash(description, train, verify_split(file, "validation", result.validation, vocabulary));
    require(found == result.hash, ExitCode::data, "{}: hash {}, its attribute says {}", place, found,
            result.hash);
    // Of an empty one there is nothing in the file.
    const auto is_there = [](const Split& split) { return split.stored.file || split.count() == 0; };
    if (is_there(result.train) && is_there(result.validation))
      record_hashed(*opened, {result.train.stored.bytes(), result.validation.stored.bytes()}, now);
  }
  if (file.has_attribute("/", "floor")) result.floor = file.real_attribute("/", "floor");
  if (file.has_attribute("/", "entropy"))
    result.entropy = {file.real_attribute("/", "entropy"), file.real_attribute("/", "entropy_error")};
  return result;
}

}  // namespace mxtape
