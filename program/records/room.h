#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "train/memory/memory_plan.h"

namespace mxtape {

/// Files of a run's folder that are there while it runs.
inline constexpr std::string_view lock_name = ".lock", reserved_name = "reserved";

/// Files in a folder that a process which is gone had begun.
std::vector<std::filesystem::path> orphans_in(const std::filesystem::path& folder);

/// Throws Error(resource) if a run's folder cannot be made or written: what can be told of that beforehand.
void require_writable(const std::filesystem::path& run);

/// Bytes that are free for a run: on its file system, with those that its start will give back.
std::int64_t free_bytes(const std::filesystem::path& run);

/// Bytes of a checkpoint and of the records: without room for them no run begins.
std::int64_t room_to_start(const MemoryPlan&, const Recipe&);

/// Bytes of all checkpoints that are kept, and of one more while the newest is written beside them, and of
/// the records.
double disk_needed(const MemoryPlan&, const Recipe&);

/// Throws Error(resource) if there is no room for so many bytes, or no file may have them.
void require_room(const std::filesystem::path& run, std::int64_t bytes);

/// Throws the Error(resource) of a run for which there is no room. `reason`: an errno.
[[noreturn]] void fail_for_room(const std::filesystem::path& run, std::int64_t bytes, int reason);

}  // namespace mxtape
