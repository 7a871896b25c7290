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
  drawn_ = Clock::now();
  open_ = false;
}

void Line::clear() {
  if (open_) say(out_, "{}", line_start);
  open_ = false;
}

double Line::seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

std::string Line::eta(double share) const {
  return share > 0 ? duration_text(seconds() / share * (1 - share)) : "-";
}

Progress::Progress(std::FILE* out, std::int64_t total_steps, std::int64_t steps_done)
    : out_(out),
      line_(out, std::chrono::milliseconds(50)),  // 20 lines a second look continuous
      colour_(line_.on_screen() && std::getenv("NO_COLOR") == nullptr),
      total_(total_steps),
      first_(steps_done),
      every_(round_interval(total_steps, 40)) {}

void Progress::step(const StepRecord& r) {
  // The mean over about the last ten steps, so that the figure can be read; without the first one, as soon as
  // there is another: it sets things up.
  const double timed = double(std::max<std::int64_t>(++steps_seen_ - 1, 1));
  smooth_ms_ += (r.milliseconds - smooth_ms_) * std::max(0.1, 1 / timed);
  const bool last = r.step == total_;
  if (!last && (line_.on_screen() ? !line_.is_due() : r.step % every_ != 0)) return;
  const int width = int(std::to_string(total_).size());
  const double tokens_per_second = r.tokens_per_second * r.milliseconds / smooth_ms_;
  const std::string loss = fmt::format("{:.4f}", r.loss);
  std::vector<std::string> fields{
      fmt::format("step {:>{}}/{}", r.step, width, total_), "loss " + loss,
      fmt::format("norm {:.3f}", r.norm), fmt::format("lr {:.2e}", r.learning_rate),
      fmt::format("{:.1f} ms", smooth_ms_), fmt::format("{:.0f} tok/s", tokens_per_second),
      // Validation and saving included.
      "eta " + line_.eta(double(r.step - first_) / double(total_ - first_))};
  if (line_.on_screen()) shorten(fields, columns(out_));
  if (colour_) fields[1] = fmt::format("loss {}{}{}", bold, loss, plain);
  const std::string line = fmt::format("{}", fmt::join(fields, separator));
  line_.on_screen() ? line_.draw(line) : line_.keep(line);
}

void Progress::validating(std::int64_t done, std::int64_t total) {
  if (line_.is_due()) line_.draw(fmt::format("validation {}/{} windows", done, total));
}

void Progress::validation(std::int64_t step, double loss, std::optional<double> floor, double seconds) {
  std::string line = fmt::format("step {:>{}}/{} | validation {:.4f} | perplexity {:.3f}", step,
                                 std::to_string(total_).size(), total_, loss, std::exp(loss));
  if (floor) line += fmt::format(" | floor {:.4f} | gap {:.4f}", *floor, loss - *floor);
  line += fmt::format(" | {:.1f} s", seconds);
  line_.keep(colour_ ? bold + line + plain : line);
}

void Progress::note(const std::string& text) { line_.keep(colour_ ? dim + text + plain : text); }

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
