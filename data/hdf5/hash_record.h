#pragma once
#include <array>
#include <chrono>
#include <filesystem>

#include "core/files/random_access.h"

namespace mxtape {

/// Of a token file's two splits, in the file's order.
using SplitRanges = std::array<ByteRange, 2>;

/// A large token file is hashed whole once, not at every start. What was hashed is on record in the user's
/// cache, $XDG_CACHE_HOME/mxtape/hashed or ~/.cache/mxtape/hashed: its stamp, where its splits lie, and the
/// hash of all the rest, which is what HDF5 reads. What this finds and what it does not: docs/data.md.
///
/// True if this file is on record: its stamp is the same, and the rest was hashed again just now.
bool hashed_before(const RandomAccessFile&);
/// Notes a file that was hashed whole since it was `opened`. Does nothing if it is small, was altered in the
/// two seconds before (a change within the clock of its file system would leave the same stamp), or the cache
/// cannot be written: it is then hashed at the next start, too.
void record_hashed(const RandomAccessFile&, const SplitRanges&, std::chrono::system_clock::time_point opened);
/// The next start hashes the file at this path. Throws Error(resource) if its record cannot be taken away.
void forget_hashed(const std::filesystem::path&);

}  // namespace mxtape
