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

# Eight files of a folder are compiled as one: the compiler then reads once what all of them include, which takes most of its
# time. So two files of a folder cannot have one name in their anonymous namespaces. OFF compiles each file by itself, as the
# sanitizers' preset does: it finds includes that are missing, and a change costs one file.
option(MXTAPE_UNITY "Compile the files of a folder together, eight at a time" ON)

function(mxtape_unity target)  # then a pattern of the files that stay by themselves
  if(NOT MXTAPE_UNITY)
    return()
  endif()
  get_target_property(files ${target} SOURCES)
  list(FILTER files INCLUDE REGEX "\\.cpp$")
  if(ARGN)
    list(FILTER files EXCLUDE REGEX "${ARGN}")
  endif()
  foreach(file IN LISTS files)
    cmake_path(ABSOLUTE_PATH file NORMALIZE OUTPUT_VARIABLE folder)
    file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${folder}")
    cmake_path(GET folder PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR group "0${count_${folder}} / 8")
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    set_source_files_properties("${file}" PROPERTIES UNITY_GROUP "${folder}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes an included .cpp for a header, whose types must not hold what only this file knows.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()
