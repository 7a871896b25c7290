#include "program/run/run_progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace mxtape {
namespace {

constexpr const char* bold = "\033[1m";
constexpr const char* dim = "\033[2m";
constexpr const char* plain = "\033[0m";
constexpr const char* separator = " | ";

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

}  // namespace mxtape
