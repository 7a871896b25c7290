# What ./run knows of packages: sourced by it. It installs what is missing where it may, and says what to do where it may not.
# Debian's names. CMake says which of the libraries are missing (cmake/dependencies.cmake); this list serves machines that
# have no CMake yet.
tools=(build-essential cmake ninja-build)
libraries=(libhdf5-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev
  libeigen3-dev)
test_libraries=(libgtest-dev libbenchmark-dev)

is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

# Whether this is a Debian or Ubuntu whose packages are new enough.
release_serves() (  # a shell of its own: os-release sets many names
  ID='' VERSION_ID=''
  [ ! -r /etc/os-release ] || . /etc/os-release
  case "$ID" in
    debian) [ -z "$VERSION_ID" ] || [ "${VERSION_ID%%.*}" -ge 12 ] ;;
    ubuntu) [ "${VERSION_ID%%.*}" -ge 24 ] ;;
    *) true ;;
  esac
)

# Installs Debian packages where it may, otherwise prints the line that does. $1: what is missing, in its makers' words.
install() {
  local names=$1 sudo='' how=', as root,'
  shift
  command -v apt-get >/dev/null || refuse "missing: $names. Without apt-get, install them as this system does, or into a" \
    "prefix that CMAKE_PREFIX_PATH names (docs/installation.md), and start ./run again"
  release_serves || refuse "missing: $names. The packages of this release are too old: want Debian 12, Ubuntu 24.04 or newer," \
    "or what is missing from elsewhere, in a prefix that CMAKE_PREFIX_PATH names (docs/installation.md)"
  local packages="install -y --no-install-recommends $*"
  if [ "$(id -u)" != 0 ]; then
    ! command -v sudo >/dev/null || sudo='sudo ' how=''
    if [ -z "$sudo" ] || ! sudo -n true 2>/dev/null; then
      printf 'mxtape needs packages that are missing here. Please run%s\n\n  %sapt-get update && %sapt-get %s\n\nand start ./run again.\n' \
        "$how" "$sudo" "$sudo" "$packages" >&2
      exit 6
    fi
  fi
  say "installing $*"
  ${sudo}apt-get update -qq
  ${sudo}env DEBIAN_FRONTEND=noninteractive apt-get -qq -o APT::Status-Fd=1 $packages 2>&1 | show_progress
}

# Of what apt says: a line for each tenth of the way, warnings and errors.
show_progress() {
  awk -F: '
    /^dlstatus:|^pmstatus:/ {
      tenth = int($3 / 10)
      if ($1 tenth != shown) printf "  %s %d %%\n", $1 == "dlstatus" ? "downloading" : "installing", 10 * tenth
      shown = $1 tenth
      fflush()
    }
    /^pmerror:|^E:|^W:/ { print > "/dev/stderr" }'
}

has_cmake() {  # at least the version that CMakeLists.txt wants
  local found
  found=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
  [ "$(printf '3.24\n%s\n' "$found" | sort -V | head -n 1)" = 3.24 ]
}
