#include "program/plot/gnuplot.h"

#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "core/files/atomic_file.h"
#include "core/files/descriptor.h"
#include "core/text/printable.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

/// Feeds `script` to gnuplot. Throws if there is none or it complains.
void run_gnuplot(const std::string& script) {
  std::FILE* pipe = ::popen("command -v gnuplot >/dev/null || exit 127; exec gnuplot -d", "w");
  require(pipe != nullptr, ExitCode::resource, "plot: no process could be started for gnuplot");
  // A gnuplot that ends early closes the pipe: an error of the write, not the end of this program.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const bool fed = std::fwrite(script.data(), 1, script.size(), pipe) == script.size();
  const int status = ::pclose(pipe);
  std::signal(SIGPIPE, before);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw gnuplot::NotInstalled(
        ExitCode::resource,
        "plot: gnuplot was not found; install it with\n  sudo apt-get install gnuplot-nox");
  require(fed && WIFEXITED(status) && WEXITSTATUS(status) == 0, ExitCode::resource,
          "plot: gnuplot failed; what it says is above");
}

/// `end`: of every whole picture: the closing tag, the chunk IEND.
std::string drawn(const char* terminal, std::string_view end, const gnuplot::Script& script) {
  // A file in memory: on a full disk gnuplot leaves an empty file and ends with success.
  const Descriptor picture(::memfd_create("mxtape-plot", 0));
  require(bool(picture), ExitCode::resource, "plot: no memory for a picture");
  const std::string file = fmt::format("/proc/self/fd/{}", picture.number());  // in gnuplot, too
  run_gnuplot(script(terminal, file));
  std::string content = read_whole_text(file);
  const std::string_view text = std::string_view(content).substr(0, content.find_last_not_of('\n') + 1);
  require(text.ends_with(end), ExitCode::resource,
          "plot: gnuplot's picture ends after {} bytes, before its end; is there a limit for files (ulimit "
          "-f)?",
          content.size());
  return content;
}

}  // namespace

namespace gnuplot {

std::string_view colour_of(std::size_t curve) {
  /// Okabe & Ito 2008: eight colours that people with colour blindness tell apart; black is left to the axes
  /// and yellow, too pale for a line, is left out.
  constexpr std::array<std::string_view, 6> colours{"0072B2", "D55E00", "009E73",
                                                    "CC79A7", "56B4E9", "E69F00"};
  return colours[curve % colours.size()];
}

std::string line_of(std::size_t curve, std::string_view alpha) {
  constexpr std::array<std::string_view, 5> dashes{"solid", "(12,4)", "(4,4)", "(12,4,3,4)",
                                                   "(12,4,3,4,3,4)"};
  return fmt::format("linecolor rgb '#{}{}' dashtype {}", alpha, colour_of(curve),
                     dashes[curve / 6 % dashes.size()]);
}

std::string mark_of(std::size_t curve) {
  constexpr std::array<int, 5> marks{7, 5, 9, 13, 11};  // disc, square, triangles, diamond: filled
  return fmt::format("pointtype {}", marks[(curve / 6 + curve / 30) % marks.size()]);
}

std::string quoted(const std::string& text) {
  std::string out = "\"", readable = printable(text);
  for (std::size_t bad; (bad = first_bad_byte(readable)) < readable.size();)
    readable.replace(bad, 1, "\uFFFD");
  for (char c : readable) {
    if (c == '"' || c == '\\' || c == '`') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

void put_points(std::string& script, const std::string& name, const std::vector<RunLog::Point>& points) {
  script += fmt::format("${} << EOD\n", name);
  for (const auto& point : points) script += fmt::format("{} {}\n", point.step, point.loss);
  script += "EOD\n";
}

std::string frame(const std::string& terminal, const std::filesystem::path& output, const std::string& title,
                  const std::string& y_label, const std::array<double, 2>& y_range, double x_end) {
  return fmt::format(
      "set terminal {} size 1000,620 enhanced background '#FFFFFF' font 'Helvetica,14'\nset output {}\nset "
      "title {} font ',16' noenhanced\nset border 3 linecolor rgb '#555555'\nset tics nomirror out scale 0.6 "
      "textcolor rgb '#333333'\nset grid linecolor rgb '#E6E6E6' linetype 1 linewidth 1\nset xlabel "
      "'optimizer steps'\nset ylabel '{}'\nset yrange [{}:{}]\nset xrange [0:{}]\nset key top right Left "
      "reverse noenhanced spacing 1.25 samplen 2.5\n",
      terminal, quoted(output.string()), quoted(title), y_label, y_range[0], y_range[1],
      x_end > 0 ? fmt::format("{}", x_end) : "*");
}

std::string key_below(std::size_t entries, std::size_t columns) {
  // The second line of the label, which is empty, keeps the key off it.
  return fmt::format("set key below left vertical maxrows {} width 2\nset xlabel \"optimizer steps\\n \"\n",
                     std::max<std::size_t>(3, (entries + columns - 1) / columns));
}

std::string plot_command(const std::vector<std::string>& curves) {
  return fmt::format("plot {}\n", fmt::join(curves, ", \\\n  "));
}

void require_stem(std::string_view option, const std::filesystem::path& stem) {
  require(stem.has_filename() && stem.filename() != "." && stem.filename() != ".." &&
              !stem.string().ends_with(".svg") && !stem.string().ends_with(".png"),
          ExitCode::usage, "{} '{}': want the name of the files without .svg and .png, such as loss", option,
          stem.string());
}

std::string svg(const Script& script) { return drawn("svg", "</svg>", script); }

void write_pictures(const std::filesystem::path& stem, const Script& script) {
  write_atomically(stem.string() + ".svg", svg(script));
  write_atomically(stem.string() + ".png", drawn("pngcairo", "IEND\xae\x42\x60\x82", script));
}

}  // namespace gnuplot
}  // namespace mxtape
