#!/usr/bin/env bash
# Everything that needs a GPU: the tests, the benchmarks of the kernels, and the tests once more under compute-sanitizer
# where it is installed. Wants an NVIDIA driver and cuBLAS; no compiler, no CMake. What fails does not stop the rest; the
# exit code is that of the last failure. It lies in the folder that `./run pack` has filled.
# usage: check_gpu.sh [PART...]   parts: tests benches sanitizer; default: all three, in this order
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 2
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" MXTAPE_REQUIRE_GPU=1
[ ! -d "$here/golden" ] || export MXTAPE_GOLDEN="$here/golden"
parts=" ${*:-tests benches sanitizer} "
for part in $parts; do
  [[ " tests benches sanitizer " == *" $part "* ]] || { echo "check_gpu.sh: no part '$part'; want tests, benches or sanitizer" >&2; exit 2; }
done

# Machines with PyTorch often have NVIDIA's libraries in Python's folders alone. They come last: what was chosen is taken.
if wheels=$(python3 -c 'import glob, nvidia
print(":".join(lib for path in nvidia.__path__ for lib in sorted(glob.glob(path + "/*/lib"))))' 2>/dev/null); then
  LD_LIBRARY_PATH+=":$wheels"
fi

failed=0
attempt() {
  "$@"
  local status=$?
  [ $status -eq 0 ] || { failed=$status && printf 'failed with %s: %s\n' "$status" "$*"; }
  return $status
}

# Without a driver or cuBLAS every suite would say the same.
"$here/gpu_tests" --gtest_brief=1 --gtest_filter='Memory.UploadedBytesComeBack' || exit

# Each suite in a process of its own: after a kernel's illegal access every call of its process fails.
if [[ $parts == *" tests "* ]]; then
  suites=$("$here/gpu_tests" --gtest_list_tests | sed -n 's/^\([A-Za-z].*\)\.$/\1/p') || exit 2
  for suite in $suites; do attempt timeout 300 "$here/gpu_tests" --gtest_brief=1 --gtest_filter="$suite.*"; done
fi

[[ $parts != *" benches "* ]] || attempt "$here/bench_cuda_kernels"

# Not the tests of every bf16, of the largest grids and of whole recipes, which take minutes there. Calls that cuBLAS makes
# to find out what a driver can do fail by design.
sanitize() {
  timeout 1800 "$sanitizer" "$@" --error-exitcode 1 --report-api-errors no "$here/gpu_tests" --gtest_brief=1 \
    --gtest_filter="${filter:--*EveryBf16*:*TheShapeOfTheLaunch*:*ShippedRecipe*}"
}
if [[ $parts == *" sanitizer "* ]]; then
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
fi
exit $failed
