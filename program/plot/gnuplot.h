#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "program/metrics/run_log.h"

/// Parts of gnuplot scripts, and the program itself.
namespace mxtape::gnuplot {

/// "0072B2": a curve's colour.
std::string_view colour_of(std::size_t curve);
/// A text in gnuplot's double quotes.
std::string quoted(const std::string& text);
/// The data block $name.
void put_points(std::string& script, const std::string& name, const std::vector<RunLog::Point>&);
/// The settings that all pictures share. `terminal` is gnuplot's, "svg" or "pngcairo"; `title` may be empty.
std::string frame(const std::string& terminal, const std::filesystem::path& output, const std::string& title,
                  const std::string& y_label, const std::array<double, 2>& y_range);
std::string plot_command(const std::vector<std::string>& curves);

/// The script that draws a picture with this terminal into this file.
using Script = std::function<std::string(const std::string& terminal, const std::filesystem::path& output)>;
/// Throws Error(usage) if an option's value cannot be the stem of pictures.
void require_stem(std::string_view option, const std::filesystem::path& stem);
/// Writes `<stem>.svg` and `<stem>.png`, each beside and then renamed. Throws Error(resource) with the line
/// that installs gnuplot if there is none.
void write_pictures(const std::filesystem::path& stem, const Script&);

}  // namespace mxtape::gnuplot
