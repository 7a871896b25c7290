# Everything comes from the system: no download at configure time. One message names every package that is missing.
find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)
set(missing "")

macro(mxtape_need variable package)
  if(NOT ${variable})
    list(APPEND missing ${package})
  endif()
endmacro()

find_package(dnnl QUIET CONFIG)
mxtape_need(dnnl_FOUND libdnnl-dev)
find_package(fmt QUIET)
mxtape_need(fmt_FOUND libfmt-dev)
find_package(nlohmann_json QUIET)
mxtape_need(nlohmann_json_FOUND nlohmann-json3-dev)
find_package(tomlplusplus QUIET)
mxtape_need(tomlplusplus_FOUND libtomlplusplus-dev)
find_package(CLI11 QUIET)
mxtape_need(CLI11_FOUND libcli11-dev)
find_path(XXHASH_INCLUDE xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
mxtape_need(XXHASH_LIBRARY libxxhash-dev)
# The C library alone: HDF5's own CMake module also looks for compilers' wrappers, and may find a parallel build.
find_path(HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
mxtape_need(HDF5_LIBRARY libhdf5-dev)
if(MXTAPE_TESTS)
  find_package(GTest QUIET)
  mxtape_need(GTest_FOUND libgtest-dev)
endif()
if(MXTAPE_BENCH)
  find_package(benchmark QUIET)
  mxtape_need(benchmark_FOUND libbenchmark-dev)
endif()

if(missing)
  list(JOIN missing " " packages)
  message(FATAL_ERROR "mxtape: packages are missing. On Debian or Ubuntu:\n  sudo apt-get install ${packages}\n")
endif()

add_library(mxtape_dependencies INTERFACE)
target_include_directories(mxtape_dependencies SYSTEM INTERFACE "${HDF5_INCLUDE}" "${XXHASH_INCLUDE}")
# HDF5 1.10 is the oldest that is supported; later ones keep its interface under this name.
target_compile_definitions(mxtape_dependencies INTERFACE H5_USE_110_API)
target_link_libraries(mxtape_dependencies INTERFACE
  DNNL::dnnl ${CMAKE_DL_LIBS} fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus CLI11::CLI11
  "${HDF5_LIBRARY}" "${XXHASH_LIBRARY}" Threads::Threads)
