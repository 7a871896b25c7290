#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace mxtape::cuda {

/// What an error says of a library that is missing, too old, or lacks a function.
struct LibraryWish {
  const char* place;             ///< the first word
  const char* product;           ///< "cuBLASLt"
  const char* version_function;  ///< its name; the function is std::size_t()
  std::size_t oldest;
  const char* remedy;  ///< "install ..., or ..."
};

/// One of NVIDIA's libraries, loaded at run time: a program built with its headers starts on machines without
/// it. The loaded code stays for the life of the process: it has threads and caches of its own.
class NvidiaLibrary {
 public:
  /// Loads the first of `candidates` (names for the system's search, or paths) that can be loaded. Throws
  /// Error(resource) if none can, or if it is older than the wish.
  NvidiaLibrary(const LibraryWish& wish, std::span<const std::string> candidates);

  /// function = the address of `name`. Throws Error(resource) if the library has none.
  template <class F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(address_of(name));
  }
  std::size_t version() const { return version_; }

 private:
  void* address_of(const char* name) const;

  const LibraryWish wish_;
  std::string file_;
  void* loaded_ = nullptr;
  std::size_t version_ = 0;
};

/// "12.8.0" of 120800.
std::string library_version_text(std::size_t version);

}  // namespace mxtape::cuda
