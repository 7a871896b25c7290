#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/hdf5/token_file.h"
#include "train/memory/memory_plan.h"

namespace mxtape {

/// What both check and train want before a run begins.

/// Throws Error(usage) if data.file is not set, and as TokenFile::read().
TokenFile read_data(const Recipe&);

/// The splits that are too short for a window of the model's context and its targets: an Error(data) each.
std::vector<Error> short_splits(const Recipe&, const TokenFile&);

/// Bytes of a checkpoint and of the records: without room for them no run begins.
std::int64_t room_to_start(const MemoryPlan&, const Recipe&);

/// Bytes of all checkpoints that are kept, and of one more while the newest is written beside them, and of
/// the records.
double disk_needed(const MemoryPlan&, const Recipe&);

/// For people: that a run has room to begin, but not for all that it will keep; or "".
std::string lack_of_room(const MemoryPlan&, const Recipe&, const std::filesystem::path& run);

}  // namespace mxtape
