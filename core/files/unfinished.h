#pragma once
#include <filesystem>

namespace mxtape {

/// While it lives, remove_unfinished() (core/files/atomic_file.h) takes this file away, or, by /bin/rm, this
/// folder with all that is in it. At most 16 can be noted at a time, of paths below 4,096 bytes; others are
/// not taken away.
class Unfinished {
 public:
  explicit Unfinished(const std::filesystem::path& temporary) noexcept;
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

 private:
  int entry_ = -1;
};

}  // namespace mxtape
