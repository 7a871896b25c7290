#pragma once
#include <nlohmann/json.hpp>

#include "tests/program/program_fixture.h"

namespace mxtape::test {

using Json = nlohmann::json;

class SweepCommand : public ProgramTest {
 protected:
  SweepCommand() { write_sweep("f32", 12); }

  /// Three arms on tiny.toml; the baseline is `first`.
  void write_sweep(const std::string& first, int steps, const std::string& more = "") const {
    write_atomically(folder_ / "ask.toml",
                     fmt::format("base = \"tiny.toml\"\nbaseline = \"{}\"\nseeds = 2\ntolerance = 0.5\n"
                                 "[set]\ntrain.steps = {}\ntrain.eval_every = 4\n"
                                 "[[arm]]\nname = \"f32\"\nrecipe = \"f32.toml\"\n"
                                 "[[arm]]\nname = \"4 bit\"\n"
                                 "[[arm]]\nname = \"nearest\"\nset.precision.gradients = \"mxfp4\"\n{}",
                                 first, steps, more));
    write_atomically(folder_ / "f32.toml",
                     "[precision]\nweights = \"f32\"\nactivations = \"f32\"\ngradients = \"f32\"\n");
  }
  /// Two arms; the first has other GEMMs than the baseline, which cannot take them.
  void write_sweep_of_two_gemms() const {
    write_atomically(folder_ / "shared.toml",
                     std::string("[[precision.rules]]\nlayers = \"blocks.*\"\nslots = [\"dgrad.source\"]\n"
                                 "format = \"source=shared\"\n"));
    write_atomically(folder_ / "gemms.toml",
                     std::string("base = \"tiny.toml\"\nbaseline = \"shared\"\nseeds = 1\ntolerance = 0.5\n"
                                 "[[arm]]\nname = \"codes\"\nset.compute.gemm = \"integer\"\n"
                                 "[[arm]]\nname = \"shared\"\nrecipe = \"shared.toml\"\n"));
  }
  Json results(const std::string& out = "runs/ask") const {
    return Json::parse(read_whole_text(folder_ / out / "results.json"));
  }
  /// An arm of a sweep with one point and one stage, with its runs and their times, and its gap or null.
  static Json arm(const Json& results, const std::string& name) {
    const Json& arms = results.at("arms");
    std::size_t index = 0;
    while (arms.at(index).at("name") != name) ++index;
    Json arm = arms[index];
    for (std::size_t i = 0; i < results.at("runs").size(); ++i) {
      if (results["runs"][i].at("arm") != index) continue;
      Json run = results["runs"][i];
      run.update(results.at("times").at("runs").at(i));
      arm["runs"].push_back(run);
    }
    arm["gap"] = nullptr;
    for (const Json& gap : results.at("gaps"))
      if (gap.at("arm") == index) arm["gap"] = gap.at("gap"), arm["gap"].update(gap);
    return arm;
  }
  /// All losses, by arm and seed.
  static std::vector<double> losses(const Json& results) {
    std::vector<double> all;
    for (const Json& run : results.at("runs")) all.push_back(run.at("loss").get<double>());
    return all;
  }
};

}  // namespace mxtape::test
