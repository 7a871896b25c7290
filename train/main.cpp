#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>

#include "core/error.h"
#include "train/command.h"

/// The `mxtape` program: one sub-command per command_<name>.cpp. Exit codes: docs/exit_codes.md.
int main(int argc, char** argv) {
  using namespace mxtape;
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error to report, as a full disk is
  CLI::App app{"mxtape trains GPT models in microscaling (MX) formats"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MXTAPE_VERSION);
  add_train_command(app);
  add_check_command(app);
  add_sample_command(app);
  add_eval_command(app);
  add_plot_command(app);
  add_prepare_command(app);
  add_corpus_command(app);
  add_formats_command(app);
  add_compare_command(app);
  add_quantize_command(app);
  add_conformance_command(app);
  add_recipes_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : int(ExitCode::usage);
  } catch (const Error& e) {
    std::fprintf(stderr, "mxtape: %s\n", e.what());
    return int(e.code());
  } catch (const std::filesystem::filesystem_error& e) {
    std::fprintf(stderr, "mxtape: %s\n", e.what());
    return int(ExitCode::resource);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "mxtape: out of memory\n");
    return int(ExitCode::resource);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mxtape: unexpected: %s\n", e.what());
    return int(ExitCode::internal);
  }
  return 0;
}
