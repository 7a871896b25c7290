#pragma once
#include <memory>
#include <set>
#include <string>

#include "dist/communicator.h"
#include "dist/nccl_calls.h"
#include "dist/together.h"
#include "kernels/side_stream.h"

namespace mxtape {

/// The device plane between GPUs, one of each process. Messages travel on a stream of their own, outside of
/// recorded graphs: the host does not wait for them but in settle(), where it sees that a peer is lost.
class NcclCommunicator final : public Communicator {
 public:
  /// On all processes together; the group, which must live as long as this, says what NCCL needs to find the
  /// others. The process's GPU is chosen (choose_gpu()). Throws Error(peer) with what NCCL says.
  NcclCommunicator(const NcclCalls&, Group&, double timeout_seconds);
  /// After an error of this process it gives up what is under way, and waits for nobody.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;

  std::string description() const override { return description_; }
  void attach(Backend&) override;
  void attach(std::unique_ptr<SideStream> stream) { stream_ = std::move(stream); }
  void start(int place, std::span<const Part> send, std::span<const Part> receive) override;
  bool mark(int place) override;
  void start_marked(int place, std::span<const Part> send, std::span<const Part> receive) override;
  void finish(int place) override;
  /// A peer that is lost, or an error of NCCL, ends this process, too (Group::abandon): what is under way on
  /// the GPU would keep it waiting for ever.
  void settle() override;

 private:
  /// What the side stream waits for first is said already.
  void move(int place, std::span<const Part> send, std::span<const Part> receive);
  /// A result that is no success: while something is under way gives up, before throws Error(peer).
  void check(int result, const char* call) const;
  /// Polls until done() or the deadline; false: the deadline.
  template <class Done>
  bool wait(double seconds, const Done& done) const;
  /// What a call that does not block has begun is over.
  void settle_call(const char* call, double seconds);
  void give_up(const std::string& why) const { group_.abandon(ExitCode::peer, why); }

  const NcclCalls nccl_;
  Group& group_;
  double timeout_;
  int exceptions_;
  NcclComm* comm_ = nullptr;
  std::string description_;
  std::unique_ptr<SideStream> stream_;
  std::set<int> started_;  // places
  std::string under_way_;  // the last exchanges, for messages
};

}  // namespace mxtape
