#include "data/hdf5/hdf5_library.h"

#include "data/hdf5/hdf5_version.h"

namespace mxtape::hdf5 {

void prepare_library() {
  static const bool ready = [] {
    require(H5dont_atexit() >= 0, "hdf5: the library was used before mxtape set it up");
    require(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0, "hdf5: cannot switch off its error printing");
    return true;
  }();
  (void)ready;
}

std::string reason() {
  std::string text = "no reason given";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* entry, void* out) -> herr_t {
        if (depth == 0) *static_cast<std::string*>(out) = entry->desc;
        return 0;
      },
      &text);
  return text;
}

}  // namespace mxtape::hdf5

namespace mxtape {

std::string hdf5_version() {
  hdf5::prepare_library();
  unsigned major = 0, minor = 0, release = 0;
  require(H5get_libversion(&major, &minor, &release) >= 0, "hdf5: the library does not tell its version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace mxtape
