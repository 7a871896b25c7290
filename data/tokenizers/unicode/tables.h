#pragma once

namespace mxtape::unicode {

/// Tables of Unicode 16.0 as text; tables.cpp says how each is read.
extern const char* const category_runs;
extern const char* const combining_runs;
extern const char* const decompositions;

}  // namespace mxtape::unicode
