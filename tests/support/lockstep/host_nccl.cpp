#include "tests/support/host_nccl.h"

#include <memory>

#include "core/error.h"
#include "tests/support/lockstep/lockstep.h"

namespace mxtape {

struct NcclComm {
  int rank = 0, size = 0;
  int depth = 0;  // of groups
  int polls = 0;  // until what was begun is no longer in progress
  int failed = nccl_success;
  std::string why;
  bool finalized = false;
};

namespace test {
namespace {

struct Operation {
  void* data;
  std::size_t bytes;
  int rank;
  bool sends;
};

std::unique_ptr<Mail> mail;
NcclComm comm;
std::vector<Operation> group;
HostNcclCount count;

int fail_with(const std::string& why) {
  if (comm.failed == nccl_success) comm.failed = nccl_invalid_usage, comm.why = why;
  return nccl_invalid_usage;
}
int begin() { return comm.polls = 2, nccl_in_progress; }

int get_version(int* version) { return *version = 22800, nccl_success; }
int get_unique_id(NcclId* id) {
  for (std::size_t i = 0; i < sizeof id->bytes; ++i) id->bytes[i] = char(7 * i + 1);
  return nccl_success;
}
int init(NcclComm** made, int ranks, NcclId id, int rank, NcclConfig* config) {
  comm = {.rank = rank, .size = ranks, .why = ""};
  *made = &comm;
  if (config->size != sizeof(NcclConfig) || config->magic != 0xcafebeef || config->blocking != 0)
    return fail_with("the config is not one");
  for (int other = 0; other < ranks; ++other)
    if (other != rank) mail->post(other, id.bytes, sizeof id.bytes);
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    std::optional<std::string> theirs;
    while (!(theirs = mail->take(other)) && !mail->gone(other)) mail->pump();
    if (!theirs || *theirs != std::string(id.bytes, sizeof id.bytes)) return fail_with("another id");
  }
  return begin();
}
int async_error(NcclComm*, int* result) {
  if (comm.depth > 0) fail_with("a group was started, and is not ended");
  *result = comm.failed != nccl_success ? comm.failed : comm.polls > 0 ? --comm.polls,
  int(nccl_in_progress) : int(nccl_success);
  return nccl_success;
}
int finalize(NcclComm*) {
  if (comm.depth > 0 || comm.finalized) return fail_with("finalized in a group, or twice");
  return comm.finalized = true, begin();
}
int destroy(NcclComm*) { return comm.finalized ? int(nccl_success) : fail_with("destroyed, not finalized"); }
int abort_all(NcclComm*) { return nccl_success; }

/// The work of a group, each time its stream asks: true when all has come and gone.
class Exchange {
 public:
  explicit Exchange(std::vector<Operation> all) : all_(std::move(all)) {}
  bool ended() {
    if (!begun_) send();
    begun_ = true;
    mail->pump();
    bool waits = false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      Operation& wanted = all_[i];
      bool in_turn = true;  // the i-th message from a rank is the i-th that is wanted from it
      for (std::size_t k = 0; k < i; ++k)
        in_turn = in_turn && (all_[k].sends || all_[k].rank != wanted.rank || all_[k].data == nullptr);
      if (wanted.sends || wanted.data == nullptr) continue;
      const auto message = in_turn ? mail->take(wanted.rank) : std::nullopt;
      waits = waits || !message;
      if (!message) continue;
      if (message->size() != wanted.bytes) {
        fail_with(fmt::format("rank {} sends {} bytes, rank {} wants {}", wanted.rank, message->size(),
                              comm.rank, wanted.bytes));
        return false;
      }
      std::memcpy(wanted.data, message->data(), wanted.bytes);
      wanted.data = nullptr;
    }
    return !waits && mail->flushed();
  }

 private:
  void send() {
    ++count.exchanges;
    for (const Operation& operation : all_)
      if (operation.sends) {
        mail->post(operation.rank, operation.data, operation.bytes);
        ++count.messages, count.bytes += std::int64_t(operation.bytes);
      }
  }
  std::vector<Operation> all_;
  bool begun_ = false;
};

cudaStream_t stream_of_group;

int group_start() { return ++comm.depth, nccl_success; }
int group_end() {
  if (comm.depth == 0) return fail_with("a group is ended that was not started");
  if (--comm.depth > 0 || group.empty()) return nccl_success;
  lockstep::host::enqueue_until(
      stream_of_group,
      [exchange = std::make_shared<Exchange>(std::exchange(group, {}))] { return exchange->ended(); });
  return begin();
}
int add(const Operation& operation, int type, void* stream) {
  if (comm.depth == 0) return fail_with("a message outside of a group, which would wait for its peer");
  if (type != nccl_bytes) return fail_with("a message that is not of bytes");
  if (operation.rank == comm.rank || operation.rank < 0 || operation.rank >= comm.size)
    return fail_with("a message to no other rank");
  stream_of_group = static_cast<cudaStream_t>(stream);
  group.push_back(operation);
  return nccl_success;
}
int send(const void* data, std::size_t bytes, int type, int to, NcclComm*, void* stream) {
  return add({const_cast<void*>(data), bytes, to, true}, type, stream);
}
int receive(void* data, std::size_t bytes, int type, int from, NcclComm*, void* stream) {
  return add({data, bytes, from, false}, type, stream);
}
const char* error(int result) {
  return result == nccl_invalid_usage ? "invalid usage" : result == nccl_success ? "no error" : "error";
}
const char* last_error(NcclComm*) { return comm.why.c_str(); }

}  // namespace

NcclCalls host_nccl(const std::vector<int>& sockets) {
  mail = std::make_unique<Mail>(sockets);
  return {get_version, get_unique_id, init, async_error, finalize, destroy,   abort_all,
          group_start, group_end,     send, receive,     error,    last_error};
}

HostNcclCount host_nccl_count() { return count; }

}  // namespace test
}  // namespace mxtape
