// Cross-attention with quantized operands: the middle of an encoder-decoder model. A memory holds pairs of a
// key and a value; each query names one of the keys, and the model is to answer with its value.
//   cross_attention [FORMAT]     of every operand of attention and its linear layers, forward and backward:
//                                "mxfp8"; without one, mxfp4
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "kernels/attention/slots.h"
#include "kernels/choose/make_backend.h"
#include "nn/layers.h"
#include "optim/adamw.h"

namespace {

using namespace mxtape;

constexpr std::int64_t width = 64, heads = 2, batch = 32, most_pairs = 12, queries = 4, keys = 16, values = 8;

/// y [B, T, C] = W_out attention(W_q x [B, T, C], W_kv memory [B, S, C]); every operand is rounded alike.
class CrossAttention {
 public:
  CrossAttention(const Initialiser& make, const Quantizer& format)
      : q_(make, "q", width, width, false, 0.125f, 0),
        kv_(make, "kv", width, 2 * width, false, 0.125f, 4),
        out_(make, "out", width, width, false, 0.125f, 8) {
    for (const AttentionSlot& slot : attention_slots) quant_.*slot.field = format;
    LinearQuant six;
    six.fprop_x = six.fprop_w = six.dgrad_dy = six.dgrad_w = six.wgrad_dy = six.wgrad_x = format;
    for (Linear* layer : {&q_, &kv_, &out_}) layer->set_precision(six);
  }

  Var operator()(Tape& tape, const Var& x, const Var& memory, const Tensor& lengths) {
    const Shape of_x = x.value.shape(), of_memory = memory.value.shape();
    const AttentionShape shape{.batch = of_x[0],
                               .time = of_x[1],
                               .heads = heads,
                               .width = of_x[2] / heads,
                               .mask = AttentionMask::none,
                               .keys = of_memory[1],
                               .own_keys = true};
    const Var o = ops::attention(tape, q_(tape, x), shape, quant_, 12, kv_(tape, memory), lengths);
    return out_(tape, o);
  }
  void collect(std::vector<Parameter*>& all) {
    for (Linear* layer : {&q_, &kv_, &out_}) layer->collect(all);
  }

 private:
  Linear q_, kv_, out_;
  AttentionQuant quant_;
};

/// Memories of 6 to 12 pairs with different keys, what is asked of them, and the answers.
struct Batch {
  std::vector<std::int32_t> keys, values, lengths, asked, answers;
};

Batch batch_of(std::uint32_t step) {
  Batch b;
  std::uint64_t drawn = 0;
  const auto below = [&](std::int64_t limit) {
    const DrawKey key{.seed = 1, .purpose = Purpose::data_order, .step = step};
    return std::int32_t(double(key.uniform(drawn++)) * double(limit));
  };
  for (std::int64_t i = 0; i < batch; ++i) {
    std::vector<std::int32_t> order(keys), of_pair;
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t j = 0; j < most_pairs; ++j) {
      std::swap(order[std::size_t(j)], order[std::size_t(j + below(keys - j))]);
      b.keys.push_back(order[std::size_t(j)]);
      b.values.push_back(of_pair.emplace_back(below(values)));
    }
    b.lengths.push_back(most_pairs / 2 + below(most_pairs / 2 + 1));
    for (std::int64_t t = 0; t < queries; ++t) {
      const auto pair = std::size_t(below(b.lengths.back()));
      b.asked.push_back(order[pair]), b.answers.push_back(of_pair[pair]);
    }
  }
  return b;
}

struct LookUp {
  Backend& backend;
  Parameter key_table, value_table, query_table, answer_table;
  CrossAttention attention;

  LookUp(const Initialiser& make, const Quantizer& format)
      : backend(make.backend),
        key_table(make.normal("keys", {keys, width}, 1, 100)),
        value_table(make.normal("values", {values, width}, 1, 101)),
        query_table(make.normal("queries", {keys, width}, 1, 102)),
        answer_table(make.normal("answers", {values, width}, 0.125f, 103)),
        attention(make, format) {}

  std::vector<Parameter*> parameters() {
    std::vector<Parameter*> all{&key_table, &value_table, &query_table, &answer_table};
    attention.collect(all);
    return all;
  }
  Tensor upload(const std::vector<std::int32_t>& x, Shape shape) const {
    const Tensor y = backend.empty(shape, DType::i32);
    backend.upload(y, x.data());
    return y;
  }
  /// The loss, its gradients, and the share of right answers.
  std::pair<float, double> step(const Batch& b, std::uint32_t number) {
    Tape tape(backend, Tape::Mode::training, {.seed = 1, .step = number});
    const Shape pairs{batch, most_pairs};
    const Var memory = ops::add(tape, ops::embedding(tape, upload(b.keys, pairs), key_table, nullptr),
                                ops::embedding(tape, upload(b.values, pairs), value_table, nullptr));
    const Var x = ops::embedding(tape, upload(b.asked, {batch, queries}), query_table, nullptr);
    const Var y = attention(tape, x, memory, upload(b.lengths, {batch}));
    const Var logits = ops::linear(tape, y, answer_table, nullptr, LinearQuant{}, 40);  // f32, as heads are
    std::int64_t right = 0;  // before the gradient takes the logits' place
    for (std::size_t i = 0; i < b.answers.size(); ++i) {
      const auto row = logits.value.host().subspan(i * values, values);
      right += std::max_element(row.begin(), row.end()) - row.begin() == b.answers[i];
    }
    const Var loss = ops::cross_entropy(tape, logits, upload(b.answers, {batch * queries}));
    tape.backward(loss);
    return {loss.value.host()[0], double(right) / double(b.answers.size())};
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Quantizer format = argc > 1 ? parse_quantizer(argv[1]) : mxfp4;
  const auto backend = make_backend("cpu");
  LookUp model({*backend, 1}, format);
  AdamW adam(*backend, model.parameters(), {.learning_rate = 3e-3f, .weight_decay = 0});
  fmt::print("cross-attention in {}\n", to_text(format));
  constexpr std::uint32_t steps = 60;
  for (std::uint32_t step = 1; step <= steps; ++step) {
    const auto [loss, right] = model.step(batch_of(step), step);
    adam.step(1);
    if (step == 1 || step % 10 == 0)
      fmt::print("step {:2}  loss {:.4f}  {:3.0f} % right\n", step, loss, 100 * right);
  }
  return 0;
} catch (const mxtape::Error& e) {
  fmt::print(stderr, "cross_attention: {}\n", e.what());
  return int(e.code());
}
