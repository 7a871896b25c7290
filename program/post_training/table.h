#pragma once
#include <cstdio>
#include <string>

#include "program/post_training/post_training.h"
#include "program/show/progress.h"

namespace mxtape {

/// What is measured, on what: checkpoint, data, calibration with its seed and memory, finetuning.
std::string subject_text(const PostTraining&);
/// A line for each precision: bits, and loss with gap for each setting; what error diffusion did to the
/// layers; what diverged; what was kept.
std::string table_text(const PostTraining&);

/// A line for each measurement that is done, and on a screen one below that is written over.
class PostTrainingLine {
 public:
  explicit PostTrainingLine(std::FILE* out) : line_(out, std::chrono::milliseconds(200)) {}
  void look(const PostTrainingProgress&);

 private:
  Line line_;
};

}  // namespace mxtape
