// call::Quantize into the stored layout, on CPUs: strips that the vector loops pack have the definition's
// bytes.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/choose/make_backend.h"
#include "kernels/cpu/stored.h"
#include "kernels/mx_transfer.h"
#include "tests/formats/random_quantizer.h"
#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"

namespace mxtape {
namespace {

using namespace test;

bool packs_as_defined(Backend& backend, const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                      Axis axis, const Quantizer& q) {
  const DrawKey draws{.seed = 5, .tensor_id = 9, .step = 2, .first_element = 12345};
  std::int64_t first_uncoded = -1;
  const MxTensor want = pack(x.data(), rows, cols, axis, q, draws, first_uncoded);
  const MxTensor got = pack(backend, x.data(), rows, cols, axis, q, draws);
  return got.codes == want.codes && got.scales == want.scales && got.multiplier == want.multiplier;
}

TEST(CpuPack, StripsOfEveryFormatHaveTheDefinitionsBytesOnEveryTier) {
  const auto backend = make_backend("cpu");
  const cpu::Tier best = cpu::tier();
  int packed = 0;
  for (const cpu::Tier tier : tiers_of_this_machine()) {
    cpu::set_tier(tier);
    for (const NamedFormat& element : element_formats)
      for (const char* words : {"block=32 scale=e8m0", "block=32 scale=e8m0 rule=even round=stochastic",
                                "block=32 scale=e8m0 rule=rceil alpha=0.75", "block=32 scale=e8m0 flush",
                                "block=16 scale=e8m0 round=stochastic sr.bits=10", "block=64 scale=e5m0"}) {
        Quantizer q;
        try {
          q = parse_quantizer(fmt::format("{} {}", element.name, words));
        } catch (const Error&) {
          continue;
        }
        if (!cpu::packs_tiles(q)) continue;
        for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{70, 65}, {33, 4200}, {1, 7}})
          for (const Axis axis : {Axis::row, Axis::column}) {
            std::vector<float> x = normals(rows * cols, 3);
            for (std::size_t i = 0; i < x.size(); ++i) {
              if (i % 97 < 40) x[i] = i % 2 ? 0.0f : -0.0f;
              if (i % 5 == 0) x[i] *= 1e-30f;
              if (i % 501 == 0) x[i] = i % 2 ? 1e-42f : 3e38f;
            }
            ASSERT_TRUE(packs_as_defined(*backend, x, rows, cols, axis, q))
                << to_text(q) << " " << rows << " x " << cols << ", " << cpu::name_of(tier);
            ++packed;
          }
      }
  }
  cpu::set_tier(best);
  EXPECT_GT(packed, 200);
}

TEST(CpuPack, ABlockThatIsNotFiniteIsLeftToTheDefinition) {
  const auto backend = make_backend("cpu");
  for (const char* format : {"mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp4", "mxint8"})
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = normals(64 * 96, 4);
      x[5000] = bad;
      for (const Axis axis : {Axis::row, Axis::column})
        EXPECT_TRUE(packs_as_defined(*backend, x, 64, 96, axis, parse_quantizer(format))) << format;
    }
}

}  // namespace
}  // namespace mxtape
