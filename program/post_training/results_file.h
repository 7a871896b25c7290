#pragma once
#include <filesystem>
#include <optional>

#include "program/post_training/post_training.h"

namespace mxtape {

/// results.json of the folder of a table, and the folder's lock. Without a folder it holds nothing.
class ResultsFile {
 public:
  /// Reads what an earlier process measured with the same options. Throws Error(usage) if the folder has
  /// other results, naming what differs, or other files; Error(resource) if another process is at work there.
  ResultsFile(const std::filesystem::path& folder, const PostTraining& subject);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;

  /// Throws Error(usage) if what is there under this precision's name is of another one: of a file with other
  /// content, or of one whose models have the same names.
  void check(const std::string& precision, Setting, const std::vector<std::string>& changed) const;
  /// What is there of a measurement; with `kept`, only if its model was kept as well.
  std::optional<Measurement> find(const std::string& precision, Setting, bool kept) const;
  void write(const PostTraining&) const;

 private:
  void read(const PostTraining& subject);

  std::filesystem::path path_;
  int lock_ = -1;
  std::vector<Measurement> measurements_;
};

}  // namespace mxtape
