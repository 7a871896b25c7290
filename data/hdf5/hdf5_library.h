#pragma once
#include <hdf5.h>

#include <filesystem>
#include <string>
#include <utility>

#include "core/error.h"

// What hdf5_writer.cpp and hdf5_reader.cpp share. No other file sees libhdf5's own header.
namespace mxtape::hdf5 {

/// Before the first call into HDF5: no handler at exit (it crashes after a failed close), no printing of
/// errors (they become one Error).
void prepare_library();

/// The innermost message of HDF5's error stack, which names the cause.
struct Reason {
  std::string text = "no reason given";
  bool of_system = false;  ///< a call to the system failed: the file may be whole
};
Reason reason();

using Close = herr_t (*)(hid_t);

/// An HDF5 identifier. close() is checked; the destructor is for the way out after an error.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }
  bool close() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Turns failed calls into Errors that name the file and the object.
struct Checker {
  ExitCode code;  ///< where the system is not to blame
  const std::filesystem::path& path;

  template <class Result>
  Result operator()(Result result, const char* what, const std::string& object = {}) const {
    if (result >= 0) return result;
    const Reason why = reason();
    fail(why.of_system ? ExitCode::resource : code, "{}: HDF5 cannot {}{}{}: {}", path.string(), what,
         object.empty() ? "" : " ", object, why.text);
  }
  Handle open(hid_t id, Close close, const char* what, const std::string& object = {}) const {
    return {(*this)(id, what, object), close};
  }
  void close(Handle& handle, const std::string& object) const {
    (*this)(handle.close() ? 0 : -1, "close", object);
  }
};

/// "" is the file itself.
inline std::string object_name(const std::string& name) { return name.empty() ? "/" : name; }

}  // namespace mxtape::hdf5
