# Writes a C++ file with the commit of the source tree (program/show/command_line.h), and only if it differs from the one that is there.
# Run as: cmake -DSOURCE=<source dir> -DOUTPUT=<file.cpp> -P cmake/commit.cmake
cmake_minimum_required(VERSION 3.24)
find_program(GIT git)
set(commit "unknown")
if(GIT)
  # No lock: a build must not get into the way of a git command that runs beside it.
  set(ENV{GIT_OPTIONAL_LOCKS} 0)
  # An export without history, unpacked inside another repository, has no commit of its own.
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix RESULT_VARIABLE failed OUTPUT_VARIABLE prefix ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=10 --exclude=* RESULT_VARIABLE failed
      OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed AND found)
      set(commit ${found})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT "#include \"program/show/command_line.h\"

namespace mxtape {
std::string_view source_commit() { return \"@commit@\"; }
}  // namespace mxtape
")
