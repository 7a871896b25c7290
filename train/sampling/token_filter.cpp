#include "train/sampling/token_filter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mxtape {
namespace {

/// All tokens, the likeliest first, sorted as far as they are asked for: top_p of a large vocabulary mostly
/// ends soon.
class Likeliest {
 public:
  explicit Likeliest(std::span<const float> logits) : logits_(logits), order_(logits.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }
  std::size_t size() const { return order_.size(); }
  std::int32_t at(std::size_t i) {
    constexpr std::size_t portion = 64;
    if (i >= sorted_) sort_to(std::max(i + 1, sorted_ + std::max(portion, sorted_)));
    return order_[i];
  }
  void sort_to(std::size_t end) {
    end = std::min(end, order_.size());
    if (end <= sorted_) return;
    std::partial_sort(order_.begin() + std::ptrdiff_t(sorted_), order_.begin() + std::ptrdiff_t(end),
                      order_.end(), [&](std::int32_t a, std::int32_t b) {
                        const float left = logits_[std::size_t(a)], right = logits_[std::size_t(b)];
                        return left != right ? left > right : a < b;
                      });
    sorted_ = end;
  }

 private:
  std::span<const float> logits_;
  std::vector<std::int32_t> order_;
  std::size_t sorted_ = 0;
};

/// e^((logit - largest) / temperature): the likeliest token has 1.
struct Weights {
  std::span<const float> logits;
  double largest, temperature;
  double operator()(std::size_t token) const {
    return std::exp((double(logits[token]) - largest) / temperature);
  }
};

std::size_t likeliest_of(std::span<const float> logits) {
  return std::size_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// The first index whose cumulative weight exceeds the share `uniform` of them all.
std::size_t pick(const std::vector<double>& cumulative, float uniform) {
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), double(uniform) * cumulative.back());
  return std::min(std::size_t(at - cumulative.begin()), cumulative.size() - 1);
}

}  // namespace

Candidates candidates(std::span<const float> logits, const TokenFilter& filter) {
  const std::size_t first = likeliest_of(logits);
  if (filter.temperature == 0) return {{std::int32_t(first)}, {1}};
  const Weights weight{logits, double(logits[first]), filter.temperature};
  Likeliest order(logits);
  const bool limited = filter.top_k > 0 && std::size_t(filter.top_k) < order.size();
  const std::size_t most = limited ? std::size_t(filter.top_k) : order.size();
  double enough = 0;  // top_p's share of what top_k left
  if (filter.top_p < 1) {
    if (limited) order.sort_to(most);
    for (std::size_t i = 0; i < most; ++i) enough += weight(limited ? std::size_t(order.at(i)) : i);
    enough *= filter.top_p;
  }
  Candidates kept;
  double sum = 0;
  for (std::size_t i = 0; i < most; ++i) {
    if (i > 0 && filter.top_p < 1 && sum >= enough) break;
    const std::int32_t token = order.at(i);
    const double w = weight(std::size_t(token));
    if (i > 0 && w < filter.min_p) break;
    kept.tokens.push_back(token);
    kept.probabilities.push_back(w);
    sum += w;
  }
  for (double& p : kept.probabilities) p /= sum;
  return kept;
}

std::int32_t draw_token(std::span<const float> logits, const TokenFilter& filter, float uniform) {
  std::vector<double> cumulative;
  double sum = 0;
  if (filter.temperature != 0 && filter.top_k == 0 && filter.top_p >= 1 && filter.min_p == 0) {
    const Weights weight{logits, double(logits[likeliest_of(logits)]), filter.temperature};
    cumulative.reserve(logits.size());  // all may come, in any order: theirs needs no sorting
    for (std::size_t i = 0; i < logits.size(); ++i) cumulative.push_back(sum += weight(i));
    return std::int32_t(pick(cumulative, uniform));
  }
  const Candidates among = candidates(logits, filter);
  for (const double p : among.probabilities) cumulative.push_back(sum += p);
  return among.tokens[pick(cumulative, uniform)];
}

}  // namespace mxtape
