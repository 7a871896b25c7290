# Cross-compiles for 64-bit Arm with Debian's compiler (g++-aarch64-linux-gnu). What mxtape links is looked for in a root of
# that machine alone: -DMXTAPE_SYSROOT=<folder>. tests/aarch64.sh makes one, and uses both.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
if(NOT MXTAPE_SYSROOT)
  message(FATAL_ERROR "mxtape: MXTAPE_SYSROOT is not set; want the folder of an arm64 root with HDF5 and the rest")
endif()
set(CMAKE_SYSROOT "${MXTAPE_SYSROOT}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MXTAPE_SYSROOT)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
