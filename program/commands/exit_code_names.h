#pragma once
#include <array>
#include <string_view>

#include "core/error.h"

namespace mxtape {

/// The rows of docs/exit_codes.md.
struct ExitCodeName {
  ExitCode code;
  std::string_view name, meaning;
};
inline constexpr std::array exit_code_names{
    ExitCodeName{ExitCode::ok, "ok", "done"},
    ExitCodeName{ExitCode::internal, "internal", "a broken promise inside mxtape"},
    ExitCodeName{ExitCode::usage, "usage", "the command line or the recipe"},
    ExitCodeName{ExitCode::data, "data", "a data file or checkpoint"},
    ExitCodeName{ExitCode::diverged, "diverged", "a number that is not finite"},
    ExitCodeName{ExitCode::differs, "differs", "two files that were compared are not equal"},
    ExitCodeName{ExitCode::resource, "resource", "disk, memory, permissions, device"},
    ExitCodeName{ExitCode::peer, "peer", "another process of the run is gone, or does not answer"},
    ExitCodeName{ExitCode::interrupted, "interrupted", "stopped on request, checkpoint written"}};

constexpr std::string_view name_of(ExitCode code) {
  for (const auto& row : exit_code_names)
    if (row.code == code) return row.name;
  return "unknown";
}

}  // namespace mxtape
