#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the tests, compute-sanitizer over them where it is installed, the benchmarks of
# the kernels. Wants an NVIDIA driver and cuBLAS; no compiler, no CMake.
# usage: check_gpu.sh [FOLDER]   the folder that `./run pack` has filled; default: the script's own
set -euo pipefail
here=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" MXTAPE_REQUIRE_GPU=1

"$here/gpu_tests" --gtest_brief=1
if sanitizer=$(PATH="$PATH:/usr/local/cuda/bin" command -v compute-sanitizer); then
  "$sanitizer" --tool memcheck --error-exitcode 1 "$here/gpu_tests" --gtest_brief=1
  # cuBLAS orders its warps by means that racecheck does not know: our kernels only.
  "$sanitizer" --tool racecheck --kernel-name kns=mxtape --error-exitcode 1 "$here/gpu_tests" --gtest_brief=1
else
  echo "compute-sanitizer is not installed: left out"
fi
"$here/bench_cuda_kernels"
