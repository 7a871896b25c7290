#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "dist/group.h"

namespace mxtape {

/// An error that another process of the run prints.
class SaidElsewhere : public Error {
 public:
  explicit SaidElsewhere(ExitCode code) : Error(code, "another process of the run says why") {}
};

/// Runs work on all ranks, each for itself. If it throws on one, the error of the lowest such rank is thrown
/// on all: on rank 0 with the rank and host in front if they are not its own, elsewhere as SaidElsewhere.
/// Null: work() alone.
void together(Group*, const std::function<void()>& work);

/// Throws on all ranks if `mine` is not the same text everywhere, naming `what`, the first rank that differs,
/// its host and both texts; `advice` follows.
void require_same(Group&, ExitCode, std::string_view what, std::string_view mine, std::string_view advice);

/// "rank 3 of 8 (host)"; without a host where all are on one.
std::string name_of(const Place&);

}  // namespace mxtape
