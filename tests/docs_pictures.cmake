cmake_minimum_required(VERSION 3.24)
# Fails unless the pictures of docs/pictures are what docs/pictures/draw.py draws from the program and the sources.
# Run as: cmake -DROOT=<source dir> -DPROGRAM=<mxtape> -P tests/docs_pictures.cmake
find_program(PYTHON python3)
if(NOT PYTHON)
  message("SKIPPED: no python3")
  return()
endif()
execute_process(COMMAND ${PYTHON} -B ${ROOT}/docs/pictures/draw.py ${PROGRAM} --check ERROR_VARIABLE output OUTPUT_VARIABLE output
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${output}")
endif()
