#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the tests, the benchmarks of the kernels, and the tests once more under
# compute-sanitizer where it is installed. Wants an NVIDIA driver and cuBLAS; no compiler, no CMake. What fails does not stop
# the rest; the exit code is that of the last failure.
# usage: check_gpu.sh [FOLDER]   the folder that `./run pack` has filled; default: the script's own
set -uo pipefail
here=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd) || exit 2
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" MXTAPE_REQUIRE_GPU=1
[ ! -d "$here/shared" ] || export MXTAPE_SHARED="$here/shared"
failed=0
attempt() {
  "$@"
  local status=$?
  [ $status -eq 0 ] || { failed=$status && printf 'failed with %s: %s\n' "$status" "$*"; }
  return $status
}

# Each suite in a process of its own: after a kernel's illegal access every call of its process fails.
suites=$("$here/gpu_tests" --gtest_list_tests | sed -n 's/^\([A-Za-z].*\)\.$/\1/p') || exit 2
for suite in $suites; do attempt timeout 300 "$here/gpu_tests" --gtest_brief=1 --gtest_filter="$suite.*"; done
attempt "$here/bench_cuda_kernels"

# Not the tests of every bf16 and of the largest grids, which take minutes there. Calls that cuBLAS makes to find out what a
# driver can do fail by design.
sanitize() {
  "$sanitizer" "$@" --error-exitcode 1 --report-api-errors no "$here/gpu_tests" --gtest_brief=1 \
    --gtest_filter="${filter:--*EveryBf16*:*TheShapeOfTheLaunch*}"
}
if ! sanitizer=$(PATH="$PATH:/usr/local/cuda/bin" command -v compute-sanitizer); then
  echo "compute-sanitizer is not installed: left out"
elif ! filter='Memory.*' sanitize --tool memcheck > /tmp/sanitizer.$$ 2>&1 && grep -q 'not supported' /tmp/sanitizer.$$; then
  echo "compute-sanitizer does not support this device: left out"
else
  attempt sanitize --tool memcheck
  # cuBLAS orders its warps by means that racecheck does not know: our kernels only.
  attempt sanitize --tool racecheck --kernel-name kns=mxtape
fi
rm -f /tmp/sanitizer.$$
exit $failed
