#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "program/records/run_log.h"

/// Parts of gnuplot scripts, and the program itself.
namespace mxtape::gnuplot {

/// "0072B2": a curve's colour.
std::string_view colour_of(std::size_t curve);
/// "linecolor rgb '#0072B2' dashtype solid" and "pointtype 7". No two of 150 curves share colour, dashes and
/// mark; of 30, none share colour and dashes. `alpha`: "A0" is faint.
std::string line_of(std::size_t curve, std::string_view alpha = "");
std::string mark_of(std::size_t curve);
/// A text in gnuplot's double quotes. Backquotes are escaped: gnuplot would run what stands in them.
std::string quoted(const std::string& text);
/// The data block $name.
void put_points(std::string& script, const std::string& name, const std::vector<RunLog::Point>&);
/// The settings that all pictures share. `terminal` is gnuplot's, "svg" or "pngcairo"; `title` may be empty;
/// `x_end` 0: where the curves end.
std::string frame(const std::string& terminal, const std::filesystem::path& output, const std::string& title,
                  const std::string& y_label, const std::array<double, 2>& y_range, double x_end = 0);
/// A key below the picture, of so many entries in two columns, for pictures in which no corner stays free.
std::string key_below(std::size_t entries, std::size_t columns = 2);
std::string plot_command(const std::vector<std::string>& curves);

/// The script that draws a picture with this terminal into this file.
using Script = std::function<std::string(const std::string& terminal, const std::filesystem::path& output)>;
/// Throws Error(usage) if an option's value cannot be the stem of pictures.
void require_stem(std::string_view option, const std::filesystem::path& stem);
/// There is no gnuplot on this machine; what() has the line that installs it.
struct NotInstalled : Error {
  using Error::Error;
};
/// The picture as SVG; throws as write_pictures().
std::string svg(const Script&);
/// Writes `<stem>.svg` and `<stem>.png`, each beside and then renamed. Throws NotInstalled, and
/// Error(resource) if a picture cannot be drawn or written.
void write_pictures(const std::filesystem::path& stem, const Script&);

}  // namespace mxtape::gnuplot
