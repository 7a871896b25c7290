#pragma once
#include <chrono>
#include <cstdio>
#include <string>

#include "program/post_training/post_training.h"

namespace mxtape {

/// What is measured, on what: checkpoint, data, calibration with its seed and memory, finetuning.
std::string subject_text(const PostTraining&);
/// A line for each precision: bits, and loss with gap for each setting; what error diffusion did to the
/// layers; what diverged; what was kept.
std::string table_text(const PostTraining&);

/// A line for each measurement that is done, and on a screen one below that is written over.
class PostTrainingLine {
 public:
  explicit PostTrainingLine(std::FILE* out);
  void look(const PostTrainingProgress&);

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* out_;
  bool screen_, open_ = false;
  Clock::time_point begin_ = Clock::now(), drawn_{};
};

}  // namespace mxtape
