#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "core/text/short_lines.h"
#include "data/hdf5/seal.h"
#include "program/post_training/post_training.h"
#include "program/records/file_lock.h"
#include "program/show/progress.h"
#include "program/show/streams.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

/// What may be another without another number in the table: names of files, and what is derived from the
/// rest.
bool decides_nothing(const std::string& key) {
  return key == "checkpoint" || key == "data" || key == "results" || key == "f32" || key == "floor_reason" ||
         key == "diffusion_bytes" || key == "cast_directly";
}

/// But for the lock of a process that ended before its first result.
bool holds_nothing(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator files(folder, error);
  return !error && std::all_of(begin(files), end(files),
                               [](const auto& file) { return file.path().filename() == ".lock"; });
}

std::string differences(const Json& before, const Json& now) {
  std::string text;
  for (const auto& [key, value] : now.items())
    if (!decides_nothing(key) && before.value(key, Json()) != value)
      text += fmt::format("\n  {}: {} -> {}", key, before.value(key, Json()).dump(), value.dump());
  return text;
}

std::string listed(std::string_view when, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += fmt::format("\n  {}: {}", when, line);
  return text;
}

/// results.json of the folder of a table, and the folder's lock. Without a folder it holds nothing.
class ResultsFile {
 public:
  /// Reads what an earlier process measured with the same options. Throws Error(usage) if the folder has
  /// other results, naming what differs, or other files; Error(resource) if another process is at work there.
  ResultsFile(const fs::path& folder, const PostTraining& subject) {
    if (folder.empty()) return;
    path_ = folder / "results.json";
    std::error_code error;
    const bool there = fs::exists(path_, error);
    require(there || !fs::exists(folder, error) || holds_nothing(folder), ExitCode::usage,
            "{}: this folder holds other files; name a new one with --out", folder.string());
    fs::create_directories(folder, error);
    require(!error, ExitCode::resource, "{}: the folder cannot be made: {}", folder.string(),
            error.message());
    lock_ = FileLock(folder / ".lock");
    require(lock_.take(), ExitCode::resource,
            "{}: another process is at work in this folder; name another --out", folder.string());
    if (there) read(subject);
  }

  /// Throws Error(usage) if what is there under this precision's name is of another one: of a file with other
  /// content, or of one whose models have the same names.
  void check(const std::string& precision, Setting setting, const std::vector<std::string>& changed) const {
    for (const Measurement& m : measurements_) {
      require(
          m.precision == precision || folder_name(m.precision) != folder_name(precision), ExitCode::usage,
          "{}: has results of --precision '{}', and models of '{}' would have the same names; name another "
          "folder with --out",
          path_.string(), m.precision, precision);
      require(m.precision != precision || m.setting != setting || m.changed == changed, ExitCode::usage,
              "{}: --precision '{}' meant something else when it was measured:{}{}\nname another folder with "
              "--out, or give the file another name",
              path_.string(), precision, listed("then", m.changed), listed("now", changed));
    }
  }
  /// What is there of a measurement; with `kept`, only if its model was kept as well.
  std::optional<Measurement> find(const std::string& precision, Setting setting, bool kept) const {
    const Measurement* const found = find_measurement(measurements_, precision, setting);
    if (!found) return {};
    const bool has_model = is_diffused(setting) || setting == Setting::finetuned;
    if (kept && has_model && found->loss && found->kept.empty()) return {};
    return *found;
  }
  void write(const PostTraining& results) const {
    if (path_.empty()) return;
    PostTraining all = results;
    for (const Measurement& old : measurements_)
      if (!find_measurement(all.measurements, old.precision, old.setting)) all.measurements.push_back(old);
    write_atomically(path_, json_text(value_of(all)));
  }

 private:
  void read(const PostTraining& subject) {
    try {
      const Json json = Json::parse(read_whole_text(path_));
      const std::string other = differences(json, *value_of(subject).json);
      require(other.empty(), ExitCode::usage,
              "{}: its results are of other options:{}\nname another folder with --out, or ask as then",
              path_.string(), other);
      for (const Json& result : json.at("results")) measurements_.push_back(measurement_of(result));
      for (Measurement& m : measurements_) try {
          if (m.kept.empty()) continue;
          m.kept = (path_.parent_path() / fs::path(m.kept).filename()).string();
          verify_seal(m.kept);
        } catch (const Error&) {  // the folder may have been moved, and files be gone or damaged
          m.kept.clear();
        }
    } catch (const nlohmann::json::exception& e) {
      fail(ExitCode::data, "{}: not results of mxtape post-training: {}; name another folder with --out",
           path_.string(), json_reason(e));
    }
  }

  std::filesystem::path path_;
  FileLock lock_;
  std::vector<Measurement> measurements_;
};

/// A cell of the table before it is measured.
struct Job {
  std::string precision;
  Setting setting;
};

/// f32 first, the first of it unquantized and untouched: what all others are compared with.
std::vector<Job> jobs_of(const PostTrainingOptions& options) {
  const bool finetunes = std::ranges::find(options.wanted, Setting::finetuned) != options.wanted.end();
  std::vector<Job> jobs{{"f32", Setting::cast}};
  if (finetunes) jobs.push_back({"f32", Setting::finetuned});
  std::map<std::string, std::string> by_folder;
  for (const std::string& precision : options.precisions) {
    const auto [other, first] = by_folder.emplace(folder_name(precision), precision);
    require(first, ExitCode::usage, "--precision '{}' and '{}': {}; want each once", other->second, precision,
            other->second == precision ? "the same twice" : "their models would have one file's name");
    if (Cast{precision}.is_f32()) continue;
    for (const auto& row : settings)
      if (std::ranges::find(options.wanted, row.setting) != options.wanted.end())
        jobs.push_back({precision, row.setting});
  }
  return jobs;
}

}  // namespace

PostTraining run_post_training(const PostTrainingOptions& options, std::FILE* out) {
  ModelsOfSettings models(options);
  PostTraining result = models.subject();
  const std::vector<Job> jobs = jobs_of(options);
  std::vector<double> work;
  double all_work = 0, work_done = 0;
  for (const Job& job : jobs) {
    models.check(job.precision, job.setting, result);
    all_work += work.emplace_back(models.work(job.setting));
  }
  ResultsFile file(options.out, result);
  for (const Job& job : jobs)
    file.check(job.precision, job.setting, models.changed(job.precision, job.setting));
  say(out, "{}", subject_text(result));
  Line line(out, std::chrono::milliseconds(200));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [precision, setting] = jobs[i];
    const std::string what = fmt::format("{} {}", precision, name_of(setting));
    std::optional<Measurement> measured = file.find(precision, setting, options.keep);
    const bool new_one = !measured;
    if (new_one) {
      const auto begin = std::chrono::steady_clock::now();
      measured = models.measure(precision, setting, [&](double of_it) {
        const double share = (work_done + of_it * work[i]) / all_work;
        if (line.is_due())
          line.draw(fmt::format("{} | {}/{} | {:.0f}% | eta {}", what, i, jobs.size(), 100 * share,
                                line.eta(share)));
      });
      measured->seconds = seconds_since(begin);
      work_done += work[i];
    } else {
      all_work -= work[i];  // the time that is left is that of what is measured now
    }
    result.measurements.push_back(*measured);
    if (i == 0) {
      require(measured->loss.has_value(), ExitCode::diverged, "{}: the unquantized model's {}",
              result.checkpoint, measured->failure);
      result.f32 = *measured->loss;
    }
    if (new_one) file.write(result);
    line.keep(fmt::format(
        "[{:>{}}/{}] {} | {} | {} | eta {}", i + 1, std::to_string(jobs.size()).size(), jobs.size(), what,
        measured->loss ? fmt::format("loss {:.4f}", *measured->loss) : "diverged",
        duration_text(measured->seconds), line.eta(all_work > 0 ? work_done / all_work : 1)));
  }
  return result;
}

}  // namespace mxtape
