# MXTAPE_MPI: whether libmxtape_mpi.so is built, the module through which the program uses MPI (dist/mpi/mpi_calls.h). The
# program itself is linked with no MPI, and loads the module only where a launcher has started several processes. It
# belongs to the MPI that is found here: an MPICH's mpirun wants a module built with MPICH.
set(MXTAPE_MPI AUTO CACHE STRING "Build the MPI module: AUTO (if an MPI is found), ON or OFF")
set_property(CACHE MXTAPE_MPI PROPERTY STRINGS AUTO ON OFF)
set(mxtape_mpi OFF)
if(MXTAPE_MPI)
  enable_language(C)  # FindMPI's, whose C++ bindings have gone
  find_package(MPI QUIET COMPONENTS C)
  if(NOT MPI_C_FOUND AND NOT MXTAPE_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "mxtape: MXTAPE_MPI is ${MXTAPE_MPI}, and no MPI is found. On Debian or Ubuntu:\n"
                        "  sudo apt-get install libopenmpi-dev openmpi-bin\n")
  endif()
  set(mxtape_mpi ${MPI_C_FOUND})
endif()
if(mxtape_mpi)
  add_library(mxtape_mpi MODULE dist/mpi/mpi_module.cpp)
  target_compile_features(mxtape_mpi PRIVATE cxx_std_20)
  target_include_directories(mxtape_mpi PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(mxtape_mpi PRIVATE MPI::MPI_C)
  set_target_properties(mxtape_mpi PROPERTIES CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
endif()
