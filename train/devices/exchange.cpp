#include "train/devices/exchange.h"

#include "kernels/calls_rows.h"
#include "train/devices/strand_sum.h"

namespace mxtape {
namespace {

std::vector<Shape> shapes_of(const std::vector<Parameter*>& parameters) {
  std::vector<Shape> shapes;
  for (const Parameter* p : parameters) shapes.push_back(p->value.shape());
  return shapes;
}

}  // namespace

Exchange::Exchange(Backend& backend, std::vector<Parameter*> parameters, std::int64_t strands,
                   Devices* devices, const ComputeConfig& config)
    : backend_(backend),
      parameters_(std::move(parameters)),
      strands_(strands),
      devices_(devices),
      rank_(devices ? devices->rank() : 0),
      size_(devices ? devices->size() : 1),
      overlaps_(devices && config.overlap),
      shapes_(shapes_of(parameters_)),
      formats_(parameters_.size()),
      layout_(make_buckets(shapes_, config.bucket_elements())),
      completion_(layout_, parameters_.size()) {
  if (devices_) own_.resize(parameters_.size());
  for (const Bucket& bucket : layout_) {
    const auto zeros = [&](std::int64_t count) {
      const Tensor x = backend_.empty({count});
      backend_.fill(x, 0);  // what lies between parameters is added and sent, too
      return x;
    };
    buckets_.push_back(zeros(bucket.count));
    if (devices_) values_.push_back(zeros(bucket.count));
    shards_.push_back(cut(bucket, size_));
    const Shard& mine = shards_.back()[std::size_t(rank_)];
    sums_.push_back(backend_.empty({mine.count}));
    if (strands_ > strands_of_a_group) totals_.push_back(backend_.empty({mine.count}));
    for (const InBucket& slot : bucket.slots) {
      Parameter& p = *parameters_[slot.parameter];
      p.grad = buckets_.back().part(slot.first, p.value.shape());
      if (!devices_) continue;
      const Tensor value = values_.back().part(slot.first, p.value.shape());
      backend_.copy(value, p.value);
      p.value = value;
      p.written(p.version);
    }
    if (devices_)
      for (const Piece& piece : mine.pieces) own_[piece.parameter] = {piece.first, piece.count};
  }
  squares_ = backend_.empty({count_units(layout_)}, DType::f64);
  set_precision({});
}

std::int64_t Exchange::strand_of(std::int64_t round) const {
  const std::int64_t strand = round * size_ + rank_;
  return strand < strands_ ? strand : -1;
}

std::vector<Tensor> Exchange::squared_gradients() {
  std::vector<Tensor> gradients(parameters_.size());
  for (std::size_t b = 0; b < layout_.size(); ++b) {
    const Shard& mine = shards_[b][std::size_t(rank_)];
    const Tensor& total = totals_.empty() ? sums_[b] : totals_[b];
    for (const Piece& piece : mine.pieces) {
      Tensor& gradient = gradients[piece.parameter];
      gradient = total.part(piece.in_bucket - mine.first, {piece.count});
      backend_.run(call::Squares{squares_.part(piece.first_unit, {piece.units}), gradient, piece.unit});
    }
  }
  return gradients;
}

Tensor Exchange::update(AdamW& optimizer, const std::string& name) {
  if (!devices_)
    return backend_.repeat(name, [&] { return std::vector{optimizer.update(squared_gradients(), squares_)}; })
        .front();
  const std::vector<Tensor> gradients = squared_gradients();
  share_squares();
  const Tensor norm = optimizer.update(gradients, squares_);
  share_new_values();
  renew_copies(optimizer);
  settle();
  return norm;
}

void Exchange::share(const std::function<std::vector<Tensor>(int rank)>& parts) {
  std::vector<Part> send, receive;
  for (int rank = 0; rank < size_; ++rank)
    for (const Tensor& part : parts(rank)) {
      if (rank != rank_) add_part(receive, rank, part);
      for (int to = 0; rank == rank_ && to < size_; ++to)
        if (to != rank_) add_part(send, to, part);
    }
  transfer(send, receive);
}

void Exchange::share_squares() {
  share([&](int rank) {
    std::vector<Tensor> parts;
    for (const auto& shards : shards_)
      for (const Piece& piece : shards[std::size_t(rank)].pieces)
        parts.push_back(squares_.part(piece.first_unit, {piece.units}));
    return parts;
  });
}

void Exchange::share_values(std::span<const Tensor> others) {
  std::vector<Tensor> all = values_;
  all.insert(all.end(), others.begin(), others.end());
  for (const Tensor& one : all) {  // each has a deadline of its own
    share([&](int rank) { return rank == 0 ? std::vector{one} : std::vector<Tensor>(); });
    settle();
  }
  whole_ = true;
}

Tensor Exchange::gather(std::size_t parameter, const Tensor& own) {
  if (!devices_) return own;
  Tensor whole;
  if (rank_ == 0) whole = backend_.empty(parameters_[parameter]->value.shape());
  exchange_parts(parameter, whole, own, true);
  return whole;
}

void Exchange::scatter(std::size_t parameter, const Tensor& whole, const Tensor& own) {
  exchange_parts(parameter, whole, own, false);
}

void Exchange::exchange_parts(std::size_t parameter, const Tensor& whole, const Tensor& own, bool to_whole) {
  std::vector<Part> of_whole, of_own;
  if (rank_ != 0) add_part(of_own, 0, own);
  for (const auto& shards : shards_)
    for (int rank = 0; rank_ == 0 && rank < size_; ++rank)
      for (const Piece& piece : shards[std::size_t(rank)].pieces) {
        if (piece.parameter != parameter) continue;
        const Tensor part = whole.part(piece.first, {piece.count});
        if (rank != 0)
          add_part(of_whole, rank, part);
        else
          to_whole ? backend_.copy(part, own) : backend_.copy(own, part);
      }
  to_whole ? transfer(of_own, of_whole) : transfer(of_whole, of_own);
  settle();
}

void Exchange::transfer(const std::vector<Part>& send, const std::vector<Part>& receive) {
  constexpr int place = 0;  // one at a time; those of gradients have places of their own
  devices_->communicator().start(place, send, receive);
  devices_->communicator().finish(place);
}

void Exchange::settle() {
  if (devices_) devices_->communicator().settle();
}

}  // namespace mxtape
