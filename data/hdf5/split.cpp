#include "data/hdf5/split.h"

#include <algorithm>

#include "core/error.h"
#include "core/text/program_name.h"
#include "data/content_hash.h"

namespace mxtape {

void Split::Stored::look_again() const {
  const FileStamp now = file->stamp_now();
  ContentHash found;
  if (now.size == file->size()) found.add(*file, begin, begin + bytes().size);
  require(found.digits() == hash, ExitCode::data,
          "{}: was altered while it was in use: {} bytes, it had {} when it was opened; write token files "
          "anew, never in place",
          file->path().native(), now.size, file->size());
  *modified = now.modified;
}

template <class Id>
std::vector<Id> Split::Stored::read(std::int64_t first, std::int64_t n) const {
  std::vector<Id> ids(static_cast<std::size_t>(n));
  const auto altered = [&] {
    file->read(begin + std::uint64_t(first) * sizeof(Id), std::as_writable_bytes(std::span(ids)));
    // Not `changed`: a file whose name was given to another one is still what it was.
    const FileStamp now = file->stamp_now();
    return now.size != file->size() || now.modified != *modified;
  };
  constexpr int most_looks = 4;  // each reads the whole split
  for (int looks = 0; altered(); ++looks) {
    require(looks < most_looks, ExitCode::resource,
            "{}: its time of modification changes as fast as it can be hashed; keep what touches it from "
            "doing so",
            file->path().native());
    look_again();
  }
  return ids;
}
template std::vector<std::uint16_t> Split::Stored::read(std::int64_t, std::int64_t) const;
template std::vector<std::uint32_t> Split::Stored::read(std::int64_t, std::int64_t) const;

Split Split::from_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  Split split;
  if (vocabulary <= narrow_vocabulary)
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

Split Split::in_memory() const {
  if (!stored.file) return *this;
  if (stored.narrow()) return {.narrow = stored.read<std::uint16_t>(0, stored.count)};
  return {.wide = stored.read<std::uint32_t>(0, stored.count)};
}

std::vector<std::int32_t> Split::read(std::int64_t first, std::int64_t n) const {
  const auto part = [](const auto& ids, std::int64_t from, std::int64_t count) {
    return std::vector<std::int32_t>(ids.begin() + from, ids.begin() + from + count);
  };
  if (!stored.file) return narrow.empty() ? part(wide, first, n) : part(narrow, first, n);
  const auto ids = stored.narrow() ? part(stored.read<std::uint16_t>(first, n), 0, n)
                                   : part(stored.read<std::uint32_t>(first, n), 0, n);
  // As unsigned numbers: above 2^31 they are outside, too.
  const auto bad = std::ranges::find_if(ids, [&](std::uint32_t id) { return id >= stored.vocabulary; });
  if (bad != ids.end())
    fail(ExitCode::data,
         "{0}: token {1} at position {2} of a split; the vocabulary has {3}. It is not what was hashed "
         "earlier: `{4} verify {0}` reads it whole",
         stored.file->path().string(), std::uint32_t(*bad), first + (bad - ids.begin()), stored.vocabulary,
         program_name());
  return ids;
}

}  // namespace mxtape
