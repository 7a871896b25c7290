#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "program/records/run_log.h"

namespace mxtape {

/// What a sweep notes of a run that ended, in sweep.json of its folder.
struct RunRecord {
  std::string arithmetic;          ///< arithmetic_of() the program that trained it
  std::string data_hash;           ///< of the token file
  int code = 0;                    ///< exit code of its process; 128 + n: ended by signal n
  std::string message;             ///< of the failure
  double seconds = 0;              ///< of its process, the last one if it was resumed
  std::optional<double> peak_mib;  ///< most memory of that process
  int threads = 0;
};

std::filesystem::path record_file(const std::filesystem::path& run);
/// None if there is no such file, or it is no record: then it is as if nobody had noted anything. Throws
/// Error(resource) if it cannot be read.
std::optional<RunRecord> read_record(const std::filesystem::path& run);
void write_record(const std::filesystem::path& run, const RunRecord&);

/// The records of a run that ended after so many steps; none if they lack its last validation. Throws
/// Error(resource) if they cannot be read: the run may be whole.
std::optional<RunLog> log_of_whole_run(const std::filesystem::path& run, std::int64_t steps);

/// What decides the bits of a run beside its recipe and data: "mxtape 0.1.0, cpu, oneDNN 2.6.3
/// avx512_core_bf16, loops avx512". `description` is Backend::description() or the first line of a run's
/// device.txt; the number of threads at its end decides nothing.
std::string arithmetic_of(const std::string& description);

}  // namespace mxtape
