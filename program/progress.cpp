#include "program/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "program/output.h"

namespace mxtape {
namespace {

constexpr const char* bold = "\033[1m";
constexpr const char* dim = "\033[2m";
constexpr const char* plain = "\033[0m";
constexpr const char* separator = " | ";
constexpr const char* line_start = "\r\033[K";
/// Drawing more often only burns time: 20 lines a second look continuous.
constexpr auto redraw_interval = std::chrono::milliseconds(50);

/// 1, 2, 5, 10, 20 ...: the smallest that gives at most `lines` lines.
std::int64_t round_interval(std::int64_t steps, std::int64_t lines) {
  for (std::int64_t power = 1;; power *= 10)
    for (std::int64_t digit : {1, 2, 5})
      if (digit * power * lines >= steps) return digit * power;
}

/// Leaves out fields of a step's line until it fits: a line that wraps piles up instead of being overwritten.
void shorten(std::vector<std::string>& fields, std::size_t columns) {
  const auto length = [&] { return fmt::format("{}", fmt::join(fields, separator)).size(); };
  for (const auto field : {5, 3, 2, 2})  // tokens per second, learning rate, norm, milliseconds
    if (columns != 0 && length() >= columns) fields.erase(fields.begin() + field);
}

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

Progress::Progress(std::FILE* out, std::int64_t total_steps, std::int64_t steps_done)
    : out_(out),
      screen_(is_screen(out)),
      colour_(screen_ && std::getenv("NO_COLOR") == nullptr),
      total_(total_steps),
      first_(steps_done),
      every_(round_interval(total_steps, 40)) {}

void Progress::step(const StepRecord& r) {
  // The mean over about the last ten steps, so that the figure can be read; without the first one, as soon as
  // there is another: it sets things up.
  const double timed = double(std::max<std::int64_t>(++steps_seen_ - 1, 1));
  smooth_ms_ += (r.milliseconds - smooth_ms_) * std::max(0.1, 1 / timed);
  const bool last = r.step == total_;
  const auto now = Clock::now();
  if (screen_ ? !last && now - last_drawn_ < redraw_interval : !last && r.step % every_ != 0) return;
  last_drawn_ = now;
  const int width = int(std::to_string(total_).size());
  const double tokens_per_second = r.tokens_per_second * r.milliseconds / smooth_ms_;
  const std::string loss = fmt::format("{:.4f}", r.loss);
  std::vector<std::string> fields{fmt::format("step {:>{}}/{}", r.step, width, total_),
                                  "loss " + loss,
                                  fmt::format("norm {:.3f}", r.norm),
                                  fmt::format("lr {:.2e}", r.learning_rate),
                                  fmt::format("{:.1f} ms", smooth_ms_),
                                  fmt::format("{:.0f} tok/s", tokens_per_second),
                                  "eta " + eta(r.step)};
  if (screen_) shorten(fields, columns(out_));
  if (colour_) fields[1] = fmt::format("loss {}{}{}", bold, loss, plain);
  const std::string line = fmt::format("{}", fmt::join(fields, separator));
  screen_ ? overwrite(line) : keep(line);
}

void Progress::validating(std::int64_t done, std::int64_t total) {
  const auto now = Clock::now();
  if (!screen_ || now - last_drawn_ < redraw_interval) return;
  last_drawn_ = now;
  overwrite(fmt::format("validation {}/{} windows", done, total));
}

void Progress::validation(std::int64_t step, double loss, std::optional<double> floor, double seconds) {
  std::string line = fmt::format("step {:>{}}/{} | validation {:.4f} | perplexity {:.3f}", step,
                                 std::to_string(total_).size(), total_, loss, std::exp(loss));
  if (floor) line += fmt::format(" | floor {:.4f} | gap {:.4f}", *floor, loss - *floor);
  line += fmt::format(" | {:.1f} s", seconds);
  keep(colour_ ? bold + line + plain : line);
}

void Progress::note(const std::string& text) { keep(colour_ ? dim + text + plain : text); }

std::string Progress::eta(std::int64_t step) const {
  // Wall time a step so far, validation and saving included.
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return duration_text(seconds / double(step - first_) * double(total_ - step));
}

void Progress::overwrite(const std::string& line) {
  say(out_, "{}{}", line_start, line);
  line_open_ = true;
}

void Progress::keep(const std::string& line) {
  // On a screen the running line makes room and is drawn again by the next step.
  say(out_, "{}{}\n", line_open_ ? line_start : "", line);
  line_open_ = false;
}

PassProgress::PassProgress(std::FILE* out, std::size_t passes, bool shown)
    : out_(out), shown_(shown && is_screen(out)), passes_(passes) {}

void PassProgress::begin(const std::string& name) {
  name_ = name;
  ++number_;
}

void PassProgress::look(std::int64_t done, std::int64_t total) {
  const auto now = Clock::now();
  if (!shown_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const double share = (double(number_ - 1) + double(done) / double(total)) / double(passes_);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  say(out_, "{}{} {}/{} | {} of {} | {:.0f}% | eta {}", line_start, name_, done, total, number_, passes_,
      100 * share, duration_text(seconds / share * (1 - share)));
}

void PassProgress::end() {
  if (shown_) say(out_, "{}", line_start);
}

}  // namespace mxtape
