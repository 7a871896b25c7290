#pragma once

namespace mxtape {

/// A second queue of a GPU's work, beside that of its Backend: for what moves tensors. Nothing orders the two
/// but the calls below. It may outlive the backend, which it needs for these alone, and must outlive what was
/// recorded with its marks.
class SideStream {
 public:
  virtual ~SideStream() = default;
  /// A cudaStream_t.
  virtual void* handle() const = 0;
  /// What comes on this stream waits for all that the backend was asked for before.
  virtual void follow_backend() = 0;
  /// A place in what the backend is asked for. In work that is being recorded it is recorded, too, and each
  /// repetition comes to it anew.
  virtual void mark(int place) = 0;
  /// What comes on this stream waits for what the backend was asked for before the last mark(place), in a
  /// repetition or not.
  virtual void follow_mark(int place) = 0;
  /// What came on this stream since the last call is what lead_backend(place) waits for.
  virtual void arrive(int place) = 0;
  /// What the backend is asked for from now on waits for all that came on this stream before arrive(place).
  virtual void lead_backend(int place) = 0;
  /// Whether all that came on this stream has ended. Does not wait. Throws Error(resource) if the device has
  /// failed.
  virtual bool done() = 0;
};

}  // namespace mxtape
