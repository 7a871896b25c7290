# The standard library's headers and {fmt}'s, parsed once for each target: they are what most files take longest for. OFF finds
# includes that are missing; the sanitizers' preset has it so.
option(MXTAPE_PRECOMPILED "Precompile the headers of the standard library and {fmt}" ON)
set(mxtape_precompiled <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

function(mxtape_precompile target)  # then headers besides
  if(MXTAPE_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${mxtape_precompiled} ${ARGN})
  endif()
endfunction()
