#pragma once
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "core/files/atomic_file.h"
#include "data/safetensors/safetensors_writer.h"

namespace mxtape::test {

/// A GPT-2 as Hugging Face's folders have it, with random numbers, and what it computes: written from the
/// class's formulas and names alone, in double.
struct ForeignGpt2 {
  std::int64_t V = 23, T = 12, C = 12, L = 2, H = 3, F = 48;
  bool tied = true, erf = false;
  double eps = 1e-5;
  std::string prefix = "transformer.";
  struct Tensor {
    std::vector<std::uint64_t> dims;
    std::vector<float> values;
  };
  std::map<std::string, Tensor> tensors{};  // without the prefix

  /// `seed` draws all of them; the numbers have so few digits that f16 and bf16 hold them.
  void draw(unsigned seed) {
    std::mt19937 random(seed);
    const auto add = [&](const std::string& name, std::vector<std::uint64_t> dims, double around) {
      Tensor tensor{std::move(dims), {}};
      std::uint64_t count = 1;
      for (const auto extent : tensor.dims) count *= extent;
      for (std::uint64_t i = 0; i < count; ++i)
        tensor.values.push_back(around != 0 ? float(around) + float(int(random() % 33) - 16) / 64
                                            : float(int(random() % 129) - 64) / 128);
      tensors[name] = std::move(tensor);
    };
    const auto u = [](std::int64_t x) { return std::uint64_t(x); };
    add("wte.weight", {u(V), u(C)}, 0);
    add("wpe.weight", {u(T), u(C)}, 0);
    for (std::int64_t i = 0; i < L; ++i) {
      const std::string h = "h." + std::to_string(i) + ".";
      for (const char* norm : {"ln_1", "ln_2"}) {
        add(h + norm + ".weight", {u(C)}, 1);
        add(h + norm + ".bias", {u(C)}, 0);
      }
      add(h + "attn.c_attn.weight", {u(C), u(3 * C)}, 0);
      add(h + "attn.c_attn.bias", {u(3 * C)}, 0);
      add(h + "attn.c_proj.weight", {u(C), u(C)}, 0);
      add(h + "attn.c_proj.bias", {u(C)}, 0);
      add(h + "mlp.c_fc.weight", {u(C), u(F)}, 0);
      add(h + "mlp.c_fc.bias", {u(F)}, 0);
      add(h + "mlp.c_proj.weight", {u(F), u(C)}, 0);
      add(h + "mlp.c_proj.bias", {u(C)}, 0);
    }
    add("ln_f.weight", {u(C)}, 1);
    add("ln_f.bias", {u(C)}, 0);
    if (!tied) add("lm_head.weight", {u(V), u(C)}, 0);
  }

  nlohmann::json config() const {
    return {{"model_type", "gpt2"},
            {"architectures", {"GPT2LMHeadModel"}},
            {"vocab_size", V},
            {"n_positions", T},
            {"n_embd", C},
            {"n_layer", L},
            {"n_head", H},
            {"n_inner", F == 4 * C ? nlohmann::json() : nlohmann::json(F)},
            {"activation_function", erf ? "gelu" : "gelu_new"},
            {"layer_norm_epsilon", eps},
            {"tie_word_embeddings", tied},
            {"bos_token_id", 0},
            {"eos_token_id", 1}};
  }

  void write(const std::filesystem::path& folder, TensorType type = TensorType::f32,
             std::uint64_t shard_bytes = 1 << 30) const {
    std::filesystem::create_directories(folder);
    write_atomically(folder / "config.json", config().dump(1));
    std::vector<TensorInfo> infos;
    for (const auto& [name, tensor] : tensors)
      infos.push_back(
          {.name = name == "lm_head.weight" ? name : prefix + name, .type = type, .dims = tensor.dims});
    const auto shards = plan_shards(infos, shard_bytes);
    auto next = tensors.begin();
    for (const auto& shard : shards) {
      SafetensorsWriter writer(folder / shard.name, shard.tensors);
      for (std::size_t i = 0; i < shard.tensors.size(); ++i) writer.write((next++)->second.values);
      writer.finish();
    }
    if (shards.size() > 1) write_atomically(folder / "model.safetensors.index.json", index_of(shards));
  }

  /// logits [T, V] of one sequence.
  std::vector<double> logits(const std::vector<std::int32_t>& tokens) const {
    const auto time = std::int64_t(tokens.size());
    std::vector<double> x;
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t c = 0; c < C; ++c)
        x.push_back(at("wte.weight", tokens[std::size_t(t)] * C + c) + at("wpe.weight", t * C + c));
    for (std::int64_t i = 0; i < L; ++i) {
      const std::string h = "h." + std::to_string(i) + ".";
      add_to(x, conv1d(attention(conv1d(norm(x, h + "ln_1"), h + "attn.c_attn", C, 3 * C), time),
                       h + "attn.c_proj", C, C));
      auto wide = conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc", C, F);
      for (double& one : wide) one = gelu(one);
      add_to(x, conv1d(wide, h + "mlp.c_proj", F, C));
    }
    x = norm(x, "ln_f");
    std::vector<double> result;
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t v = 0; v < V; ++v) {
        double sum = 0;
        for (std::int64_t c = 0; c < C; ++c)
          sum += x[std::size_t(t * C + c)] * at(tied ? "wte.weight" : "lm_head.weight", v * C + c);
        result.push_back(sum);
      }
    return result;
  }

 private:
  double at(const std::string& name, std::int64_t i) const {
    return double(tensors.at(name).values[std::size_t(i)]);
  }
  static void add_to(std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  double gelu(double x) const {
    if (erf) return x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  std::vector<double> norm(const std::vector<double>& x, const std::string& name) const {
    std::vector<double> y(x.size());
    for (std::int64_t row = 0; row < std::int64_t(x.size()) / C; ++row) {
      double mean = 0, variance = 0;
      for (std::int64_t c = 0; c < C; ++c) mean += x[std::size_t(row * C + c)] / double(C);
      for (std::int64_t c = 0; c < C; ++c)
        variance += std::pow(x[std::size_t(row * C + c)] - mean, 2) / double(C);
      for (std::int64_t c = 0; c < C; ++c)
        y[std::size_t(row * C + c)] =
            (x[std::size_t(row * C + c)] - mean) / std::sqrt(variance + eps) * at(name + ".weight", c) +
            at(name + ".bias", c);
    }
    return y;
  }
  /// x W + b, W [in, out].
  std::vector<double> conv1d(const std::vector<double>& x, const std::string& name, std::int64_t in,
                             std::int64_t out) const {
    std::vector<double> y;
    for (std::int64_t row = 0; row < std::int64_t(x.size()) / in; ++row)
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = at(name + ".bias", o);
        for (std::int64_t i = 0; i < in; ++i)
          sum += x[std::size_t(row * in + i)] * at(name + ".weight", i * out + o);
        y.push_back(sum);
      }
    return y;
  }
  /// qkv [T, 3 C]: q, k and v, heads inside.
  std::vector<double> attention(const std::vector<double>& qkv, std::int64_t time) const {
    const std::int64_t D = C / H;
    std::vector<double> y(std::size_t(time * C));
    for (std::int64_t head = 0; head < H; ++head)
      for (std::int64_t t = 0; t < time; ++t) {
        std::vector<double> p;
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::int64_t d = 0; d < D; ++d)
            score +=
                qkv[std::size_t(t * 3 * C + head * D + d)] * qkv[std::size_t(s * 3 * C + C + head * D + d)];
          p.push_back(std::exp(score / std::sqrt(double(D))));
          sum += p.back();
        }
        for (std::int64_t s = 0; s <= t; ++s)
          for (std::int64_t d = 0; d < D; ++d)
            y[std::size_t(t * C + head * D + d)] +=
                p[std::size_t(s)] / sum * qkv[std::size_t(s * 3 * C + 2 * C + head * D + d)];
      }
    return y;
  }
};

}  // namespace mxtape::test
