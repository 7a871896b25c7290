// New weights as codes and scales (train.gather = copies): put together from strips that their owners have
// packed, copies have the bits of those that are made of the whole weight.
#include "train/devices/packed_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "autograd/round.h"
#include "kernels/choose/make_backend.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), std::size_t(a.bytes())) == 0);
}
/// Of a block of zeros that is kept as codes the scale may be any.
bool same_copies(Backend& backend, const Rounded& a, const Rounded& b) {
  return same_bytes(a.elements, b.elements) && same_bytes(a.multiplier, b.multiplier) &&
         same_bytes(value_of(backend, a), value_of(backend, b));
}

/// A weight of a linear layer, with the copies of a first version and then the values of a second one.
struct Weight {
  std::unique_ptr<Backend> backend;
  LinearQuant quant;
  Parameter parameter{.name = "a.weight"};
  PassKey pass{.seed = 3};
  std::uint32_t id = 40;

  Weight(GemmKernels kernels, const LinearQuant& q, const Shape& shape)
      : backend(make_backend("cpu", {.gemm = kernels})), quant(q) {
    parameter.value = upload(*backend, shape, normals(shape.count(), 1));
    make_weight_copies(*backend, parameter, use_of(parameter, quant, id, pass, backend->gemm_kernels()),
                       true);
  }
  std::vector<LinearWeight> weights() { return {{"a", parameter, quant, id}}; }
  std::string reason() { return CopiesThatTravel({&parameter}, weights()).reason_for_values(0); }

  /// True if what `devices` of them send each other makes the copies of the new values; `sent` becomes its
  /// bytes.
  bool travels_well(int devices, const std::vector<float>& values, std::int64_t& sent) {
    const Shape shape = parameter.value.shape();
    const std::vector<Bucket> buckets = make_buckets({&shape, 1});
    const CopiesThatTravel which({&parameter}, weights());
    const Tensor bucket = backend->empty({buckets[0].count});
    parameter.value = bucket.part(0, shape);
    backend->upload(parameter.value, values.data());
    std::vector<WeightsOnTheirWay> all;
    for (int i = 0; i < devices; ++i) all.emplace_back(*backend, buckets[0], bucket, which);
    const std::vector<Shard> shards = cut(buckets[0], devices);
    sent = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      all[i].pack(*backend, shards[i]);
      const auto from = all[i].parts(shards[i]), to = all[0].parts(shards[i]);
      for (std::size_t k = 0; k < from.size(); ++k) {
        sent += from[k].bytes();
        if (from[k].raw() != to[k].raw()) backend->copy(to[k], from[k]);
      }
    }
    all[0].unpack(*backend);
    make_again(*backend, parameter);
    count_update(parameter);
    Parameter whole{.name = "b.weight", .value = upload(*backend, shape, values), .version = 2};
    make_weight_copies(*backend, whole, use_of(whole, quant, id, pass, backend->gemm_kernels()), true);
    return parameter.copies.version == 2 &&
           same_copies(*backend, parameter.copies.fprop, whole.copies.fprop) &&
           same_copies(*backend, parameter.copies.dgrad, whole.copies.dgrad);
  }
};

LinearQuant with_weights(const Quantizer& fprop, const Quantizer& dgrad) {
  LinearQuant quant;
  quant.fprop_w = fprop, quant.dgrad_w = dgrad;
  quant.fprop_x = quant.dgrad_dy = mxfp4;  // integer codes on the other side, too
  return quant;
}

/// Zeros of both signs, a block of zeros, and numbers of all sizes.
std::vector<float> new_values(std::int64_t count) {
  std::vector<float> values = normals(count, 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 7 == 0) values[i] = i % 2 ? 0.0f : -0.0f;
    if (i % 11 == 0) values[i] *= 1e-20f;
    if (i % 640 < 64) values[i] = -0.0f;
  }
  values[3] = 1e-42f, values[5] = 3e38f;
  return values;
}

TEST(PackedWeights, CopiesFromStripsAreThoseOfTheWholeWeight) {
  const struct {
    const char* format;
    double bytes;  // an element, of both copies
  } cases[] = {{"bf16", 2},
               {"bf16 round=stochastic", 2},
               {"mxfp8_e4m3 rule=rceil", 2 + 2 / 32.},
               {"mxfp8_e5m2 round=stochastic", 2 + 2 / 32.},
               {"mxfp6_e3m2", 1.5 + 2 / 32.},
               {"mxfp4 rule=even", 1 + 2 / 32.},
               {"mxfp4 round=stochastic", 1 + 2 / 32.},
               {"mxfp4 alpha=0.75", 1 + 2 / 32.},
               {"mxfp4 statistic=rms rule=rnearest", 1 + 2 / 32.},
               {"nvfp4 outer=none", 1 + 2 / 16.},
               {"e2m1 block=16 scale=e5m2 outer=none", 1 + 2 / 16.},
               {"e3m0 block=32 scale=e8m0", 1 + 2 / 32.}};
  for (const auto& [format, bytes] : cases)
    for (const GemmKernels kernels : {GemmKernels::library, GemmKernels::integer})
      for (const Shape& shape : {Shape{700, 48}, {513, 65}, {96, 320}})
        for (const int devices : {1, 2, 3, 7}) {
          const Quantizer q = parse_quantizer(format);
          Weight weight(kernels, with_weights(q, q), shape);
          ASSERT_EQ(weight.reason(), "") << format;
          std::int64_t sent = 0;
          ASSERT_TRUE(weight.travels_well(devices, new_values(shape.count()), sent))
              << format << ", " << shape.text() << ", " << devices << " devices, "
              << (kernels == GemmKernels::integer ? "integer" : "library");
          if (shape == Shape{96, 320}) {
            EXPECT_EQ(double(sent), bytes * double(shape.count())) << format;
          }
        }
}

TEST(PackedWeights, OneCopyForBothAxesTravelsOnceAndAnIntegerOneAsCodes) {
  const auto sent = [](const char* format, GemmKernels kernels, OperandSource source) {
    const Quantizer q = parse_quantizer(format);
    LinearQuant quant = with_weights(q, q);
    quant.dgrad_source = source;
    Weight weight(kernels, quant, {256, 320});
    EXPECT_EQ(weight.reason(), "") << format;
    std::int64_t bytes = 0;
    EXPECT_TRUE(weight.travels_well(3, new_values(256 * 320), bytes)) << format;
    return double(bytes) / (256 * 320);
  };
  const auto master = OperandSource::master, forward = OperandSource::forward;
  EXPECT_EQ(sent("mxfp4 block=32x32", GemmKernels::library, master), 0.5 + 1. / 1024);
  EXPECT_EQ(sent("mxfp4 block=32x32", GemmKernels::integer, master), 1 + 2. / 1024);
  EXPECT_EQ(sent("mxfp4 block=16x16", GemmKernels::library, OperandSource::shared), 0.5 + 1. / 256);
  EXPECT_EQ(sent("mxfp8_e4m3", GemmKernels::library, forward), 1 + 1. / 32);
  EXPECT_EQ(sent("mxfp4 round=stochastic", GemmKernels::integer, forward), 0.5 + 1. / 32);
}

TEST(PackedWeights, CodesOfIntegersTravelWhereNoNegativeZeroIsMultiplied) {
  LinearQuant quant = with_weights(mxint8, mxint8);
  quant.fprop_x = quant.dgrad_dy = mxint8;
  Weight in_codes(GemmKernels::integer, quant, {513, 65});
  EXPECT_EQ(in_codes.reason(), "");
  std::int64_t sent = 0;
  EXPECT_TRUE(in_codes.travels_well(3, new_values(513 * 65), sent));
  Weight in_values(GemmKernels::library, quant, {513, 65});
  EXPECT_EQ(in_values.reason(), "integers, whose codes have no negative zero");
}

TEST(PackedWeights, AnyRoundingWithoutAnObstacleTravelsWell) {
  std::map<std::string, int> seen;
  for_all(
      "copies of strips == copies of the whole", 400,
      [](Random& random) {
        const auto one = [&] {
          for (;;) {
            Quantizer q = random_quantizer(random);
            if (q.contradiction().empty()) return q;
          }
        };
        return std::tuple(with_weights(one(), one()), random() % 2 == 0,
                          Shape{integer_in(random, 1, 5) * 40, integer_in(random, 100, 300)},
                          int(integer_in(random, 1, 4)));
      },
      [&](const auto& input) {
        const auto& [quant, integer, shape, devices] = input;
        Weight weight(integer ? GemmKernels::integer : GemmKernels::library, quant, shape);
        const std::string reason = weight.reason();
        ++seen[reason];
        std::int64_t sent = 0;
        const bool well = !reason.empty() || weight.travels_well(devices, new_values(shape.count()), sent);
        if (!well) ADD_FAILURE() << to_text(quant.fprop_w) << "; " << to_text(quant.dgrad_w);
        return well;
      });
  for (const auto& [reason, count] : seen) std::printf("%4d %s\n", count, reason.c_str());
  EXPECT_GT(seen[""], 20);
}

TEST(PackedWeights, AReasonIsGivenForWhatTravelsAsValues) {
  const auto reason = [](const char* format, const std::function<void(LinearQuant&)>& change = {}) {
    const Quantizer q = parse_quantizer(format);
    LinearQuant quant = with_weights(q, q);
    if (change) change(quant);
    return Weight(GemmKernels::library, quant, {96, 128}).reason();
  };
  EXPECT_EQ(reason("f32"), "a GEMM reads it in f32");
  EXPECT_EQ(reason("mxfp4", [](auto& q) { q.dgrad_w = {}; }), "a GEMM reads it in f32");
  EXPECT_EQ(reason("nvfp4"), "a scale of the whole tensor");
  EXPECT_EQ(reason("nvfp4 block=16x16"), "a scale of the whole tensor");
  EXPECT_EQ(reason("mxfp4 block=64"), "blocks that strips of 32 rows cut");
  EXPECT_EQ(reason("e2m1 block=0x1 scale=e8m0"), "blocks that strips of 32 rows cut");
  EXPECT_EQ(reason("mxint8"), "integers, whose codes have no negative zero");
  EXPECT_EQ(reason("e2m1"), "no code for NaN");
  EXPECT_EQ(reason("mxfp4", [](auto& q) { q.fprop_rotation.size = 32; }), "rotated before rounding");
  EXPECT_EQ(reason("mxfp4", [](auto& q) { q.w_ste = parse_straight_through("ste=mask"); }),
            "its straight-through gradient reads it");
  EXPECT_EQ(reason("e7m16 block=32 scale=f32"), "its copies are no smaller");
  Weight tied(GemmKernels::library, with_weights(mxfp4, mxfp4), {96, 128});
  EXPECT_EQ(CopiesThatTravel({&tied.parameter}, {{"head", tied.parameter, tied.quant, 1, true}})
                .reason_for_values(0),
            "the embedding reads it");
  EXPECT_EQ(CopiesThatTravel({&tied.parameter}, {}).reason_for_values(0), "train.gather = values");
}

}  // namespace
}  // namespace mxtape::test
