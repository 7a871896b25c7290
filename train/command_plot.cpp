#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "train/command.h"
#include "train/plot.h"

namespace mxtape {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string output = "loss", title;
};

void run(const Arguments& arguments) {
  const std::filesystem::path output = arguments.output;
  require(output.has_filename() && output.filename() != "." && output.filename() != ".." &&
              !output.string().ends_with(".svg") && !output.string().ends_with(".png"),
          ExitCode::usage, "--out '{}': want the name of the files without .svg and .png, such as loss",
          arguments.output);
  std::vector<RunLog> runs;
  for (const auto& path : arguments.runs) runs.push_back(read_run_log(path));
  // The table first: it needs no gnuplot.
  fmt::print("{}\n", summary_table(runs));
  plot_losses(runs, arguments.output, arguments.title);
  fmt::print("wrote {0}.svg and {0}.png\n", arguments.output);
}

}  // namespace

void add_plot_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("plot", "Loss curves of runs as SVG and PNG, and a table of their results");
  auto a = std::make_shared<Arguments>();
  command->add_option("runs", a->runs, "run folders, or their metrics.jsonl")->required();
  command->add_option("--out", a->output, "files without .svg and .png")->capture_default_str();
  command->add_option("--title", a->title, "printed above the curves");
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
