#include "program/records/run_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/files/status.h"
#include "core/text/nearest_name.h"
#include "core/text/short_lines.h"
#include "data/hdf5/seal.h"
#include "program/records/paired_gap.h"

namespace mxtape {
namespace {

/// The steps in metrics.rollback_<n>.jsonl, after the step that the run went back to: its curve starts there.
/// What is no record is not drawn.
std::vector<RunLog::Point> taken_back(const std::filesystem::path& file,
                                      const std::vector<RunLog::Point>& train, std::int64_t step) {
  std::vector<RunLog::Point> points;
  for (const auto& point : train)
    if (point.step == step) points.push_back(point);
  if (!std::filesystem::exists(file)) return points;
  std::istringstream in(read_whole_text(file));
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("loss"))
      points.push_back({record.value("step", std::int64_t(0)), record.value("loss", 0.0)});
  }
  return points;
}

}  // namespace

std::int64_t RunLog::last_step() const {
  std::int64_t last = train.empty() ? -1 : train.back().step;
  for (const Turn& turn : turns)
    if (turn.event == "skip") last = std::max(last, turn.step);
  return last;
}

RunLog read_run_log(const std::filesystem::path& run) {
  RunLog log = read_records(run);
  require(!log.train.empty(), ExitCode::data, "{}: holds no step", run.string());
  return log;
}

RunLog read_records(const std::filesystem::path& run) {
  const std::filesystem::path file = is_folder(run) ? run / "metrics.jsonl" : run;
  if (!is_there(file))
    fail(ExitCode::data, "{}{}: is not there; want a run's folder or its metrics.jsonl", file.string(),
         near_path(run));
  std::istringstream in(read_whole_text(file));

  RunLog log;
  const std::filesystem::path run_folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  log.name = run_folder.filename().string();
  // The runs of a sweep are called by their seed, in a folder that is called by the arm.
  if (std::filesystem::exists(run_folder / "sweep.json"))
    log.name = run_folder.parent_path().filename().string() + "/" + log.name;
  std::vector<double> milliseconds, tokens_per_second;
  std::int64_t number = 0;
  const auto add = [&](std::vector<RunLog::Point>& points, std::int64_t step, double loss) {
    const std::int64_t before = points.empty() ? -1 : points.back().step;
    require(step > before, ExitCode::data, "{}:{}: step {} after step {}; a run's steps rise", file.string(),
            number, step, before);
    points.push_back({step, loss});
  };
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const auto record = nlohmann::json::parse(line);
      const auto step = record.at("step").get<std::int64_t>();
      if (record.contains("event")) {
        log.turns.push_back({step, record.at("event").get<std::string>(), record.value("from", step),
                             record.value("number", std::int64_t(0))});
        for (const std::string& change : record.value("changed", std::vector<std::string>()))
          if (change.starts_with("data: ")) log.turns.back().data = change.substr(6);
      } else if (record.contains("validation_loss")) {
        add(log.validation, step, record["validation_loss"].get<double>());
        if (record.contains("floor")) log.floor = record["floor"].get<double>();
      } else {
        add(log.train, step, record.at("loss").get<double>());
        milliseconds.push_back(record.at("ms").get<double>());
        tokens_per_second.push_back(record.at("tokens_per_second").get<double>());
      }
    } catch (const nlohmann::json::exception& e) {
      require(in.eof(), ExitCode::data, "{}:{}: not a record of a run: {}", file.string(), number,
              json_reason(e));
    }
  }
  for (const auto& turn : log.turns)
    if (turn.event == "rollback" && file != run)
      log.taken_back.push_back(
          taken_back(run / fmt::format("metrics.rollback_{}.jsonl", turn.number), log.train, turn.step));
  if (log.train.empty()) return log;
  log.median_milliseconds = median(std::move(milliseconds));
  log.median_tokens_per_second = median(std::move(tokens_per_second));
  return log;
}

RunLog read_run_log_with_parent(const std::filesystem::path& run, int generations) {
  RunLog log = read_run_log(run);
  if (log.turns.empty() || log.turns.front().event != "branch" || log.turns.front().step == 0) return log;
  const std::filesystem::path file = (is_folder(run) ? run : run.parent_path()) / "parent.json";
  try {
    require(is_there(file), ExitCode::data, "{}: is not there", file.string());
    const auto json = nlohmann::json::parse(read_whole_text(file));
    const std::string of = json.at("run"), checkpoint = json.at("checkpoint");
    require(!is_there(checkpoint) || sealed_hash(checkpoint) == json.at("hash").get<std::string>(),
            ExitCode::data, "{}: is another one than the run branched from", checkpoint);
    const RunLog parent = generations > 0 ? read_run_log_with_parent(of, generations - 1) : read_run_log(of);
    log.past_missing = parent.past_missing;
    const std::int64_t step = log.turns.front().step;
    const auto join = [&](std::vector<RunLog::Point>& points, const std::vector<RunLog::Point>& of_parent) {
      const auto after =
          std::find_if(of_parent.begin(), of_parent.end(), [&](auto& p) { return p.step > step; });
      if (after != of_parent.begin())
        points.insert(points.begin(), generations > 0 ? of_parent.begin() : std::prev(after), after);
    };
    join(log.train, parent.train);
    join(log.validation, parent.validation);
  } catch (const Error& e) {
    if (e.code() != ExitCode::data) throw;  // else moved or deleted: the branch can do without
    log.past_missing = e.what();
  } catch (const nlohmann::json::exception&) {
    log.past_missing = file.string() + ": is not what a branch writes there";
  }
  return log;
}

std::optional<double> steps_to(const std::vector<RunLog::Point>& validation, double loss) {
  const auto at = std::ranges::find_if(validation, [=](const auto& point) { return point.loss <= loss; });
  if (at == validation.end()) return {};
  if (at == validation.begin()) return double(at->step);
  const auto& before = *(at - 1);
  return double(before.step) +
         (before.loss - loss) / (before.loss - at->loss) * double(at->step - before.step);
}

std::filesystem::path record_file(const std::filesystem::path& run) { return run / "sweep.json"; }

std::optional<RunRecord> read_record(const std::filesystem::path& run) {
  if (!std::filesystem::exists(record_file(run))) return {};
  const std::string text = read_whole_text(record_file(run));
  try {
    const auto json = nlohmann::json::parse(text);
    RunRecord record{.arithmetic = json.at("arithmetic"),
                     .data_hash = json.at("data_hash"),
                     .code = json.at("code"),
                     .message = json.at("message"),
                     .seconds = json.at("seconds"),
                     .peak_mib = {},
                     .threads = json.at("threads")};
    if (!json.at("peak_mib").is_null()) record.peak_mib = json["peak_mib"].get<double>();
    return record;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

std::optional<RunLog> log_of_whole_run(const std::filesystem::path& run, std::int64_t steps) {
  try {
    RunLog log = read_run_log(run);
    if (log.last_step() == steps && !log.validation.empty() && log.validation.back().step == steps)
      return log;
  } catch (const Error& e) {
    if (e.code() != ExitCode::data) throw;  // unreadable is not absent
  }
  return {};
}

void write_record(const std::filesystem::path& run, const RunRecord& record) {
  nlohmann::ordered_json json{
      {"arithmetic", record.arithmetic}, {"data_hash", record.data_hash}, {"code", record.code},
      {"message", record.message},       {"seconds", record.seconds},     {"peak_mib", nullptr},
      {"threads", record.threads}};
  if (record.peak_mib) json["peak_mib"] = *record.peak_mib;
  write_atomically(record_file(run),
                   json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::string arithmetic_of(const std::string& description) {
  std::string text = description.substr(0, description.find('\n'));
  if (text.starts_with("cpu, ")) {
    const auto has = [&](std::string_view words) { return text.find(words) != std::string::npos; };
    text = fmt::format("cpu{}{}", has("GEMMs amx") ? ", AMX" : has("loops baseline") ? ", baseline" : "",
                       has("integer GEMMs") ? ", integer GEMMs" : "");
  }
  return fmt::format("mxtape {}, {}", MXTAPE_VERSION, text);
}

}  // namespace mxtape
