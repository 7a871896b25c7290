#pragma once
#include <map>
#include <vector>

#include "dist/communicator.h"
#include "dist/launch.h"
#include "dist/mpi/mpi_calls.h"
#include "dist/together.h"

namespace mxtape {

/// The module's table of MPI functions: libmxtape_mpi.so beside the program, or in ../lib/mxtape. Loaded for
/// as long as the process lives. Throws Error(usage) if there is none: a build without MPI.
const MxtapeMpi& load_mpi_module();

/// Both planes of a run over MPI, for devices whose memory is the host's. No call of MPI blocks: each is
/// asked whether it has ended until the deadline, after which the run ends with the names of those who are
/// missing.
class MpiGroup final : public Group, public Communicator {
 public:
  /// Throws Error(usage) if MPI knows another number of processes than the launcher's variables say: then
  /// they are another vendor's, and each process would train alone.
  MpiGroup(const MxtapeMpi&, const Launch&, double timeout_seconds);
  ~MpiGroup() override;
  MpiGroup(const MpiGroup&) = delete;

  const Place& place() const override { return place_; }
  std::string description() const override { return description_; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override;
  [[noreturn]] void abandon(ExitCode, std::string_view why) noexcept override;

  void start(int place, std::span<const Part> send, std::span<const Part> receive) override;
  void progress() override;
  void finish(int place) override;

 private:
  struct Operation {
    MxtapeMpiRequest* request;
    int rank;
  };
  void check(int error, const char* call) const;
  template <class Memory>
  using Operate = int (*)(Memory*, long bytes, int rank, int tag, MxtapeMpiRequest**);
  template <class Memory>
  void begin(Operate<Memory>, std::type_identity_t<Memory*> data, std::int64_t bytes, int rank, int tag,
             std::vector<Operation>&);
  /// Asks each whether it has ended, and forgets it then.
  void test(std::vector<Operation>&) const;
  void wait(std::vector<Operation>&, Patience, const std::string& what);
  /// Who is where: fills place_ and description_.
  void meet();

  const MxtapeMpi& mpi_;
  Place place_;
  std::vector<std::string> hosts_;  // by rank
  std::string description_;
  double timeout_;
  std::map<int, std::vector<Operation>> started_;  // by place
};

}  // namespace mxtape
