#pragma once
#include <span>
#include <string>

#include "core/tensor.h"

namespace mxtape {

class Backend;

/// A tensor that goes to a rank, or comes from it.
struct Part {
  int rank;
  Tensor data;
};

/// The device plane of a run on several devices. Moves tensors and adds nothing: the order of additions is
/// the run's own (train/devices/strand_sum.h).
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::string description() const = 0;
  /// Whose tensors it moves from now on; for devices that have queues of work.
  virtual void attach(Backend&) {}
  /// Every rank starts the same places in the same order, with parts that match: the i-th part to a rank is
  /// the i-th one that it receives from here, in size and type. What the device was asked for before is in
  /// what is sent. Memory stays untouched until finish(). Nothing is sent for no elements.
  virtual void start(int place, std::span<const Part> send, std::span<const Part> receive) = 0;
  /// Says that all which start_marked(place) will send is computed by what the device was asked for so far.
  /// Part of the device's work: where that is recorded and repeated (Backend::repeat), so is the mark. True
  /// if the device has done that work, as one whose memory is the host's: then start() need not wait for the
  /// end of the others'.
  virtual bool mark([[maybe_unused]] int place) { return true; }
  /// start() of what was computed when the device last came to mark(place). Later work is not waited for, and
  /// touches nothing of what is sent or received.
  virtual void start_marked(int place, std::span<const Part> send, std::span<const Part> receive) {
    start(place, send, receive);
  }
  /// For bytes that the host moves: moves what can be moved now, of all that was started. Does not wait. A
  /// peer that is lost is seen in finish().
  virtual void progress() {}
  /// The device's later work sees what came. A GPU's host does not wait, a CPU's does. Throws Error(peer).
  virtual void finish(int place) = 0;
  /// What was started and finished has really ended, so that the host may wait for the device: where a lost
  /// peer is seen. Throws Error(peer), or ends all processes.
  virtual void settle() {}
};

}  // namespace mxtape
