// Gradients in few bits (slot sum.dw): what is added is what their codes are worth, whoever adds.
#include "train/devices/packed_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/codec/mx_tensor.h"
#include "tests/support/tensors.h"
#include "tests/train/tiny_run.h"
#include "train/devices/exchange.h"

namespace mxtape::test {
namespace {

constexpr const char* formats[] = {"bf16 round=stochastic",
                                   "mxfp8_e5m2 round=stochastic",
                                   "mxfp6_e2m3 round=stochastic",
                                   "mxint8 round=stochastic",
                                   "mxfp4",
                                   "mxfp4 block=32x32 round=stochastic",
                                   "nvfp4 round=stochastic",
                                   "int8 block=32 scale=f32 round=stochastic"};

/// Matrices of several units, odd widths, and vectors, in one bucket.
struct Gradients {
  std::unique_ptr<Backend> backend = make_backend("cpu");
  std::vector<Shape> shapes{{700, 48}, {33}, {513, 65}, {70, 300}};
  std::vector<Bucket> buckets = make_buckets(shapes);
  std::vector<std::vector<float>> values;  // by parameter
  Tensor bucket;

  Gradients() : bucket(backend->empty({buckets[0].count})) {
    backend->fill(bucket, 0);
    for (std::size_t i = 0; i < shapes.size(); ++i) values.push_back(normals(shapes[i].count(), unsigned(i)));
    for (const InBucket& slot : buckets[0].slots)
      backend->upload(bucket.part(slot.first, {slot.count}), values[slot.parameter].data());
  }
  /// What parameter i's gradient is worth, by the definition.
  std::vector<float> worth(std::size_t i, const Quantizer& q, const DrawKey& strand) const {
    DrawKey key = strand;
    key.tensor_id = (1u << 31) + std::uint32_t(i);
    const MxTensor t = pack(values[i].data(), shapes[i].rows(), shapes[i].cols(), Axis::row, q, key);
    std::vector<float> y(values[i].size());
    unpack(y.data(), t);
    for (float& x : y) x *= t.multiplier;
    return y;
  }
};

TEST(PackedGradients, EveryShardOfAnyCutIsWorthWhatTheDefinitionSaysOfTheWholeMatrix) {
  const Gradients of;
  ASSERT_EQ(of.buckets.size(), 1u);
  const DrawKey strand{.seed = 7, .step = 11};
  for (const char* text : formats) {
    const Quantizer q = parse_quantizer(text);
    const std::vector<Quantizer> by_parameter{q, {}, q, {}};
    PackedGradients packed(of.shapes, by_parameter);
    packed.pack(*of.backend, of.buckets[0], of.bucket, strand);
    for (const int devices : {1, 2, 3, 7, 64}) {
      std::int64_t sent = 0;
      for (const Shard& shard : cut(of.buckets[0], devices)) {
        PackedGradients inbox(of.shapes, by_parameter);
        inbox.make_room(*of.backend, shard);
        std::vector<Part> send, receive;
        packed.part(shard).add_parts(send, 1);
        inbox.add_parts(receive, 0);
        ASSERT_EQ(send.size(), receive.size());
        for (std::size_t i = 0; i < send.size(); ++i) {
          ASSERT_EQ(send[i].data.bytes(), receive[i].data.bytes());
          ASSERT_EQ(send[i].data.dtype(), receive[i].data.dtype());
          of.backend->copy(receive[i].data, send[i].data);
          sent += send[i].data.bytes();
        }
        const Tensor got = of.backend->empty({shard.count});
        of.backend->fill(got, 0);
        inbox.unpack(*of.backend, shard, got);
        for (const Piece& piece : shard.pieces) {
          const std::size_t i = piece.parameter;
          const std::vector<float> want =
              by_parameter[i].is_identity() ? of.values[i] : of.worth(i, q, strand);
          const auto values = download(*of.backend, got.part(piece.in_bucket - shard.first, {piece.count}));
          ASSERT_TRUE(std::equal(values.begin(), values.end(), want.begin() + piece.first))
              << text << ", parameter " << i << ", " << devices << " devices";
        }
      }
      std::int64_t planned = 0;
      for (std::size_t i = 0; i < of.shapes.size(); ++i)
        planned += bytes_of_gradient(of.shapes[i], by_parameter[i]);
      // A tensor's multiplier goes to each that has some of its rows.
      EXPECT_GE(sent, planned);
      EXPECT_LE(sent - planned, q.has_multiplier() ? 2 * 4 * devices : 0) << text << ", " << devices;
    }
  }
}

TEST(PackedGradients, DrawsDifferFromStrandToStrand) {
  const Gradients of;
  const Quantizer q = parse_quantizer("mxfp4 round=stochastic");
  const auto worth = [&](std::uint32_t step) {
    const std::vector<Quantizer> by_parameter(of.shapes.size(), q);
    PackedGradients packed(of.shapes, by_parameter);
    packed.pack(*of.backend, of.buckets[0], of.bucket, {.seed = 7, .step = step});
    const Shard whole = cut(of.buckets[0], 1)[0];
    const Tensor y = of.backend->empty({whole.count});
    of.backend->fill(y, 0);
    packed.part(whole).unpack(*of.backend, whole, y);
    return download(*of.backend, y);
  };
  EXPECT_NE(worth(1), worth(2));
  EXPECT_EQ(worth(1), worth(1));
}

TEST(PackedGradients, BytesAreThoseOfTheFormat) {
  EXPECT_EQ(bytes_of_gradient({64, 96}, {}), 4 * 64 * 96);
  EXPECT_EQ(bytes_of_gradient({64, 96}, bf16_cast), 2 * 64 * 96);
  EXPECT_EQ(bytes_of_gradient({64, 96}, mxfp8_e4m3), 64 * 96 + 64 * 3);
  EXPECT_EQ(bytes_of_gradient({64, 96}, mxfp4), 64 * 96 / 2 + 64 * 3);
  EXPECT_EQ(bytes_of_gradient({64, 96}, nvfp4), 64 * 96 / 2 + 64 * 6 + 4);
}

TEST(PackedGradients, AModelsMatricesAndTheTiedTableHaveAFormatVectorsHaveNone) {
  Recipe recipe = tiny_mxfp4_recipe(1);
  recipe.train.strands = 2;
  recipe.precision.rules.push_back({"*", {"sum.dw"}, "mxfp8_e4m3", "here"});
  const TokenFile data = tiny_data();
  const auto backend = make_backend("cpu");
  Trainer trainer(*backend, recipe, data);
  const auto parameters = trainer.model().parameters();
  const auto found = sum_formats(parameters, precision_plan(trainer.recipe(), 0));
  int matrices = 0, vectors = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool matrix = parameters[i]->value.shape().rank == 2;
    EXPECT_EQ(found[i], matrix ? mxfp8_e4m3 : Quantizer{}) << parameters[i]->name;
    ++(matrix ? matrices : vectors);
  }
  EXPECT_GT(matrices, 4);
  EXPECT_GT(vectors, 2);
}

TEST(PackedGradients, AGradientThatIsNotFiniteMakesANormThatIsNot) {
  for (const char* text : formats)
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const Gradients of;
      Parameter p{.name = "a.weight", .value = upload(*of.backend, of.shapes[0], of.values[0])};
      AdamW optimizer(*of.backend, {&p}, {});
      Exchange exchange(*of.backend, {&p}, 2, nullptr);
      PrecisionPlan plan;
      plan.sums = {{"a", parse_quantizer(text)}};
      exchange.set_precision(plan);
      for (std::uint32_t s = 0; s < 2; ++s) {
        std::vector<float> gradient = of.values[0];
        if (s == 1) gradient[77] = bad;
        of.backend->upload(p.grad, gradient.data());
        p.has_grad = true;
        exchange.begin_round(s, {.seed = 7, .step = s});
        exchange.end_strand();
        exchange.add_round();
      }
      optimizer.prepare(1);
      const float norm = download(*of.backend, exchange.update(optimizer, "update"))[0];
      EXPECT_FALSE(std::isfinite(norm)) << text << ", " << bad;
    }
}

// Without clipping the factor is 1, and AdamW sees the sums themselves.
TEST(PackedGradients, OneDeviceAddsWhatTheCodesAreWorthToo) {
  for (const char* text : formats) {
    const Quantizer q = parse_quantizer(text);
    const Gradients of;
    PrecisionPlan plan;
    plan.sums = {{"a", q}, {"c", q}};
    const AdamWConfig config{.clip_norm = 0};
    std::vector<Parameter> folded, plain;
    for (const char* name : {"a.weight", "b.gain", "c.weight", "d.weight"})
      for (auto* parameters : {&folded, &plain}) {
        Parameter& p = parameters->emplace_back(Parameter{.name = name});
        p.value = upload(*of.backend, of.shapes[parameters->size() - 1], of.values[parameters->size() - 1]);
      }
    const auto pointers = [](std::vector<Parameter>& parameters) {
      std::vector<Parameter*> all;
      for (Parameter& p : parameters) all.push_back(&p);
      return all;
    };
    AdamW optimizer(*of.backend, pointers(folded), config), reference(*of.backend, pointers(plain), config);
    Exchange exchange(*of.backend, pointers(folded), 2, nullptr);
    exchange.set_precision(plan);
    for (std::uint32_t s = 0; s < 2; ++s) {
      for (std::size_t i = 0; i < folded.size(); ++i) {
        of.backend->upload(folded[i].grad, of.values[i].data());
        folded[i].has_grad = true;
      }
      exchange.begin_round(s, {.seed = 7, .step = 20 + s});
      exchange.end_strand();
      exchange.add_round();
    }
    for (std::size_t i = 0; i < plain.size(); ++i) {
      std::vector<float> sum = of.values[i];
      const bool rounded = i % 2 == 0;
      if (rounded) sum = of.worth(i, q, {.seed = 7, .step = 20});
      const std::vector<float> second = rounded ? of.worth(i, q, {.seed = 7, .step = 21}) : of.values[i];
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += second[k];
      plain[i].grad = upload(*of.backend, of.shapes[i], sum);
      plain[i].has_grad = true;
    }
    optimizer.prepare(1), reference.prepare(1);
    exchange.update(optimizer, "update"), reference.update();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(download(*of.backend, optimizer.m(i)), download(*of.backend, reference.m(i))) << text << i;
      EXPECT_EQ(download(*of.backend, optimizer.v(i)), download(*of.backend, reference.v(i))) << text << i;
    }
  }
}

}  // namespace
}  // namespace mxtape::test
