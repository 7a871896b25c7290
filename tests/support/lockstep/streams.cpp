#include "tests/support/lockstep/streams.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "tests/support/lockstep/lockstep.h"

// Streams and events: each stream is a queue; what is done when is set_side_work()'s choice.
namespace mxtape::lockstep::host {
namespace {

SideWork side_work = SideWork::at_once;

std::vector<cudaStream_t>& streams() {
  static std::vector<cudaStream_t> all;
  return all;
}

/// Does the stream's work up to number `last`, and what that waits for. False: something has not ended yet.
bool run(cudaStream_t s, std::uint64_t last) {
  while (s->done < last && !s->queue.empty()) {
    if (s->busy) return false;  // with what is waited for by others, who ask in between
    s->busy = true;
    bool ended = false;
    try {
      ended = s->queue.front()();
    } catch (...) {
      s->busy = false;
      s->queue.pop_front(), ++s->done;
      throw;
    }
    s->busy = false;
    if (!ended) return false;
    s->queue.pop_front(), ++s->done;
  }
  return true;
}

void wait_for(cudaStream_t s, std::uint64_t last) {
  while (!run(s, last)) ::sched_yield();
}

bool alive(cudaStream_t s) { return std::find(streams().begin(), streams().end(), s) != streams().end(); }

}  // namespace

void set_side_work(SideWork when) { side_work = when; }

void enqueue(cudaStream_t s, std::function<void()> work) {
  if (!s) return work();  // the default stream: at once
  if (s->capture) return s->capture->calls.push_back({std::move(work)});
  enqueue_until(s, [work = std::move(work)] { return work(), true; });
}

void enqueue_until(cudaStream_t s, std::function<bool()> ended) {
  mxtape::require(!s->capture, "lockstep: work that ends by itself cannot be recorded");
  s->queue.push_back(std::move(ended));
  ++s->asked;
  if (!s->lazy) run(s, s->asked);
}

}  // namespace mxtape::lockstep::host

using namespace mxtape::lockstep::host;

static cudaError_t make_stream(cudaStream_t* s, bool side) {
  *s = new LockstepStream;
  (*s)->lazy = side_work != SideWork::at_once && side == (side_work == SideWork::late);
  streams().push_back(*s);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return make_stream(s, false); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int) { return make_stream(s, true); }
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = 0, *highest = -1, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  std::erase(streams(), s);  // what is still to do there is nobody's any more
  return delete s, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (s->capture) return cudaErrorInvalidValue;
  return wait_for(s, s->asked), cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) { return run(s, s->asked) ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaDeviceSynchronize() {
  for (const cudaStream_t s : streams()) wait_for(s, s->asked);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return *e = new LockstepEvent, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t e) { return delete e, cudaSuccess; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
  if ((s->capture != nullptr) != (flags == cudaEventRecordExternal)) return cudaErrorInvalidValue;
  if (s->capture) return s->capture->calls.push_back({{}, e}), cudaSuccess;
  return *e = {s, s->asked}, cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (e->stream && alive(e->stream)) wait_for(e->stream, e->last);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  if (s->capture) return cudaErrorInvalidValue;
  enqueue_until(s, [before = *e] {
    return !before.stream || !alive(before.stream) || run(before.stream, before.last);
  });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  return s->capture = new LockstepWork, cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  return *status = s->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  return *g = std::exchange(s->capture, nullptr), cudaSuccess;
}
// Work of its own for each call, so that an event in the graph is one between two of them. A launch records
// it for who waits from then on.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  for (const LockstepCall& call : exec->calls) {
    if (call.records)
      *call.records = {s, s->asked};
    else
      enqueue(s, call.work);
  }
  return cudaSuccess;
}
