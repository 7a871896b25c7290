#include <cstdlib>
#include <cstring>

#include "tests/support/lockstep/lockstep.h"

// The CUDA runtime on the host, but for streams.cpp: memory is malloc's.

const char* cudaGetErrorName(cudaError_t e) { return e == cudaSuccess ? "cudaSuccess" : "cudaError"; }
const char* cudaGetErrorString(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "out of memory" : "error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* name, int size, int) {
  return std::strncpy(name, "lockstep", std::size_t(size)), cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"lockstep on the host", 9, 0, 2, std::size_t{1} << 34, 232448};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = 13000, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  return *free_bytes = *total = std::size_t{1} << 34, cudaSuccess;
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  constexpr std::size_t granule = 256;
  *p = std::aligned_alloc(granule, (bytes + granule - 1) / granule * granule);
  if (!*p) return cudaErrorMemoryAllocation;
  std::memset(*p, 0xff, bytes);  // NaN: what is read before it is written shows
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) { return std::free(p), cudaSuccess; }
cudaError_t cudaMallocHost(void** p, std::size_t bytes) { return cudaMalloc(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return cudaFree(p); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t s) {
  mxtape::lockstep::host::enqueue(s, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t s) {
  mxtape::lockstep::host::enqueue(s, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t g, unsigned long long) {
  return *exec = new LockstepWork(*g), cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) { return delete g, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) { return delete g, cudaSuccess; }
