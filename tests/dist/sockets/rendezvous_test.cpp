#include "dist/sockets/rendezvous.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace mxtape {
namespace {

using Environment = std::map<std::string, std::string>;

Rendezvous rendezvous_of(const Environment& environment) {
  const Variables variables = [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  return read_rendezvous(read_launch(variables), variables);
}

std::string error_of(const Environment& environment) {
  try {
    rendezvous_of(environment);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "";
}

Environment torchrun(const std::string& address, const std::string& port, const std::string& local = "2") {
  return {{"RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", local},
          {"MASTER_ADDR", address},
          {"MASTER_PORT", port},
          {"TORCHELASTIC_RUN_ID", "none"}};
}
Environment srun(const std::string& hosts, const std::string& job = "77", const std::string& step = "0") {
  return {{"SLURM_PROCID", "1"},        {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "0"},
          {"SLURM_JOB_ID", job},        {"SLURM_STEP_ID", step},       {"SLURM_STEP_NODELIST", hosts},
          {"SLURM_STEP_NUM_NODES", "2"}};
}
Environment with(Environment all, const char* name, const std::string& value) {
  all[name] = value;
  return all;
}
Environment without(Environment all, const char* name) {
  all.erase(name);
  return all;
}

TEST(Rendezvous, TorchrunsAddressIsTakenAndThePortsBesideItsOwn) {
  const Rendezvous at = rendezvous_of(torchrun("node1", "29500"));
  EXPECT_EQ(at.host, "node1");
  EXPECT_EQ(at.first_port, 29501);
  EXPECT_FALSE(at.one_host);
  const Rendezvous high = rendezvous_of(torchrun("node1", "65530"));
  EXPECT_LE(high.first_port + Rendezvous::ports, 65530);
}

TEST(Rendezvous, ProcessesOfOneHostStayOnItsLoopback) {
  const Rendezvous all_here = rendezvous_of(torchrun("node1", "29500", "4"));
  EXPECT_TRUE(all_here.one_host);
  EXPECT_EQ(all_here.host, "");
  for (const char* address : {"127.0.0.1", "::1", "localhost"}) {
    const Rendezvous at = rendezvous_of(torchrun(address, "29500"));
    EXPECT_TRUE(at.one_host);
    EXPECT_EQ(at.host, address);
  }
}

TEST(Rendezvous, SrunsFirstHostIsTakenAndPortsOfJobAndStep) {
  const Rendezvous at = rendezvous_of(srun("node[03-04]"));
  EXPECT_EQ(at.host, "node03");
  EXPECT_FALSE(at.one_host);
  std::set<int> ports;
  for (int job = 0; job < 100; ++job) {
    const int port = rendezvous_of(srun("node1", std::to_string(job))).first_port;
    EXPECT_GE(port, 20480);
    EXPECT_LE(port + Rendezvous::ports, 28672);
    EXPECT_EQ((port - 20480) % Rendezvous::ports, 0);
    ports.insert(port);
  }
  EXPECT_GT(ports.size(), 70u);  // 100 of 512 ranges: about 91 differ
  EXPECT_EQ(rendezvous_of(with(srun("node1"), "SLURM_STEP_NUM_NODES", "1")).host, "");
}

TEST(Rendezvous, RunsThatDifferInAnythingHaveTokensOfTheirOwn) {
  const std::uint64_t tokens[] = {
      rendezvous_of(torchrun("node1", "29500")).token,
      rendezvous_of(torchrun("node1", "29501")).token,
      rendezvous_of(with(torchrun("node1", "29500"), "TORCHELASTIC_RUN_ID", "other")).token,
      rendezvous_of(with(torchrun("node1", "29500"), "MXTAPE_RUN_ID", "mine")).token,
      rendezvous_of(srun("node1")).token,
      rendezvous_of(srun("node1", "78")).token,
      rendezvous_of(srun("node1", "77", "1")).token,
  };
  EXPECT_EQ(std::set<std::uint64_t>(std::begin(tokens), std::end(tokens)).size(), std::size(tokens));
  // Whatever ranks have for themselves is in none.
  EXPECT_EQ(rendezvous_of(with(torchrun("node1", "29500"), "RANK", "0")).token, tokens[0]);
  EXPECT_EQ(rendezvous_of(torchrun("localhost", "29500")).token, tokens[0]);
}

TEST(Rendezvous, WhatIsMissingOrNoPortIsNamed) {
  for (const char* name : {"MASTER_PORT"})
    EXPECT_NE(error_of(without(torchrun("node1", "29500"), name)).find(name), std::string::npos);
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID"})
    EXPECT_NE(error_of(without(srun("node1"), name)).find(name), std::string::npos);
  for (const char* port : {"0", "-1", "65536", "http", "80 ", ""})
    EXPECT_NE(error_of(torchrun("node1", port)).find("MASTER_PORT"), std::string::npos) << port;
}

TEST(FirstHost, OfSlurmsListsIsFound) {
  const std::pair<const char*, const char*> cases[] = {
      {"node1", "node1"},         {"node1,node2", "node1"},       {"node[01-04,07]", "node01"},
      {"node[7,01-04]", "node7"}, {"rack[1-2]n[3-4]", "rack1n3"}, {"gpu-[003-010]-ib,login", "gpu-003-ib"},
      {"node[5]", "node5"},
  };
  for (const auto& [list, want] : cases) EXPECT_EQ(first_host(list), want);
  for (const char* bad : {"", ",", "[", "node[1-2", "[]"}) EXPECT_THROW(first_host(bad), Error) << bad;
}

}  // namespace
}  // namespace mxtape
