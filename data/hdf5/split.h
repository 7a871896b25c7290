#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/random_access.h"

namespace mxtape {

/// One split of a corpus as tokens: u16 where the vocabulary allows it. In memory or, where it was read from
/// a token file, in the file.
struct Split {
  static constexpr std::int64_t narrow_vocabulary = 65536;
  /// Where tokens lie in a file that stays open. What is read is never mapped, so that a file that becomes
  /// shorter is an error and not a signal.
  struct Stored {
    std::shared_ptr<const RandomAccessFile> file;
    std::uint64_t begin = 0;
    std::int64_t count = 0, vocabulary = 0;
    std::string hash{};  ///< of these bytes, as the file says
    /// When the file was altered last, as far as is known: of all copies.
    std::shared_ptr<std::atomic<std::int64_t>> modified{};

    bool narrow() const { return vocabulary <= narrow_vocabulary; }
    ByteRange bytes() const { return {begin, std::uint64_t(count * (narrow() ? 2 : 4))}; }
    /// Throws Error(data) if these bytes were altered since the file was opened.
    template <class Id>
    std::vector<Id> read(std::int64_t first, std::int64_t n) const;

   private:
    /// For a file whose time of modification is another one: a `touch` or a backup alters no byte.
    void look_again() const;
  };

  std::vector<std::uint16_t> narrow{};  ///< vocabularies up to narrow_vocabulary
  std::vector<std::uint32_t> wide{};
  Stored stored{};          ///< in place of both
  std::int64_t unread = 0;  ///< tokens that are counted and never looked at: what a dry run reads

  static Split from_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary);
  /// Takes the tokens from `position` on out of this split, which is in memory.
  Split take_from(std::int64_t position);
  std::int64_t count() const {
    return unread + stored.count + std::int64_t(narrow.empty() ? wide.size() : narrow.size());
  }
  std::int64_t bytes_in_memory() const { return std::int64_t(2 * narrow.size() + 4 * wide.size()); }
  /// All of it.
  Split in_memory() const;
  /// Tokens [first, first + n). From a file: as Stored::read, and Error(data) for one outside the vocabulary.
  std::vector<std::int32_t> read(std::int64_t first, std::int64_t n) const;
  std::int32_t operator[](std::int64_t i) const { return read(i, 1)[0]; }
};

}  // namespace mxtape
