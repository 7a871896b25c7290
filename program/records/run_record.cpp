#include "program/records/run_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"

namespace mxtape {

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
  const auto comma = text.rfind(", ");
  if (comma != std::string::npos && (text.ends_with(" thread") || text.ends_with(" threads")))
    text.erase(comma);
  return fmt::format("mxtape {}, {}", MXTAPE_VERSION, text);
}

}  // namespace mxtape
