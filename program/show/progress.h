#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace mxtape {

/// Whether lines on `out` can be written over: a terminal, and not one of TERM=dumb, as editors have. Not
/// below mpirun: Open MPI 5 gives its ranks terminals, and copies what they print to a file or to many lines.
bool is_screen(std::FILE* out);
/// Columns of the terminal behind `out`, as it is now; 0 if unknown.
std::size_t columns(std::FILE* out);

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A line that is written over, where somebody looks, and lines that stay.
class Line {
 public:
  /// It is drawn at most once in `interval`; more often only burns time.
  explicit Line(std::FILE* out, std::chrono::milliseconds interval = std::chrono::milliseconds(100),
                bool shown = true);
  bool on_screen() const { return screen_; }
  bool is_due() const { return Clock::now() - drawn_ >= interval_; }
  void draw(const std::string& text);  ///< on a screen alone
  void keep(const std::string& text);
  void clear();
  double seconds() const { return seconds_since(begin_); }  ///< since it was made
  /// How long the rest takes if this share of all took seconds().
  std::string eta(double share) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* out_;
  std::chrono::milliseconds interval_;
  bool screen_, open_ = false;
  Clock::time_point begin_ = Clock::now(), drawn_;
};

/// What a person sees of several passes of like length, one after the other: on a screen
/// "mxfp4 120/832 | 3 of 8 | 27% | eta 1m20s", elsewhere nothing.
class PassProgress {
 public:
  PassProgress(std::FILE* out, std::size_t passes, bool shown);
  void begin(const std::string& name);
  void look(std::int64_t done, std::int64_t total);
  /// Clears the line: something else is printed next.
  void end() { line_.clear(); }

 private:
  Line line_;
  std::size_t passes_, number_ = 0;  // number_: of the pass that is going on, from 1
  std::string name_;
};

/// "0m21s", "1h06m", "2d03h".
std::string duration_text(double seconds);

}  // namespace mxtape
