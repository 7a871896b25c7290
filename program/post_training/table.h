#pragma once
#include <string>

#include "program/post_training/post_training.h"

namespace mxtape {

/// What is measured, on what: checkpoint, data, calibration with its seed and memory, finetuning.
std::string subject_text(const PostTraining&);
/// A line for each precision: bits, and loss with gap for each setting; what error diffusion did to the
/// layers; what diverged; what was kept.
std::string table_text(const PostTraining&);

}  // namespace mxtape
