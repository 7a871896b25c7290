#include "train/sampling/sample.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "train/evaluate.h"

namespace mxtape {
namespace {

/// Logits of the first `tokens_known` tokens as the one that follows `recent`. The input is padded at the end
/// to a power of two, so that a growing text meets few shapes (each costs the GEMM library a set-up). No
/// position attends to what comes after it; a scale that tokens share (of a whole tensor, or of blocks along
/// keys) sees the padding, too.
std::vector<float> next_logits(Backend& backend, Model& model, std::span<const std::int32_t> recent,
                               PassKey pass, std::int64_t tokens_known) {
  const auto count = std::int64_t(recent.size());
  const std::int64_t time = std::min(model.config().context, std::int64_t(std::bit_ceil(recent.size())));
  std::vector<std::int32_t> padded(recent.begin(), recent.end());
  padded.resize(std::size_t(time), recent.back());
  Tape tape(backend, Tape::Mode::evaluation, pass);
  const Var all = model.forward(tape, upload_tokens(backend, padded, {1, time}));
  const std::int64_t vocabulary = model.config().vocabulary;
  const Tensor wide = backend.empty(all.value.shape());
  backend.copy(wide, all.value);  // from bf16, if activations are
  // A view of one row: `wide` outlives it.
  float* row = static_cast<float*>(wide.raw()) + (count - 1) * vocabulary;
  const Tensor last(std::shared_ptr<void>(std::shared_ptr<void>(), row), {vocabulary}, DType::f32);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  backend.download(logits.data(), last);
  logits.resize(std::size_t(tokens_known));
  return logits;
}

}  // namespace

std::int32_t draw_token(std::span<const float> logits, float temperature, std::int64_t top_k, float uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[std::size_t(a)], right = logits[std::size_t(b)];
    return left != right ? left > right : a < b;
  };
  if (temperature == 0) return *std::min_element(order.begin(), order.end(), likelier);
  if (top_k > 0 && std::size_t(top_k) < order.size()) {
    std::partial_sort(order.begin(), order.begin() + top_k, order.end(), likelier);
    order.resize(std::size_t(top_k));
  }
  float largest = logits[std::size_t(order[0])];
  for (auto token : order) largest = std::max(largest, logits[std::size_t(token)]);
  std::vector<double> cumulative;
  double sum = 0;
  for (auto token : order)
    cumulative.push_back(sum += std::exp(double(logits[std::size_t(token)] - largest) / double(temperature)));
  const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), double(uniform) * sum);
  return order[std::min(std::size_t(at - cumulative.begin()), order.size() - 1)];
}

std::vector<std::int32_t> sample(Backend& backend, Model& model, std::span<const std::int32_t> prompt,
                                 const SampleOptions& options) {
  require(!prompt.empty(), ExitCode::usage, "sample: the prompt is empty; want at least one token");
  const std::int64_t vocabulary = model.config().vocabulary;
  const std::int64_t tokens_known = options.tokens_known > 0 ? options.tokens_known : vocabulary;
  require(tokens_known <= vocabulary, "sample: {} tokens are known, the model has {}", tokens_known,
          vocabulary);
  const auto context = std::size_t(model.config().context);
  const DrawKey draws{.seed = options.seed, .purpose = Purpose::sampling};
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto recent = std::span(text).last(std::min(text.size(), context));
    const auto logits = next_logits(backend, model, recent, options.pass, tokens_known);
    text.push_back(draw_token(logits, options.temperature, options.top_k, draws.uniform(std::uint64_t(i))));
    if (options.on_token) options.on_token(text.back());
  }
  return {text.begin() + std::ptrdiff_t(prompt.size()), text.end()};
}

}  // namespace mxtape
