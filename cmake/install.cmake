# cmake --install <build> --prefix <folder>: the program with its manual page and completion, the library with the headers of
# all floors but program/, and the files by which find_package(mxtape) finds them (docs/library.md). What is installed
# names no folder of this machine, and may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Public headers. What lies behind the seam of Backend is not: it would bring CUDA's headers, and vector types.
set(public_headers "")
foreach(folder IN LISTS library_folders)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.h")
  list(APPEND public_headers ${found})
endforeach()
list(FILTER public_headers EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/kernels/(cpu|cuda)/")
target_sources(mxtape PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${public_headers})

# Libraries that lie in a prefix of their own are found again by the installed program.
set_target_properties(mxtape_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS mxtape_program)
if(mxtape_mpi)
  install(TARGETS mxtape_mpi LIBRARY DESTINATION lib/mxtape)  # where the program looks for it
endif()
install(TARGETS mxtape mxtape_flags EXPORT mxtapeTargets
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mxtape")
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/mxtape")
install(EXPORT mxtapeTargets NAMESPACE mxtape:: DESTINATION "${package_folder}")

# Kernels need the runtime of their toolkit or a newer one.
set(cuda_runtime "")
if(mxtape_cuda)
  set(cuda_runtime "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
endif()
configure_package_config_file(cmake/mxtapeConfig.cmake.in "${PROJECT_BINARY_DIR}/mxtapeConfig.cmake"
  INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mxtapeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mxtapeConfig.cmake" "${PROJECT_BINARY_DIR}/mxtapeConfigVersion.cmake"
  cmake/find_libraries.cmake DESTINATION "${package_folder}")

install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")
if(NOT CMAKE_CROSSCOMPILING)  # the program prints them
  install(CODE "
    foreach(text IN ITEMS \"completion bash\" manual)
      separate_arguments(words UNIX_COMMAND \"\${text}\")
      list(GET words 0 name)
      execute_process(COMMAND \"$<TARGET_FILE:mxtape_program>\" \${words} OUTPUT_FILE \"${PROJECT_BINARY_DIR}/\${name}.txt\"
        COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
  install(FILES "${PROJECT_BINARY_DIR}/completion.txt" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
    RENAME mxtape)
  install(FILES "${PROJECT_BINARY_DIR}/manual.txt" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" RENAME mxtape.1)
endif()
