#include "train/plot.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"

namespace mxtape {
namespace {

/// Okabe & Ito 2008: eight colours that people with colour blindness tell apart; black is left to the axes
/// and yellow, too pale for a line, is left out.
constexpr std::array<std::string_view, 6> colours{"0072B2", "D55E00", "009E73", "CC79A7", "56B4E9", "E69F00"};
constexpr std::string_view colour_of(std::size_t run) { return colours[run % colours.size()]; }

/// A text in gnuplot's double quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

void put_points(std::string& script, const std::string& name, const std::vector<RunLog::Point>& points) {
  script += fmt::format("${} << EOD\n", name);
  for (const auto& point : points) script += fmt::format("{} {}\n", point.step, point.loss);
  script += "EOD\n";
}

/// Steps that share a point of the training curve: single steps jump about by more than two runs differ.
std::int64_t steps_per_point(std::span<const RunLog> runs) {
  constexpr std::int64_t points = 160;
  std::int64_t most = 1;
  for (const auto& run : runs) most = std::max(most, run.train.back().step);
  return std::max<std::int64_t>(1, most / points);
}

/// Means over `width` steps each, at the middle of their steps.
std::vector<RunLog::Point> thinned(const std::vector<RunLog::Point>& points, std::int64_t width) {
  std::vector<RunLog::Point> means;
  for (std::size_t first = 0; first < points.size(); first += std::size_t(width)) {
    const std::size_t last = std::min(points.size(), first + std::size_t(width));
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += points[i].loss;
    means.push_back({points[(first + last - 1) / 2].step, sum / double(last - first)});
  }
  return means;
}

/// The losses shown: all but the fall of the first few points, which would flatten the rest.
std::array<double, 2> loss_range(std::span<const RunLog> runs, std::int64_t width) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& run : runs) {
    const auto train = thinned(run.train, width);
    for (const auto& p : train) low = std::min(low, p.loss);
    for (const auto& p : run.validation) low = std::min(low, p.loss), high = std::max(high, p.loss);
    if (run.floor) low = std::min(low, *run.floor);
    high = std::max(high, train[std::min<std::size_t>(2, train.size() - 1)].loss);
  }
  const double margin = std::max(0.04 * (high - low), 1e-3);
  return {low - margin, high + margin};
}

/// Feeds `script` to gnuplot. Throws if there is none or it complains.
void run_gnuplot(const std::string& script) {
  std::FILE* gnuplot = ::popen("command -v gnuplot >/dev/null || exit 127; exec gnuplot", "w");
  require(gnuplot != nullptr, ExitCode::resource, "plot: no process could be started for gnuplot");
  // A gnuplot that ends early closes the pipe: an error of the write, not the end of this program.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const bool fed = std::fwrite(script.data(), 1, script.size(), gnuplot) == script.size();
  const int status = ::pclose(gnuplot);
  std::signal(SIGPIPE, before);
  require(!WIFEXITED(status) || WEXITSTATUS(status) != 127, ExitCode::resource,
          "plot: gnuplot was not found; install it with\n  sudo apt-get install gnuplot-nox");
  require(fed && WIFEXITED(status) && WEXITSTATUS(status) == 0, ExitCode::resource,
          "plot: gnuplot failed; what it says is above");
}

/// A file in memory for gnuplot to write to: on a full disk gnuplot leaves an empty file and ends with
/// success.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("mxtape-plot", 0)) {
    require(descriptor_ >= 0, ExitCode::resource, "plot: no memory for a picture");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Its name in a process that this one starts.
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  std::string content() const {
    std::string bytes(std::size_t(::lseek(descriptor_, 0, SEEK_END)), '\0');
    require(::pread(descriptor_, bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()), ExitCode::resource,
            "plot: the picture cannot be read back");
    return bytes;
  }

 private:
  int descriptor_;
};

}  // namespace

std::string gnuplot_script(std::span<const RunLog> runs, const std::string& terminal,
                           const std::filesystem::path& output, const std::string& title) {
  std::string script;
  const std::int64_t width = steps_per_point(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    put_points(script, fmt::format("train{}", i), thinned(runs[i].train, width));
    put_points(script, fmt::format("validation{}", i), runs[i].validation);
  }
  const auto [low, high] = loss_range(runs, width);
  script += fmt::format(
      "set terminal {} size 1000,620 enhanced background '#FFFFFF' font 'Helvetica,14'\n"
      "set output {}\n"
      "set title {} font ',16' noenhanced\n"
      "set border 3 linecolor rgb '#555555'\n"
      "set tics nomirror out scale 0.6 textcolor rgb '#333333'\n"
      "set grid linecolor rgb '#E6E6E6' linetype 1 linewidth 1\n"
      "set xlabel 'optimizer steps'\n"
      "set ylabel 'loss [nats per token]'\n"
      "set yrange [{}:{}]\n"
      "set xrange [0:*]\n"
      "set key top right Left reverse noenhanced spacing 1.25 samplen 2.5\n"
      "set key title 'bold: validation, with its last value'\n",
      terminal, quoted(output.string()), quoted(title), low, high);

  std::vector<std::string> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back(fmt::format("$train{} using 1:2 with lines linewidth 1.2 linecolor rgb '#A0{}' notitle",
                                 i, colour_of(i)));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& validation = runs[i].validation;
    const std::string name =
        validation.empty() ? runs[i].name : fmt::format("{}  {:.4f}", runs[i].name, validation.back().loss);
    // A run without a validation yet still wants its colour in the key.
    curves.push_back(
        validation.empty()
            ? fmt::format("NaN with lines linewidth 1 linecolor rgb '#{}' title {}", colour_of(i),
                          quoted(name))
            : fmt::format("$validation{} using 1:2 with linespoints linewidth 2.5 pointtype 7 pointsize 0.6 "
                          "linecolor rgb '#{}' title {}",
                          i, colour_of(i), quoted(name)));
  }
  curves.push_back(
      fmt::format("NaN with lines linewidth 1.2 linecolor rgb '#A0555555' title '{}'",
                  width == 1 ? "faint: training" : fmt::format("faint: training, means of {} steps", width)));
  std::vector<double> floors;
  for (const auto& run : runs)
    if (run.floor && std::find(floors.begin(), floors.end(), *run.floor) == floors.end())
      floors.push_back(*run.floor);
  for (double floor : floors)
    curves.push_back(fmt::format(
        "{} with lines dashtype 2 linewidth 1.5 linecolor rgb '#333333' title 'floor of the data  {:.4f}'",
        floor, floor));
  script += "plot ";
  for (std::size_t i = 0; i < curves.size(); ++i) script += (i ? ", \\\n  " : "") + curves[i];
  return script + "\n";
}

void plot_losses(std::span<const RunLog> runs, const std::filesystem::path& stem, const std::string& title) {
  struct Kind {
    const char *terminal, *suffix;
    std::string_view end;  ///< of every whole picture: the closing tag, the chunk IEND
  };
  for (const Kind& kind : {Kind{"svg", ".svg", "</svg>"}, Kind{"pngcairo", ".png", "IEND\xae\x42\x60\x82"}}) {
    const MemoryFile picture;
    run_gnuplot(gnuplot_script(runs, kind.terminal, picture.path(), title));
    const std::string content = picture.content();
    const std::string_view text = std::string_view(content).substr(0, content.find_last_not_of('\n') + 1);
    require(text.ends_with(kind.end), ExitCode::resource,
            "{}{}: gnuplot's picture ends after {} bytes, before its end; is there a limit for files "
            "(ulimit -f)?",
            stem.string(), kind.suffix, content.size());
    write_atomically(stem.string() + kind.suffix, content);
  }
}

std::string summary_table(std::span<const RunLog> runs) {
  std::size_t width = std::string_view("run").size();
  for (const auto& run : runs) width = std::max(width, run.name.size());
  std::string out = fmt::format("{:<{}}  {:>7}  {:>10}  {:>10}  {:>7}  {:>7}  {:>8}  {:>8}\n", "run", width,
                                "steps", "validation", "perplexity", "floor", "gap", "ms/step", "tok/s");
  for (const auto& run : runs) {
    const bool validated = !run.validation.empty();
    const double loss = validated ? run.validation.back().loss : NAN;
    const auto number = [](bool known, double value) {
      return known ? fmt::format("{:.4f}", value) : std::string("-");
    };
    out += fmt::format("{:<{}}  {:>7}  {:>10}  {:>10}  {:>7}  {:>7}  {:>8.1f}  {:>8.0f}\n", run.name, width,
                       run.train.back().step, number(validated, loss), number(validated, std::exp(loss)),
                       number(run.floor.has_value(), run.floor.value_or(0)),
                       number(validated && run.floor, loss - run.floor.value_or(0)), run.median_milliseconds,
                       run.median_tokens_per_second);
  }
  return out;
}

}  // namespace mxtape
