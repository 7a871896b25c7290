#pragma once
#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

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
  int on(int count, const Words& words) {
    Program program(folder_.path(), ranks(count, words), {}, mpirun());
    const int code = program.wait();
    output_ = program.output();
    return code;
  }

  /// Processes of the program that mpirun has started, by rank; waits until there are so many.
  static std::vector<pid_t> processes_of(const Program& mpirun, std::size_t count) {
    for (;;) {
      std::map<int, pid_t> found;
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const pid_t pid = std::atoi(entry.path().filename().c_str());
        if (pid <= 0) continue;
        const std::string environment = read_proc(pid, "environ"), words = read_proc(pid, "cmdline");
        if (words.find(MXTAPE_PROGRAM) != 0 || !descends(pid, mpirun.pid())) continue;
        for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
          if (const auto at = environment.find(name); at != std::string::npos)
            found[std::atoi(environment.c_str() + at + std::string(name).size())] = pid;
      }
      std::vector<pid_t> all;
      for (const auto& [rank, pid] : found) all.push_back(pid);
      if (all.size() == count || !mpirun.running()) return all;
      ::usleep(2000);
    }
  }

 private:
  static std::string read_proc(pid_t pid, const char* name) {
    std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static bool descends(pid_t pid, pid_t from) {
    for (int i = 0; i < 5 && pid > 1; ++i) {
      if (pid == from) return true;
      const std::string stat = read_proc(pid, "stat");
      const auto end = stat.rfind(')');
      if (end == std::string::npos) return false;
      std::istringstream fields(stat.substr(end + 1));
      std::string state;
      fields >> state >> pid;
    }
    return false;
  }
};

}  // namespace mxtape::test
