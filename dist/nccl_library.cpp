#include <dlfcn.h>

#include <string>

#include "core/error.h"
#include "dist/nccl_calls.h"

namespace mxtape {
namespace {

constexpr int oldest = 21800;
constexpr const char* remedy =
    "install NCCL 2.18 or newer for this CUDA (Debian and Ubuntu: libnccl2; PyPI: nvidia-nccl-cu12 or -cu13, "
    "its "
    "lib folder in LD_LIBRARY_PATH), or train on one GPU";

std::string version_text(int v) { return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100); }

}  // namespace

NcclCalls load_nccl(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, ExitCode::resource,
          "several GPUs exchange by NCCL, and {} cannot be loaded: {}; {}", file, library ? "" : ::dlerror(),
          remedy);
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(library, name));
    require(function != nullptr, ExitCode::resource, "{}: has no function {}; {}", file, name, remedy);
  };
  NcclCalls calls{};
  find(calls.get_version, "ncclGetVersion");
  int version = 0;
  calls.get_version(&version);
  require(version >= oldest, ExitCode::resource, "{}: is NCCL {}; want {} or newer: {}", file,
          version_text(version), version_text(oldest), remedy);
  find(calls.get_unique_id, "ncclGetUniqueId");
  find(calls.init, "ncclCommInitRankConfig");
  find(calls.async_error, "ncclCommGetAsyncError");
  find(calls.finalize, "ncclCommFinalize");
  find(calls.destroy, "ncclCommDestroy");
  find(calls.abort, "ncclCommAbort");
  find(calls.group_start, "ncclGroupStart");
  find(calls.group_end, "ncclGroupEnd");
  find(calls.send, "ncclSend");
  find(calls.receive, "ncclRecv");
  find(calls.error, "ncclGetErrorString");
  find(calls.last_error, "ncclGetLastError");
  return calls;
}

}  // namespace mxtape
