#include <algorithm>
#include <utility>

#include "kernels/calls_rows.h"
#include "train/devices/exchange.h"
#include "train/devices/packed_gradients.h"
#include "train/devices/strand_sum.h"

// Gradients, from the strands that a device computes to the sums that it keeps. With overlap a bucket's
// exchange begins when backward has completed its gradients, or, where the device records its work, waits
// for a mark that the recording has there. All devices begin them in the order of the buckets.
namespace mxtape {
namespace {

const std::string layer = "sum of strands";

int place_of(std::size_t bucket) { return 1 + int(bucket); }

}  // namespace

void Exchange::set_precision(const PrecisionPlan& plan) {
  formats_ = sum_formats(parameters_, plan);
  messages_.clear();
  for (std::size_t b = 0; b < layout_.size(); ++b)
    messages_.emplace_back(
        BucketMessages::Of{layout_[b], shards_[b], buckets_[b], shapes_, formats_, std::size_t(rank_)});
}

std::function<void(std::span<Parameter* const>)> Exchange::begin_round(std::int64_t round,
                                                                       const PassKey& own) {
  const std::int64_t first = round * size_;
  round_ = {.first = first, .busy = int(std::min<std::int64_t>(size_, strands_ - first)), .own = own};
  completion_.begin();
  if (!overlaps_) return {};
  for (BucketMessages& messages : messages_) messages.make_room(backend_);
  return [this](std::span<Parameter* const> complete) { after_node(complete); };
}

void Exchange::after_node(std::span<Parameter* const> complete) {
  for (Parameter* const p : complete) {
    require(p->has_grad, "strand: parameter '{}' has no gradient; it took no part in the loss", p->name);
    completion_.complete(std::size_t(std::ranges::find(parameters_, p) - parameters_.begin()));
  }
  while (const auto bucket = completion_.next()) {
    pack(*bucket);
    if (devices_->communicator().mark(place_of(*bucket))) start(*bucket);
  }
  if (round_.started > 0) devices_->communicator().progress();
}

void Exchange::end_strand() {
  for (Parameter* p : parameters_)
    require(std::exchange(p->has_grad, false),
            "strand: parameter '{}' has no gradient; it took no part in the loss", p->name);
  require(!overlaps_ || completion_.is_at_end(), "strand: backward has left a bucket without its mark");
}

void Exchange::pack(std::size_t bucket) {
  backend_.enter(layer, false);
  messages_[bucket].pack(
      backend_,
      {.seed = round_.own.seed, .purpose = Purpose::rounding, .step = round_.own.step, .clock = Clock::pass});
}

void Exchange::start(std::size_t bucket) {
  ++round_.started;
  if (!devices_) return;
  std::vector<Part> send, receive;
  messages_[bucket].add_parts(round_.busy, send, receive);
  Communicator& communicator = devices_->communicator();
  // Where there is no strand there is no mark but an earlier round's.
  if (overlaps_ && rank_ < round_.busy)
    communicator.start_marked(place_of(bucket), send, receive);
  else
    communicator.start(place_of(bucket), send, receive);
}

void Exchange::add_round() {
  const std::int64_t busy = round_.busy;
  if (overlaps_)
    while (round_.started < layout_.size()) start(round_.started);
  for (std::size_t b = 0; b < layout_.size(); ++b) {
    if (!overlaps_) {
      messages_[b].make_room(backend_);
      if (rank_ < busy) pack(b);
      start(b);
    }
    backend_.enter(layer, false);
    if (devices_) devices_->communicator().finish(place_of(b));
    const std::vector<Tensor> strands = messages_[b].strands(backend_, round_.busy);
    for (std::size_t rank = 0; rank < strands.size(); ++rank)
      take_strand(
          round_.first + std::int64_t(rank), strands_, sums_[b], totals_.empty() ? sums_[b] : totals_[b],
          strands[rank], [&](const Tensor& to, const Tensor& from) { backend_.copy(to, from); },
          [&](const Tensor& to, const Tensor& from) {
            backend_.run(call::Add{to, to, from});
          });
    if (!overlaps_) messages_[b].give_up_room();
  }
  settle();
  backend_.enter("", false);
}

}  // namespace mxtape
