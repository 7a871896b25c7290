#include "program/records/metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace mxtape {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Metrics::Metrics(const std::filesystem::path& jsonl, const std::filesystem::path& events,
                 std::int64_t steps_done, const std::string& recipe,
                 const std::function<bool(const std::string&)>& stale)
    : events_(events, steps_done), lines_(jsonl, steps_done, stale) {
  // In a fence, as TensorBoard reads texts as Markdown.
  events_.text("recipe", steps_done, "```\n" + recipe + "```\n", seconds_since_1970());
  events_.flush();
}

void Metrics::step(const StepRecord& r) {
  lines_.add(fmt::format(
      R"({{"step":{},"loss":{},"norm":{},"learning_rate":{},"ms":{:.3f},"tokens_per_second":{:.0f}}})",
      r.step, r.loss, r.norm, r.learning_rate, r.milliseconds, r.tokens_per_second));
  const double now = seconds_since_1970();
  events_.scalar("loss/train", r.step, r.loss, now);
  events_.scalar("gradient/norm", r.step, r.norm, now);
  events_.scalar("learning_rate", r.step, r.learning_rate, now);
  events_.scalar("speed/ms_per_step", r.step, r.milliseconds, now);
  events_.scalar("speed/tokens_per_second", r.step, r.tokens_per_second, now);
  events_.flush();
}

void Metrics::validation(std::int64_t step, double loss, std::optional<double> floor) {
  std::string text = fmt::format(R"({{"step":{},"validation_loss":{},"perplexity":{})", step, loss,
                                 std::isfinite(std::exp(loss)) ? fmt::format("{}", std::exp(loss)) : "null");
  if (floor) text += fmt::format(R"(,"floor":{},"gap":{})", *floor, loss - *floor);
  lines_.add(text + "}");
  const double now = seconds_since_1970();
  events_.scalar("loss/validation", step, loss, now);
  if (floor) events_.scalar("loss/gap_to_floor", step, loss - *floor, now);
  events_.flush();
}

}  // namespace mxtape
