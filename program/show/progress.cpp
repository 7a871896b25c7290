#include "program/show/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {
constexpr const char* line_start = "\r\033[K";
}  // namespace

std::string duration_text(double seconds) {
  const auto s = std::int64_t(std::max(0.0, std::ceil(seconds)));
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::size_t columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool is_screen(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(out)) == 1 && kind != nullptr && std::string_view(kind) != "dumb" &&
         std::getenv("OMPI_COMM_WORLD_RANK") == nullptr;
}

Line::Line(std::FILE* out, std::chrono::milliseconds interval, bool shown)
    : out_(out),
      interval_(interval),
      screen_(shown && is_screen(out)),
      drawn_(screen_ ? Clock::time_point() : begin_) {}

void Line::draw(const std::string& text) {
  if (!screen_) return;
  drawn_ = Clock::now();
  say(out_, "{}{}", line_start, text);
  open_ = true;
}

void Line::keep(const std::string& text) {
  // On a screen the running line makes room and is drawn again.
  say(out_, "{}{}\n", open_ ? line_start : "", text);
  drawn_ = Clock::now(), open_ = false;
}

void Line::clear() {
  if (open_) say(out_, "{}", line_start);
  open_ = false;
}

std::string Line::eta(double share) const {
  return share > 0 ? duration_text(seconds() / share * (1 - share)) : "-";
}

PassProgress::PassProgress(std::FILE* out, std::size_t passes, bool shown)
    : line_(out, std::chrono::milliseconds(100), shown), passes_(passes) {}

void PassProgress::begin(const std::string& name) {
  name_ = name;
  ++number_;
}

void PassProgress::look(std::int64_t done, std::int64_t total) {
  if (!line_.is_due()) return;
  const double share = (double(number_ - 1) + double(done) / double(total)) / double(passes_);
  line_.draw(fmt::format("{} {}/{} | {} of {} | {:.0f}% | eta {}", name_, done, total, number_, passes_,
                         100 * share, line_.eta(share)));
}

}  // namespace mxtape
