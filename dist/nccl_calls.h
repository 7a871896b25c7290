#pragma once
#include <cstddef>

namespace mxtape {

/// What mxtape asks of NCCL, as a table of the functions of its public C interface, with the types and
/// numbers that these have had since NCCL 2.18: the program is built without NCCL's headers, and loads the
/// library only where several GPUs train together.
struct NcclComm;  ///< ncclComm
struct NcclId {   ///< ncclUniqueId
  char bytes[128];
};
/// ncclConfig_t of 2.18. NCCL reads `size` bytes, and takes its own defaults for what was added later.
struct NcclConfig {
  static constexpr int undefined = -2147483647 - 1;
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = undefined;
  int cga_cluster_size = undefined, min_ctas = undefined, max_ctas = undefined;
  const char* net_name = nullptr;
  int split_share = undefined;
};
enum NcclResult : int { nccl_success = 0, nccl_invalid_usage = 5, nccl_in_progress = 7 };
inline constexpr int nccl_bytes = 1;  ///< ncclUint8

struct NcclCalls {
  int (*get_version)(int* version);
  int (*get_unique_id)(NcclId*);
  int (*init)(NcclComm**, int ranks, NcclId, int rank, NcclConfig*);  ///< ncclCommInitRankConfig
  int (*async_error)(NcclComm*, int* result);
  int (*finalize)(NcclComm*);
  int (*destroy)(NcclComm*);
  int (*abort)(NcclComm*);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, std::size_t count, int type, int to, NcclComm*, void* stream);
  int (*receive)(void*, std::size_t count, int type, int from, NcclComm*, void* stream);
  const char* (*error)(int result);
  const char* (*last_error)(NcclComm*);  ///< a sentence, or ""
};

/// Loads the library, by default where the system finds it, for as long as the process lives. Throws
/// Error(resource) if it is not there, if it lacks one of the functions, or if it is older than 2.18.
NcclCalls load_nccl(const char* file = "libnccl.so.2");

}  // namespace mxtape
