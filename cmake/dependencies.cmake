# Everything comes from the system, or from a prefix that CMake is told of (CMAKE_PREFIX_PATH, an active conda
# environment): no download at configure time. One message names all that is missing; missing-packages.txt in the build
# folder has the same for ./run.
include(find_libraries)
# Headers that only mxtape's own sources include, tests' and benchmarks' libraries.
find_package(nlohmann_json QUIET)
mxtape_need(nlohmann_json_FOUND nlohmann-json3-dev "nlohmann-json")
find_package(CLI11 QUIET)
mxtape_need(CLI11_FOUND libcli11-dev "CLI11")
find_package(Eigen3 QUIET NO_MODULE)
mxtape_need(Eigen3_FOUND libeigen3-dev "Eigen")
if(MXTAPE_TESTS)
  find_package(GTest QUIET)
  mxtape_need(GTest_FOUND libgtest-dev "GoogleTest")
endif()
if(MXTAPE_BENCH)
  find_package(benchmark QUIET)
  mxtape_need(benchmark_FOUND libbenchmark-dev "Google Benchmark")
endif()

set(missing_file "${PROJECT_BINARY_DIR}/missing-packages.txt")
file(REMOVE "${missing_file}")
if(mxtape_missing)
  list(JOIN mxtape_missing " " packages)
  list(JOIN mxtape_missing_names ", " names)
  file(WRITE "${missing_file}" "${packages}\n${names}\n")
  message(FATAL_ERROR "mxtape: missing: ${names}. On Debian or Ubuntu:\n  sudo apt-get install ${packages}\n"
                      "What lies in a prefix of its own is found with CMAKE_PREFIX_PATH=<prefix> in the environment.\n")
endif()

add_library(mxtape_dependencies INTERFACE)
target_link_libraries(mxtape_dependencies INTERFACE mxtape::libraries nlohmann_json::nlohmann_json CLI11::CLI11
  Eigen3::Eigen)
