#pragma once
#include <cstddef>
#include <functional>

#include "cuda_runtime.h"

/// Runs CUDA kernels on the host, one thread of a block at a time, so that their logic is tested where there
/// is no GPU: every thread is a fiber that runs up to the next call that needs others (a barrier, a shuffle,
/// a matrix product) and waits there. What a real GPU would get wrong without a word is an error here: a warp
/// whose lanes do not all come to the same call, threads that end while others wait for them, reads of memory
/// that nobody wrote (it is filled with NaN), races (races.h). Threads run in ascending or, with the
/// environment variable MXTAPE_LOCKSTEP=reverse, in descending order. Speed, memory limits and rounding
/// inside of tensor cores are not modelled.
namespace mxtape::lockstep::host {

/// A call that a warp makes together: each lane leaves `bytes` bytes, at most 64, and gets all 32 lanes' once
/// every lane has called; `call` names it, and must be the same in all lanes. The result is valid until the
/// lane's next call.
const unsigned char* exchange(const char* call, const void* mine, std::size_t bytes);
inline constexpr std::size_t exchange_stride = 64;

void block_barrier();

unsigned char* dynamic_shared_memory();

/// Errors that name `call`: an instruction for one kind of memory at an address of another. Shared is the
/// block's dynamic memory and the program's static variables, local the threads' stacks, global all else.
void require_global(const char* call, const void* address);
void require_shared(const char* call, const void* address);

/// Runs `thread` for every thread of every block.
void run_grid(const char* name, dim3 grid, unsigned threads, std::size_t shared_bytes,
              const std::function<void()>& thread);

/// Work of a stream: done when streams.h says, or kept while the stream is being captured.
void enqueue(cudaStream_t, std::function<void()> work);
/// Work that is asked again and again whether it has ended, which it may do by itself.
void enqueue_until(cudaStream_t, std::function<bool()> ended);

}  // namespace mxtape::lockstep::host
