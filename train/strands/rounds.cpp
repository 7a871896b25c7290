#include <utility>

#include "train/strands/exchange.h"
#include "train/strands/packed_gradients.h"
#include "train/strands/strand_sum.h"

namespace mxtape {

void Exchange::set_precision(const PrecisionPlan& plan) { formats_ = sum_formats(parameters_, plan); }

void Exchange::end_strand() {
  for (Parameter* p : parameters_)
    require(std::exchange(p->has_grad, false),
            "strand: parameter '{}' has no gradient; it took no part in the loss", p->name);
}

std::vector<Tensor> Exchange::strands_of(std::size_t b, int busy) {
  const auto& shards = shards_[b];
  const Shard& mine = shards[std::size_t(rank_)];
  std::vector<Tensor> strands(static_cast<std::size_t>(busy));
  std::vector<Part> send, receive;
  for (int rank = 0; rank < size_; ++rank) {
    const Shard& shard = shards[std::size_t(rank)];
    if (rank == rank_) {
      if (rank < busy) strands[std::size_t(rank)] = buckets_[b].part(mine.first, {mine.count});
      continue;
    }
    if (rank_ < busy) add_part(send, rank, buckets_[b].part(shard.first, {shard.count}));
    if (rank < busy && mine.count > 0)
      add_part(receive, rank, strands[std::size_t(rank)] = backend_.empty({mine.count}));
  }
  transfer(send, receive);
  return strands;
}

std::vector<Tensor> Exchange::rounded_strands_of(std::size_t b, int busy, const PassKey& own) {
  const auto& shards = shards_[b];
  const Shard& mine = shards[std::size_t(rank_)];
  PackedGradients packed(shapes_, formats_);
  if (rank_ < busy)
    packed.pack(backend_, layout_[b], buckets_[b],
                {.seed = own.seed, .purpose = Purpose::rounding, .step = own.step});
  std::vector<PackedGradients> inbox(static_cast<std::size_t>(busy), {shapes_, formats_});
  std::vector<Part> send, receive;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (rank_ < busy) packed.part(shards[std::size_t(rank)]).add_parts(send, rank);
    if (rank >= busy) continue;
    inbox[std::size_t(rank)].make_room(backend_, mine);
    inbox[std::size_t(rank)].add_parts(receive, rank);
  }
  transfer(send, receive);
  std::vector<Tensor> strands(static_cast<std::size_t>(busy));
  for (int rank = 0; rank < busy && mine.count > 0; ++rank) {
    Tensor& strand = strands[std::size_t(rank)];
    if (rank == rank_) {
      strand = buckets_[b].part(mine.first, {mine.count});
      packed.part(mine).unpack(backend_, mine, strand);
      continue;
    }
    strand = backend_.empty({mine.count});
    backend_.fill(strand, 0);  // what lies between parameters is added, too
    inbox[std::size_t(rank)].unpack(backend_, mine, strand);
  }
  return strands;
}

void Exchange::add_round(std::int64_t round, const PassKey& own) {
  static const std::string place = "sum of strands";
  backend_.enter(place, false);
  const std::int64_t first = round * size_;
  const int busy = int(std::min<std::int64_t>(size_, strands_ - first));
  for (std::size_t b = 0; b < layout_.size(); ++b) {
    const bool rounded = PackedGradients(shapes_, formats_).concerns(layout_[b]);
    const std::vector<Tensor> strands = rounded ? rounded_strands_of(b, busy, own) : strands_of(b, busy);
    if (shards_[b][std::size_t(rank_)].count == 0) continue;
    for (int rank = 0; rank < busy; ++rank)
      take_strand(
          first + rank, strands_, sums_[b], totals_.empty() ? sums_[b] : totals_[b],
          strands[std::size_t(rank)], [&](const Tensor& to, const Tensor& from) { backend_.copy(to, from); },
          [&](const Tensor& to, const Tensor& from) {
            backend_.run(call::Add{to, to, from});
          });
  }
  settle();
  backend_.enter("", false);
}

}  // namespace mxtape
