// The new weights, from those who have updated them to all.
#include <algorithm>
#include <limits>
#include <utility>

#include "autograd/linear_operands.h"
#include "train/devices/exchange.h"

namespace mxtape {

void Exchange::gather_copies(std::vector<LinearWeight> weights) {
  if (size_ > 1) copies_ = CopiesThatTravel(parameters_, std::move(weights));
}

void Exchange::share_new_values() {
  static const std::string place = "new weights";
  backend_.enter(place, false);
  bool all_values = true;
  for (std::size_t b = layout_.size(); b-- > 0;) {  // the first layers' are needed first
    WeightsOnTheirWay weights(backend_, layout_[b], values_[b], copies_);
    weights.pack(backend_, shards_[b][std::size_t(rank_)]);
    share([&](int rank) { return weights.parts(shards_[b][std::size_t(rank)]); });
    weights.unpack(backend_);
    all_values &= weights.all_values();
  }
  if (!all_values && std::exchange(whole_, false)) settle(), lose_others_values();  // an upload may wait
  backend_.enter("", false);
}

void Exchange::renew_copies(AdamW& optimizer) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = *parameters_[i];
    const std::vector<Rounded> next = next_copies(p);
    if (!next.empty() && !copies_.travels(i)) backend_.run(call::Quantize{next, p.value});
    optimizer.follow_up(p);
  }
}

void Exchange::lose_others_values() {
  // Uploaded: a kernel that writes NaN is what MXTAPE_CHECK looks for.
  constexpr std::int64_t piece = std::int64_t{1} << 16;
  const std::vector<float> nan(piece, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!copies_.travels(i)) continue;
    const Tensor& value = parameters_[i]->value;
    const auto lose = [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; begin += piece)
        backend_.upload(value.part(begin, {std::min(piece, end - begin)}), nan.data());
    };
    lose(0, own_[i].first);
    lose(own_[i].first + own_[i].count, value.count());
  }
}

void Exchange::gather_values() {
  if (std::exchange(whole_, true)) return;
  for (std::size_t b = layout_.size(); b-- > 0;)
    share([&](int rank) {
      const Shard& shard = shards_[b][std::size_t(rank)];
      return std::vector{values_[b].part(shard.first, {shard.count})};
    });
  settle();
}

std::vector<Tensor> Exchange::replicated(std::size_t i) const {
  const Parameter& p = *parameters_[i];
  if (whole_ || !copies_.travels(i)) return {p.value};
  const auto& [fprop, dgrad, version] = p.copies;
  return {fprop.elements, fprop.scales, dgrad.elements, dgrad.scales};
}

}  // namespace mxtape
