#!/usr/bin/env bash
# README's commands on a machine that has nothing on it: a bare Debian, made by mmdebstrap in build/bare, with a clean clone of
# what is committed. As root, and as a user without sudo, who is told what to install and goes on once that is done.
#   tests/bare.sh [bookworm|trixie]           demo, demo again, test: as root, then as the user
#   tests/bare.sh [bookworm|trixie] --root    the first half of that; --user: the second
#   tests/bare.sh [bookworm|trixie] --tests   as the user: build, the first steps of a training, all tests
#   tests/bare.sh [bookworm|trixie] --numbers the same with the tests of numbers alone: formats, kernels, autograd, data
#   tests/bare.sh [bookworm|trixie] --image   only makes the root's image, which is kept
# For --tests the root has what product and tests take if it is there (gnuplot, MPI, Python, Doxygen), and this machine's CUDA toolkit.
# Ends with 77 and a reason where such a root cannot be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=${1:-bookworm} part=${2:-}
if [[ ! "$release $part" =~ ^(bookworm|trixie)' '(--root|--user|--tests|--numbers|--image)?$ ]]; then
  printf 'mxtape: bare: unknown words: %s; want bookworm or trixie, then nothing, --root, --user, --tests, --numbers or --image\n' "$*" >&2
  exit 2
fi
skip() {
  printf 'mxtape: bare: skipped: %s\n' "$*" >&2
  exit 77
}
[ "$(id -u)" = 0 ] || skip "only root can enter another root; start it with sudo"
command -v mmdebstrap >/dev/null || skip "no mmdebstrap; install it with apt-get install mmdebstrap"
say() { printf '\n=== bare %s: %s (%d s)\n' "$release" "$*" "$((SECONDS - begin))"; }
begin=$SECONDS

mkdir -p build/bare
image=build/bare/$release.tar root=$PWD/build/bare/$release
if [ ! -f "$image" ]; then
  say "making the root"
  mmdebstrap --quiet --format=tar --variant=minbase --skip=output/dev "$release" "$image.tmp" || skip "mmdebstrap could not make $release"
  mv "$image.tmp" "$image"
fi
[ "$part" != --image ] || exit 0

# A root as new, in which both users have a clone.
fresh() {
  rm -rf "$root"
  mkdir -p "$root"
  tar -xf "$image" -C "$root"
  mkdir -p "$root/proc" "$root/dev" "$root/tmp"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  chroot "$root" useradd --create-home user
  local home
  for home in root home/user; do
    git clone --quiet --no-hardlinks . "$root/$home/mxtape"
  done
  chroot "$root" chown -R user: /home/user/mxtape
}

# Runs a line in the clone, with the environment of a new login and nothing of this machine but its name servers.
inside() {  # user, line
  local home=/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  [ ! -d "$root/usr/local/cuda" ] || path=/usr/local/cuda/bin:$path
  [ "$1" = root ] || home=/home/$1
  unshare --mount --pid --fork --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/tmp"  # tests of faults write small files by the ten thousand, and flush each
    [ ! -d "$1/usr/local/cuda" ] || mount --bind "$5" "$1/usr/local/cuda"
    [ ! -d "$1/home/user/shared" ] || mount --bind ../shared "$1/home/user/shared"
    exec chroot --userspec="$2:$2" --groups= "$1" /usr/bin/env -i HOME="$3" USER="$2" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      ${CI:+CI=$CI} ${CUDAARCHS:+CUDAARCHS=$CUDAARCHS} PATH="$6" bash -c "cd ~/mxtape && $4"
  ' bash "$root" "$1" "$home" "$2" "$(realpath -m /usr/local/cuda)" "$path"
}

# A command of ./run by the user: refused with the line to run, which root then runs.
as_user() {  # command
  local code=0 line
  say "user: ./run $1"
  inside user "./run $1" >"$root/refusal.txt" 2>&1 || code=$?
  if [ "$code" = 0 ]; then
    cat "$root/refusal.txt"
    return
  fi
  line=$(grep -E '^  apt-get update && apt-get install' "$root/refusal.txt" || true)
  if [ "$code" != 6 ] || [ -z "$line" ]; then
    cat "$root/refusal.txt"
    printf 'mxtape: bare: ./run %s ended with %d; want 6 and the line that installs what is missing\n' "$1" "$code" >&2
    exit 1
  fi
  say "root: $line"
  inside root "$line" >"$root/apt.txt" 2>&1 || { cat "$root/apt.txt"; exit 1; }
  say "user: ./run $1, once more"
  inside user "./run $1"
}

# ./run build on a system that it cannot serve: code 6 and a sentence that says what to do.
expect_refusal() {  # what it says
  local code=0
  inside user './run build' >"$root/refusal.txt" 2>&1 || code=$?
  if [ "$code" != 6 ] || ! grep -q "$1" "$root/refusal.txt"; then
    cat "$root/refusal.txt"
    printf 'mxtape: bare: ./run build ended with %d; want 6 and "%s"\n' "$code" "$1" >&2
    exit 1
  fi
}
refusals() {
  say "systems that are refused"
  cp "$root/usr/lib/os-release" "$root/os-release.kept"
  printf 'ID=ubuntu\nVERSION_ID="22.04"\n' >"$root/usr/lib/os-release"
  expect_refusal 'packages of this release are too old: want Debian 12, Ubuntu 24.04 or newer'
  mv "$root/os-release.kept" "$root/usr/lib/os-release"
  mv "$root/usr/bin/apt-get" "$root/usr/bin/apt-get.kept"
  expect_refusal 'HDF5, toml++, CLI11.*Without apt-get, install them as this system does'
  mv "$root/usr/bin/apt-get.kept" "$root/usr/bin/apt-get"
}

fresh
refusals
first_steps() {
  as_user build
  say "user: the first steps of a training"
  inside user 'export PATH="$PWD/build:$PATH" && mkdir -p runs && mxtape corpus --tales 300 --out runs/demo.h5 &&
    mxtape train demo-mxfp4 --train.steps=3 --schedule.warmup_steps=1 --train.sample_tokens=0'
}
if [ "$part" = --tests ]; then
  [ ! -x /usr/local/cuda/bin/nvcc ] || mkdir -p "$root/usr/local/cuda"
  [ ! -d ../shared ] || mkdir -p "$root/home/user/shared"  # a larger golden set
  inside root 'apt-get update -qq && apt-get install -qq -y --no-install-recommends gnuplot-nox libopenmpi-dev openmpi-bin openssh-client python3 doxygen git libonig-dev libsentencepiece-dev libutf8proc-dev' >/dev/null
  first_steps
  inside user 'tests/three_steps.sh runs/three_steps "$PWD/build/mxtape"'
  cp "$root/home/user/mxtape/runs/three_steps/runs/three/checkpoints/step_00000003.h5" build/three_steps.h5
  as_user test
elif [ "$part" = --numbers ]; then
  first_steps
  say "root: what the tests need besides"
  inside root '. cmake/packages.sh && apt-get install -qq -y --no-install-recommends ${test_libraries[@]}' >/dev/null
  say "user: the tests of numbers"
  inside user 'cmake --preset release -DMXTAPE_TESTS=ON >build/configure.log &&
    cmake --build build --target formats_tests kernels_tests autograd_tests data_tests cpu_tests &&
    ctest --preset release -j "$(nproc)" -L "^(formats|kernels|autograd|data|cpu)$"'
else
  for command in demo demo test; do
    [ "$part" != --user ] || break
    say "root: ./run $command"
    inside root "./run $command"
  done
  [ "$part" ] || fresh
  for command in demo demo test; do
    [ "$part" != --root ] || break
    as_user $command
  done
fi
rm -rf "$root"
say "all of it passed"
