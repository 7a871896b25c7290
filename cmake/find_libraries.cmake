# The libraries that a program with mxtape in it is linked with. mxtape's own build reads this file, and so does what it
# installs, for find_package(mxtape): there is one list. Sets mxtape_missing to the Debian packages that are not there,
# mxtape_missing_names to their makers' words, and makes mxtape::libraries if nothing is missing.
set(mxtape_missing "")
set(mxtape_missing_names "")

macro(mxtape_need found package name)
  if(NOT ${found})
    list(APPEND mxtape_missing ${package})
    list(APPEND mxtape_missing_names "${name}")
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(fmt QUIET)
mxtape_need(fmt_FOUND libfmt-dev "{fmt}")
find_package(tomlplusplus QUIET)
mxtape_need(tomlplusplus_FOUND libtomlplusplus-dev "toml++")
find_path(XXHASH_INCLUDE xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
set(xxhash_found OFF)
if(XXHASH_INCLUDE AND XXHASH_LIBRARY)
  set(xxhash_found ON)
endif()
mxtape_need(xxhash_found libxxhash-dev "xxHash")
# The C library alone: HDF5's own CMake module also looks for compilers' wrappers, and may find a parallel build.
find_path(HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
set(hdf5_found OFF)
if(HDF5_INCLUDE AND HDF5_LIBRARY)
  set(hdf5_found ON)
endif()
mxtape_need(hdf5_found libhdf5-dev "HDF5's C library 1.10 or newer")

# Imported, so that what is installed names the target and not the paths of the machine that built it.
if(NOT mxtape_missing AND NOT TARGET mxtape::libraries)
  add_library(mxtape::libraries INTERFACE IMPORTED)
  target_include_directories(mxtape::libraries SYSTEM INTERFACE "${HDF5_INCLUDE}" "${XXHASH_INCLUDE}")
  # HDF5 1.10 is the oldest that is supported; later ones keep its interface under this name.
  target_compile_definitions(mxtape::libraries INTERFACE H5_USE_110_API)
  target_link_libraries(mxtape::libraries INTERFACE ${CMAKE_DL_LIBS} fmt::fmt tomlplusplus::tomlplusplus
    "${HDF5_LIBRARY}" "${XXHASH_LIBRARY}" Threads::Threads)
endif()
