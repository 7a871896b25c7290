#include "data/hdf5/hdf5_library.h"

#include <string_view>

#include "data/hdf5/hdf5.h"

namespace mxtape::hdf5 {

void prepare_library() {
  static const bool ready = [] {
    require(H5dont_atexit() >= 0, "hdf5: the library was used before mxtape set it up");
    require(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0, "hdf5: cannot switch off its error printing");
    return true;
  }();
  (void)ready;
}

Reason reason() {
  Reason why;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* entry, void* out) -> herr_t {
        if (depth == 0) *static_cast<std::string*>(out) = entry->desc;
        return 0;
      },
      &why.text);
  // "file read failed: time = ..., errno = 5, error message = 'Input/output error', buf = ...": time and
  // addresses help nobody.
  constexpr std::string_view label = "error message = '";
  if (const auto at = why.text.find(label); at != std::string::npos) {
    const auto begin = at + label.size();
    why.text = why.text.substr(0, why.text.find_first_of(":,")) + ": " +
               why.text.substr(begin, why.text.find('\'', begin) - begin);
    why.of_system = true;
  }
  if (why.text == "can't retrieve stat info for file") why.of_system = true;  // and the error is not told
  return why;
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
