#include "dist/nccl_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <exception>

#include "dist/deadline.h"
#include "kernels/choose/gpu.h"

namespace mxtape {

template <class Done>
bool NcclCommunicator::wait(double seconds, const Done& done) const {
  Deadline deadline(seconds, Patience::step);
  constexpr std::int64_t eager = 2000;
  for (std::int64_t polls = 0; !done(); ++polls) {
    polls < eager ? void(::sched_yield()) : void(::usleep(50));
    if (deadline.has_passed()) return false;
  }
  return true;
}

NcclCommunicator::NcclCommunicator(const NcclCalls& nccl, Group& group, double timeout_seconds)
    : nccl_(nccl), group_(group), timeout_(timeout_seconds), exceptions_(std::uncaught_exceptions()) {
  int version = 0;
  check(nccl_.get_version(&version), "ncclGetVersion");
  description_ = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  const Place& place = group_.place();
  NcclId id{};
  if (place.rank == 0) check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
  const std::string first =
      group_
          .all_gather(place.rank == 0 ? std::string_view(id.bytes, sizeof id.bytes) : std::string_view(),
                      Patience::alone)
          .front();
  require(first.size() == sizeof id.bytes, ExitCode::peer, "NCCL: rank 0 has sent {} bytes of an id, not {}",
          first.size(), sizeof id.bytes);
  std::memcpy(id.bytes, first.data(), first.size());
  NcclConfig config;
  config.blocking = 0;
  const int result = nccl_.init(&comm_, place.size, id, place.rank, &config);
  if (result != nccl_in_progress) check(result, "ncclCommInitRankConfig");
  settle_call("ncclCommInitRankConfig", long_patience * timeout_);
}

NcclCommunicator::~NcclCommunicator() {
  if (!comm_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    nccl_.abort(comm_);
    return;
  }
  int state = nccl_.finalize(comm_);
  wait(timeout_, [&] { return state != nccl_in_progress || (nccl_.async_error(comm_, &state), false); });
  state == nccl_success ? nccl_.destroy(comm_) : nccl_.abort(comm_);
}

void NcclCommunicator::attach(Backend& backend) { attach(make_side_stream(backend)); }

void NcclCommunicator::check(int result, const char* call) const {
  if (result == nccl_success) return;
  const char* const more = nccl_.last_error(comm_);
  const std::string why = fmt::format("{}{}: {}{}{}; NCCL_DEBUG=WARN in the environment makes NCCL say more",
                                      under_way_.empty() ? "" : under_way_ + ": ", call, nccl_.error(result),
                                      more && *more ? ": " : "", more ? more : "");
  if (!under_way_.empty()) give_up(why);
  fail(ExitCode::peer, "{}", why);
}

void NcclCommunicator::settle_call(const char* call, double seconds) {
  int state = nccl_success;
  const bool done = wait(seconds, [&] {
    check(nccl_.async_error(comm_, &state), call);
    return state != nccl_in_progress;
  });
  if (!done) give_up(fmt::format("waited {:.0f} s in {}", seconds, call));
  check(state, call);
}

void NcclCommunicator::start(int place, std::span<const Part> send, std::span<const Part> receive) {
  require(stream_ != nullptr, "nccl: no backend is attached");
  stream_->follow_backend();
  move(place, send, receive);
}

bool NcclCommunicator::mark(int place) {
  require(stream_ != nullptr, "nccl: no backend is attached");
  stream_->mark(place);
  return false;
}

void NcclCommunicator::start_marked(int place, std::span<const Part> send, std::span<const Part> receive) {
  stream_->follow_mark(place);
  move(place, send, receive);
}

void NcclCommunicator::move(int place, std::span<const Part> send, std::span<const Part> receive) {
  require(started_.insert(place).second, "nccl: place {} is under way already", place);
  if (send.empty() && receive.empty()) return stream_->arrive(place);
  const int first = *started_.begin();
  under_way_ = fmt::format("{} of {} tensors to others and {} from them",
                           first == place ? fmt::format("exchange {}", place)
                                          : fmt::format("exchanges {} to {}, the last", first, place),
                           send.size(), receive.size());
  void* const stream = stream_->handle();
  check(nccl_.group_start(), "ncclGroupStart");
  // In a group a call only says what is wanted; its error is the group's, which must be ended all the same.
  int result = nccl_success;
  const auto note = [&](int of_call) {
    if (result == nccl_success && of_call != nccl_in_progress) result = of_call;
  };
  for (const Part& part : receive)
    note(
        nccl_.receive(part.data.raw(), std::size_t(part.data.bytes()), nccl_bytes, part.rank, comm_, stream));
  for (const Part& part : send)
    note(nccl_.send(part.data.raw(), std::size_t(part.data.bytes()), nccl_bytes, part.rank, comm_, stream));
  const int ended = nccl_.group_end();
  check(result, "ncclSend or ncclRecv");
  if (ended != nccl_in_progress) check(ended, "ncclGroupEnd");
  settle_call("ncclGroupEnd", timeout_);
  stream_->arrive(place);
}

void NcclCommunicator::finish(int place) {
  require(started_.erase(place) == 1, "nccl: place {} is not under way", place);
  stream_->lead_backend(place);
}

void NcclCommunicator::settle() {
  if (!stream_) return;
  int state = nccl_success;
  const bool done = wait(timeout_, [&] {
    const int asked = nccl_.async_error(comm_, &state);
    if (asked != nccl_success) state = asked;
    return (state != nccl_success && state != nccl_in_progress) || stream_->done();
  });
  if (!done)
    give_up(
        fmt::format("waited {:.0f} s for {}: a process is gone, stopped, or slower than "
                    "MXTAPE_PEER_TIMEOUT allows; NCCL does not say which",
                    timeout_, under_way_));
  if (state != nccl_in_progress) check(state, "NCCL");
}

}  // namespace mxtape
