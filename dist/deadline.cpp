#include "dist/deadline.h"

namespace mxtape {
namespace {

using Seconds = std::chrono::duration<double>;

std::chrono::steady_clock::duration duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(seconds));
}

}  // namespace

Deadline::Deadline(double timeout_seconds, Patience patience, double more)
    : length_(duration(timeout_seconds * (patience == Patience::alone ? long_patience : 1))),
      last_(Clock::now()),
      end_(last_ + length_ + duration(more)) {}

bool Deadline::has_passed(double seconds) {
  const auto now = Clock::now();
  if (now - last_ > std::chrono::seconds(1)) end_ += now - last_;
  last_ = now;
  return now >= end_ - duration(seconds);
}

void Deadline::blame(std::string_view what, const std::vector<std::string>& ranks) const {
  fail(ExitCode::peer,
       "waited {:.0f} s, {}, for rank{} {}: gone, stopped, or slower than MXTAPE_PEER_TIMEOUT allows",
       Seconds(length_).count(), what, ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace mxtape
