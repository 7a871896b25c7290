#include <algorithm>
#include <chrono>
#include <map>

#include "core/files/atomic_file.h"
#include "data/hdf5/seal.h"
#include "program/post_training/models_of_settings.h"
#include "program/post_training/post_training.h"
#include "program/post_training/results_file.h"

namespace mxtape {
namespace {

/// A cell of the table before it is measured.
struct Job {
  std::string precision;
  Setting setting;
};

/// f32 first, the first of it unquantized and untouched: what all others are compared with.
std::vector<Job> jobs_of(const PostTrainingOptions& options) {
  const bool finetunes =
      std::find(options.wanted.begin(), options.wanted.end(), Setting::finetuned) != options.wanted.end();
  std::vector<Job> jobs{{"f32", Setting::cast}};
  if (finetunes) jobs.push_back({"f32", Setting::finetuned});
  std::map<std::string, std::string> by_folder;
  for (const std::string& precision : options.precisions) {
    const auto [other, first] = by_folder.emplace(folder_name(precision), precision);
    require(first, ExitCode::usage, "--precision '{}' and '{}': {}; want each once", other->second, precision,
            other->second == precision ? "the same twice" : "their models would have one file's name");
    if (Cast{precision}.is_f32()) continue;
    for (const auto& row : settings)
      if (std::find(options.wanted.begin(), options.wanted.end(), row.setting) != options.wanted.end())
        jobs.push_back({precision, row.setting});
  }
  return jobs;
}

}  // namespace

PostTraining run_post_training(const PostTrainingOptions& options,
                               const std::function<void(const PostTraining&)>& started,
                               const std::function<void(const PostTrainingProgress&)>& progress) {
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
  started(result);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& [precision, setting] = jobs[i];
    PostTrainingProgress now{.what = fmt::format("{} {}", precision, name_of(setting)),
                             .done = std::int64_t(i),
                             .all = std::int64_t(jobs.size())};
    std::optional<Measurement> measured = file.find(precision, setting, options.keep);
    const bool new_one = !measured;
    if (new_one) {
      const auto begin = std::chrono::steady_clock::now();
      measured = models.measure(precision, setting, [&](double share) {
        now.share = (work_done + share * work[i]) / all_work;
        progress(now);
      });
      measured->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
    now.done = std::int64_t(i) + 1;
    now.share = all_work > 0 ? work_done / all_work : 1;
    now.finished = &result.measurements.back();
    progress(now);
  }
  return result;
}

}  // namespace mxtape
