#pragma once
#include <cstdlib>

#include "tests/program/devices/shared_program.h"

namespace mxtape::test {

/// `mpirun -n N mxtape ...`: Open MPI's or MPICH's, whichever the module was built with.
class Mpirun : public SharedProgram {
 protected:
  Mpirun() {
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);                   // up to Open MPI 4
    ::setenv("PRTE_MCA_rmaps_default_mapping_policy", ":OVERSUBSCRIBE", 1);  // since 5
    ::setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);  // containers often forbid it
  }
  void SetUp() override {
#ifndef MXTAPE_MPIRUN
    GTEST_SKIP() << "built without MPI: there is no mpirun to test with";
#endif
  }

#ifdef MXTAPE_MPIRUN
  static std::string mpirun() { return MXTAPE_MPIRUN; }
#else
  static std::string mpirun() { return "mpirun"; }
#endif
  static Words ranks(int count, const Words& words) {
    Words all{"-n", std::to_string(count), MXTAPE_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  int on(int count, const Words& words) { return under(ranks(count, words)); }
  /// One process for each, which need not have the same words; `before`: of env, in front of the second's.
  int on_two(const Words& first, const Words& before, const Words& second) {
    Words all{"-n", "1", MXTAPE_PROGRAM};
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), {":", "-n", "1", "/usr/bin/env"});
    all.insert(all.end(), before.begin(), before.end());
    all.push_back(MXTAPE_PROGRAM);
    all.insert(all.end(), second.begin(), second.end());
    return under(all);
  }
  int under(const Words& words) {
    Program program(folder_.path(), words, {}, mpirun());
    const int code = program.wait();
    output_ = program.output();
    return code;
  }

  static std::vector<pid_t> processes_of(const Program& mpirun, std::size_t count) {
    return SharedProgram::processes_of(mpirun, count, [&](pid_t pid) -> std::optional<int> {
      if (read_proc(pid, "cmdline").find(MXTAPE_PROGRAM) != 0 || !descends(pid, mpirun.pid())) return {};
      const std::string environment = read_proc(pid, "environ");
      for (const std::string name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
        if (const auto at = environment.find(name); at != std::string::npos)
          return std::atoi(environment.c_str() + at + name.size());
      return {};
    });
  }

 private:
  static bool descends(pid_t pid, pid_t from) {
    for (int i = 0; i < 5 && pid > 1; ++i, pid = parent_of(pid))
      if (pid == from) return true;
    return false;
  }
};

}  // namespace mxtape::test
