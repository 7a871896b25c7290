// Every copy is the definition of its quantizer.
#include "formats/rotation.h"
#include "tests/kernels/quantize_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(Quantize, EqualsTheDefinitionForEveryPresetRuleAndRoundingOnEveryTier) {
  std::vector<std::string> quantizers{"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3",
                                      "mxfp4",      "mxint8",     "nvfp4"};
  for (const char* element : {"e2m1", "e4m3", "int4"})
    for (const NamedRule& rule : scale_rules)
      for (const NamedRounding& rounding : roundings)
        quantizers.push_back(
            fmt::format("{} block=32 scale=e8m0 rule={} round={}", element, rule.name, rounding.name));
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const std::string& q : quantizers)
      for (const Content kind : {Content::normal, Content::spread, Content::specials}) {
        const auto [rows, cols] = shapes[seed / 2 % shapes.size()];  // f32 and bf16 each
        ++seed;
        expect_definition({q, rows, cols, kind}, {.seed = seed}, seed % 5 == 0);
        if (HasFailure()) return;
      }
  });
}

// Options without a vector loop, or with a way of their own through one.
TEST_F(Quantize, EqualsTheDefinitionForUncommonOptions) {
  const char* const quantizers[] = {"bf16",
                                    "bf16 round=stochastic",
                                    "e4m3",
                                    "f16",
                                    "mxfp4 block=16",
                                    "mxfp4 block=64",
                                    "mxfp4 block=48",
                                    "mxfp4 block=7",
                                    "mxfp4 block=axis",
                                    "mxfp4 block=tensor",
                                    "mxfp4 block=32x32",
                                    "mxfp8_e4m3 block=16x64",
                                    "mxfp4 block=5x3",
                                    "nvfp4 block=16x16",
                                    "nvfp4 round=stochastic",
                                    "nvfp4 4o6",
                                    "nvfp4 scale=ue7m1",  // of tiny blocks without an inverse
                                    "nvfp4 scale=ue7m1 round=stochastic",
                                    "mxfp4 alpha=0.75 round=stochastic",
                                    "mxfp4 scale=e5m0",
                                    "mxfp4 scale=e4m0 overflow=nan",
                                    "mxfp4 scale=f32",
                                    "mxfp4 offset=fp16",
                                    "mxfp4 flush",
                                    "mxint8 range=full",
                                    "e3m0 scale=e8m0 block=32",
                                    "e3m0 scale=e8m0 block=32 tie=code",
                                    "e5m6 scale=e8m0 block=32",
                                    "e7m6 scale=e8m0 block=32",
                                    "int24 scale=e8m0 block=32",
                                    "int24 scale=e8m0 block=32 round=away",
                                    "e5m22",
                                    "mxfp4 round=stochastic sr.bits=8",
                                    "mxfp4 round=stochastic sr.bits=20",
                                    "mxint8 round=stochastic",
                                    "bf16 scale=e8m0 block=32"};
  std::uint64_t seed = 1000;
  for (const char* q : quantizers)
    for (const Content kind : {Content::normal, Content::spread, Content::specials})
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        const auto [rows, cols] = shapes[i];
        ++seed;
        if (!is_in_turn(kind, i)) continue;
        expect_definition({q, rows, cols, kind}, {.seed = seed, .first_element = seed % 3 ? seed : 0});
        if (HasFailure()) return;
      }
}

TEST_F(Quantize, FourOverSixEqualsTheDefinitionOnEveryTier) {
  expect_definitions(3000, {"nvfp4 4o6", "nvfp4 4o6 error=mae", "nvfp4 4o6 block=32 round=stochastic",
                            "nvfp4 4o6 block=64 alpha=0.75", "nvfp4 4o6 round=zero", "nvfp4 4o6 scale=e5m2",
                            "nvfp4 4o6 block=16x16", "e2m1 block=16 scale=f32 4o6"});
}

TEST_F(Quantize, MidpointsEqualTheDefinitionOnEveryTier) {
  expect_definitions(
      4000, {"int4 block=32 scale=e8m0 emax=3 rule=ceil offset=fp16", "mxfp4 offset=fp16",
             "mxfp4 block=8 offset=fp16 round=stochastic", "mxint8 block=64 offset=fp16 round=stochastic",
             "e2m1 block=16 scale=f32 offset=fp16", "mxfp4 block=32x32 offset=fp16",
             "mxfp4 block=128 offset=fp16", "mxfp4 flush offset=fp16"});
}

TEST_F(Quantize, TwoDifferentQuantizersInOneCallAreEachTheirOwnDefinition) {
  const char* const pairs[][2] = {{"mxfp4", "mxfp8_e4m3 block=16"},
                                  {"mxfp4 round=stochastic", "mxint8 round=stochastic"},
                                  {"mxfp4 round=stochastic", "mxfp4 round=stochastic sr.bits=8"},
                                  {"nvfp4", "mxfp4 round=stochastic"},
                                  {"nvfp4 round=stochastic", "mxfp4 alpha=0.75 round=stochastic"},
                                  {"mxfp4 round=away", "mxint8 range=full round=stochastic"},
                                  {"bf16", "mxfp4"},
                                  {"mxfp4 block=48", "mxfp4"}};
  std::uint64_t seed = 1;
  for (const auto& pair : pairs)
    for (const auto [rows, cols] : shapes) {
      const Shape shape{rows, cols};
      auto host = content(Content::spread, rows * cols, seed);
      const Tensor x = upload_as(seed % 2 ? DType::f32 : DType::bf16, shape, host);
      const DrawKey key{.seed = seed++, .first_element = seed % 3 ? 8 * seed : 0};
      Rounded copies[] = {copy_for(parse_quantizer(pair[0]), Axis::row, shape),
                          copy_for(parse_quantizer(pair[1]), Axis::column, shape)};
      if (seed % 2) std::swap(copies[0], copies[1]);
      quantize(device(), copies, x, key);
      for (const Rounded& copy : copies) expect_copy(copy, host, key);
      if (HasFailure()) return;
    }
}

// Scales of square tiles are the same along both axes; what is left to differ are the draws.
TEST_F(Quantize, BothCopiesOfAnElementUseTheSameSixteenBits) {
  const Quantizer q = parse_quantizer("mxfp4 block=32x32 round=stochastic");
  for (const std::uint64_t first : {0, 8, 3}) {
    const Shape shape{64, 96};
    Rounded copies[] = {copy_for(q, Axis::row, shape), copy_for(q, Axis::column, shape)};
    quantize(device(), copies, normal(shape, 1), {.seed = 2, .first_element = first});
    EXPECT_EQ(download(device(), copies[0].elements), download(device(), copies[1].elements));
  }
}

TEST_F(Quantize, RotatedCopiesAreTheDefinitionsOfRotationAndQuantizerInTurn) {
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const std::int32_t size : {2, 8, 16, 32, 256})
      for (const auto [rows, cols] : shapes)
        for (const Axis axis : {Axis::row, Axis::column}) {
          auto host = normals(rows * cols, unsigned(seed));
          const Tensor x = upload_as(seed % 3 ? DType::f32 : DType::bf16, {rows, cols}, host);
          Rounded copy = copy_for(seed % 4 ? mxfp4 : nvfp4, axis, {rows, cols});
          copy.by.rotation = {size, seed % 2 ? SignsPer::run : SignsPer::none};
          copy.by.signs = {.seed = seed++, .purpose = Purpose::hadamard_signs};
          quantize(device(), {&copy, 1}, x);
          rotate_reference(host.data(), host.data(), rows, cols, axis, copy.by.rotation, copy.by.signs);
          expect_copy(copy, host, {});
          if (HasFailure()) return;
        }
  });
}

}  // namespace
}  // namespace mxtape::test
