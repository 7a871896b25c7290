#!/usr/bin/env bash
# Cross-compiles mxtape for 64-bit Arm and runs `--version`, `formats`, the golden set and three training steps under qemu.
# Makes the root to link with from this machine's own Debian archive; nothing is installed here.
# usage: tests/aarch64.sh [FOLDER]   FOLDER keeps root and build between calls; default: build-aarch64
#        tests/aarch64.sh --root     only makes that root
# Exit code 77 where something that it needs is not there: it says what.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
only_root=
[ "${1:-}" != --root ] || { only_root=yes && shift; }
folder=$(realpath -m "${1:-$source/build-aarch64}")
packages=libc6-dev,libhdf5-dev,libtomlplusplus-dev,libcli11-dev
packages+=,nlohmann-json3-dev,libfmt-dev,libxxhash-dev,libeigen3-dev

skip() {
  echo "aarch64: skipped: $*" >&2
  exit 77
}

# The compiler's own release: a program must not ask for a newer libstdc++ than the root's.
release() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }

# Only unpacked, never configured: nothing of it runs but what mxtape loads. In a tar file because the owner of files may
# be another in the archive's own folders.
make_root() {
  command -v mmdebstrap >/dev/null || skip "no mmdebstrap (apt-get install mmdebstrap)"
  local archive=()  # where this machine gets its packages; mmdebstrap's own default otherwise
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ ! -s "$list" ] || { archive=("$list") && break; }
  done
  mkdir -p "$folder"
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" "$(release)" "$folder/root.tar" \
    "${archive[@]}" 2>"$folder/mmdebstrap.log" || skip "no arm64 packages from here: $(tail -n 1 "$folder/mmdebstrap.log")"
  rm -rf "$folder/root.part"
  mkdir "$folder/root.part"
  tar -C "$folder/root.part" --exclude='./dev/*' --no-same-owner -xf "$folder/root.tar"
  mv "$folder/root.part" "$folder/root"
  rm "$folder/root.tar"
}

command -v aarch64-linux-gnu-g++ >/dev/null || skip "no aarch64-linux-gnu-g++ (apt-get install g++-aarch64-linux-gnu)"
[ "$(sed -n 's/^ID=//p' /etc/os-release)" = debian ] || skip "the root to link with is made on Debian alone"
[ -d "$folder/root" ] || make_root
[ -z "$only_root" ] || exit 0

cmake -S "$source" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$source/cmake/aarch64.cmake" \
  -DMXTAPE_SYSROOT="$folder/root" -DMXTAPE_WERROR=ON -DMXTAPE_TESTS=OFF -DMXTAPE_BENCH=OFF -DMXTAPE_CUDA=OFF -DMXTAPE_MPI=OFF
nice -n 10 cmake --build "$folder/build" --target mxtape_program mxtape_conformance

command -v qemu-aarch64-static >/dev/null || skip "compiled, but not run: no qemu-aarch64-static (apt-get install qemu-user-static)"
rm -rf "$folder/run"
mkdir "$folder/run"
cd "$folder/run"
# Arm must have the bits of x86-64: a checkpoint of build/mxtape, or the one that tests/bare.sh --tests keeps.
native=$source/build/three_steps.h5
if [ -x "$source/build/mxtape" ]; then
  "$source/tests/three_steps.sh" native "$source/build/mxtape" >native.txt
  native=native/runs/three/checkpoints/step_00000003.h5
fi
# Byte dot products by SDOT, and without it.
for core in neoverse-n1 cortex-a72; do
  emulator=(qemu-aarch64-static -cpu "$core" -L "$folder/root")
  echo "== $core"
  "${emulator[@]}" "$folder/build/mxtape" --version
  "${emulator[@]}" "$folder/build/mxtape" formats >formats.txt
  "${emulator[@]}" "$folder/build/mxtape-conformance" "$source/tests/golden"
  "$source/tests/three_steps.sh" "$core" "${emulator[@]}" "$folder/build/mxtape"
  [ ! -f "$native" ] || "${emulator[@]}" "$folder/build/mxtape" diff "$native" "$core/runs/three"
done
[ -f "$native" ] || skip "run, but not compared: no checkpoint of x86-64 in $native"
