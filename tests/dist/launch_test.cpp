#include "dist/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "core/error.h"

namespace mxtape {
namespace {

using Environment = std::map<std::string, std::string>;

Variables variables(const Environment& environment) {
  return [&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

/// "size launcher", or the error.
std::string told(const Environment& environment) {
  try {
    const Launch l = read_launch(variables(environment));
    return fmt::format("{}{}{}{}", l.size, l.launcher.empty() ? "" : " ", l.launcher,
                       l.note.empty() ? "" : ", note");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return std::string("error: ") + e.what();
  }
}

Environment open_mpi(const std::string& rank, const std::string& size) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", size},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
}
Environment mpich(const std::string& rank, const std::string& size) {
  return {{"PMI_RANK", rank},
          {"PMI_SIZE", size},
          {"MPI_LOCALRANKID", "0"},
          {"MPI_LOCALNRANKS", "2"},
          {"PMI_FD", "5"}};
}
Environment torchrun(const std::string& rank, const std::string& size) {
  return {{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", "3"}, {"MASTER_ADDR", "node1"}};
}
Environment srun(const std::string& rank, const std::string& size) {
  return {
      {"SLURM_PROCID", rank}, {"SLURM_STEP_NUM_TASKS", size}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", size}};
}
Environment with(Environment all, const Environment& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}
Environment without(Environment all, const char* name) {
  all.erase(name);
  return all;
}

TEST(Launch, EachLaunchersVariablesSayHowMany) {
  const Environment pmix{{"PMIX_RANK", "5"}};
  const std::pair<Environment, const char*> cases[] = {
      {{}, "1"},
      {open_mpi("3", "4"), "4 Open MPI's mpirun"},
      {open_mpi("0", "1"), "1 Open MPI's mpirun"},
      {mpich("1", "4"), "4 MPICH's mpirun"},
      {mpich("0", "1"), "1 MPICH's mpirun"},
      {srun("0", "1"), "1 srun"},
      {with(srun("5", "16"), pmix), "16 srun"},
      {with(srun("3", "4"), {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}}), "4 srun"},
      {with(srun("0", "1"), {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMI_FD", "7"}}), "1 srun"},
      {{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}, "1, note"},
      {{{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}, "1"},
      // The innermost launcher's.
      {with(srun("0", "2"), open_mpi("2", "4")), "4 Open MPI's mpirun"},
      {with(srun("1", "2"), mpich("1", "2")), "2 MPICH's mpirun"},
  };
  for (const auto& [environment, want] : cases) EXPECT_EQ(told(environment), want);
}

TEST(Launch, ProcessesThatCannotFindEachOtherAreRefusedWithWhatWouldDo) {
  const auto says = [](const std::string& text, const char* part) {
    return text.starts_with("error: ") && text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(told(srun("5", "16")), "want srun --mpi=pmix"));
  EXPECT_TRUE(says(told(torchrun("11", "16")), "RANK=11 and WORLD_SIZE=16, as torchrun sets them"));
  EXPECT_TRUE(says(told(torchrun("0", "16")), "Say --devices 16 without torchrun"));
  for (const auto& around : {open_mpi("0", "2"), mpich("0", "2"), srun("0", "2")})
    EXPECT_TRUE(says(told(with(around, torchrun("2", "4"))), "as torchrun sets them"));
  EXPECT_EQ(told(torchrun("0", "1")), "1");
  EXPECT_EQ(told({{"RANK", "3"}}), "1");
}

TEST(Launch, HalfOfAPairIsRefusedWithWhatIsMissing) {
  for (const auto& [all, missing] :
       {std::pair(open_mpi("1", "2"), "OMPI_COMM_WORLD_RANK"),
        std::pair(open_mpi("1", "2"), "OMPI_COMM_WORLD_SIZE"), std::pair(mpich("1", "2"), "PMI_RANK"),
        std::pair(mpich("1", "2"), "PMI_SIZE"), std::pair(srun("1", "2"), "SLURM_PROCID")}) {
    const std::string text = told(without(all, missing));
    EXPECT_NE(text.find(fmt::format("and {} is not set; want both", missing)), std::string::npos) << text;
  }
  EXPECT_EQ(
      told({{"OMPI_COMM_WORLD_RANK", "3"}}),
      "error: Open MPI's mpirun has set OMPI_COMM_WORLD_RANK, and OMPI_COMM_WORLD_SIZE is not set; want "
      "both, or none: unset what is left over from elsewhere");
}

TEST(Launch, TheRankIsNamedForErrors) {
  const Environment none;
  EXPECT_EQ(named_rank(variables(none)), 0);
  const Environment cases[] = {open_mpi("3", "x"), mpich("3", "4"), torchrun("3", "4"), srun("3", "4")};
  for (const Environment& environment : cases) EXPECT_EQ(named_rank(variables(environment)), 3);
  for (const Environment& left_over : {Environment{{"RANK", "3"}}, torchrun("3", "1")})
    EXPECT_EQ(named_rank(variables(left_over)), 0) << "read_launch() sees one process";
  EXPECT_EQ(named_rank(variables(with(open_mpi("2", "4"), {{"RANK", "3"}}))), 2);
}

TEST(Launch, NumbersThatDoNotFitAreRefused) {
  const Environment cases[] = {open_mpi("4", "4"),          open_mpi("-1", "4"), open_mpi("0", "0"),
                               open_mpi("1x", "4"),         open_mpi("", "4"),   open_mpi("1", " 4"),
                               open_mpi("1", "four"),       mpich("2", "2"),     srun("3", "3"),
                               open_mpi("99999999999", "4")};
  for (const Environment& environment : cases) {
    const std::string text = told(environment);
    EXPECT_EQ(text.substr(0, 6), "error:") << text;
    EXPECT_NE(text.find("want a whole number in ["), std::string::npos) << text;
  }
}

TEST(PeerTimeout, IsAWholeNumberOfSeconds) {
  const Environment none;
  EXPECT_EQ(peer_timeout(variables(none)), 300);
  const Environment ten{{"MXTAPE_PEER_TIMEOUT", "10"}};
  EXPECT_EQ(peer_timeout(variables(ten)), 10);
  for (const char* bad : {"0", "-1", "1.5", "", "5s", "99999999"}) {
    const Environment environment{{"MXTAPE_PEER_TIMEOUT", bad}};
    EXPECT_THROW(peer_timeout(variables(environment)), Error) << bad;
  }
}

}  // namespace
}  // namespace mxtape
