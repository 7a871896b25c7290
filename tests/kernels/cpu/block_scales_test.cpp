// Scales that take sums, draws or a rounding of their own, and blocks of 8: the vector loops give the
// definition's bits.
#include "formats/scale_of_block.h"
#include "kernels/cpu/quantize_tile.h"
#include "kernels/gemm_codes.h"
#include "kernels/mx_transfer.h"
#include "tests/kernels/quantize_fixture.h"
#include "tests/support/straight_through.h"

namespace mxtape::test {
namespace {

const char* const quantizers[] = {"mxfp4 statistic=rms rule=rnearest",
                                  "mxfp4 statistic=rms rule=rfloor clip=1.5 block=16 round=stochastic",
                                  "mxfp4 statistic=rms clip=1e-20",
                                  "mxfp4 statistic=rms clip=1e-7 block=64",
                                  "mxfp4 statistic=rms clip=1e6 scale=e5m0 overflow=nan",
                                  "mxint8 statistic=rms clip=4 block=8 round=away",
                                  "mxfp8_e4m3 statistic=rms clip=1e-30 flush",
                                  "nvfp4 statistic=rms",
                                  "nvfp4 eden scale.round=stochastic alpha=1.012",
                                  "nvfp4 eden scale.round=stochastic sr.bits=8 block=64",
                                  "nvfp4 eden",
                                  "nvfp4 eden scale.round=up round=away block=32",
                                  "nvfp4 eden scale.round=down block=8",
                                  "nvfp4 eden scale=e3m2 outer=none",
                                  "nvfp4 eden 4o6 scale.round=stochastic",
                                  "nvfp4 eden statistic=rms clip=2",
                                  "nvfp4 scale.round=up",
                                  "nvfp4 scale.round=down round=stochastic",
                                  "nvfp4 scale.round=stochastic",
                                  "nvfp4 scale.round=stochastic 4o6 block=32",
                                  "nvfp4 scale.round=up block=16x16",
                                  "nvfp4 scale=e5m2 scale.round=stochastic sr.bits=11",
                                  "nvfp4 scale=ue5m3 outer=none",
                                  "nvfp4 block=8",
                                  "nvfp4 block=8 4o6",
                                  "nvfp4 block=16x16 4o6",
                                  "nvfp4 block=8x32 4o6 error=mae round=stochastic",
                                  "nvfp4 block=64x16 4o6 eden",
                                  "mxfp4 block=32x32 statistic=rms",
                                  "mxfp4 block=16x64 statistic=rms rule=rnearest round=stochastic",
                                  "mxfp4 block=8",
                                  "mxfp4 block=8x8 round=stochastic",
                                  "mxfp8_e4m3 block=8x32",
                                  "mxfp8_e5m2 block=8 rule=rceil round=stochastic",
                                  "e4m3 block=128 scale=f32",
                                  "e4m3 block=128x128 scale=f32 round=stochastic",
                                  "e5m2 block=tensor scale=f32 alpha=0.75",
                                  "int12 block=8x256 scale=f32 round=away",
                                  "int12 block=64 scale=e8m0",
                                  "mxfp4 block=256 rule=even",
                                  "nvfp4 block=tensor",
                                  "e2m1 block=16 scale=e5m10",
                                  "e2m1 block=16 scale=e5m10 scale.round=stochastic"};

constexpr StraightThrough mask{.kind = SteKind::mask};

class BlockScales : public Quantize {
 protected:
  /// Values, codes, bytes and masked gradients, along both axes.
  void expect_definitions(const std::string& text, const std::vector<float>& x, std::int64_t rows,
                          std::int64_t cols, const DrawKey& key) {
    const Quantizer q = parse_quantizer(text);
    ASSERT_TRUE(cpu::fits_tiles(q)) << text;
    SCOPED_TRACE(fmt::format("{} of [{}, {}], {}", text, rows, cols, cpu::name_of(cpu::tier())));
    for (const Axis axis : {Axis::row, Axis::column}) {
      std::vector<float> want(x.size());
      quantize_reference(want.data(), x.data(), rows, cols, axis, q, key);
      const Tensor there = upload(device(), {rows, cols}, x);
      expect_copy(quantized(device(), q, axis, there, key), x, key);
      if (has_integer_codes(q)) expect_codes(want, quantized(device(), q, axis, there, key, Layout::codes));
      if (q.scale == ScaleKind::power_of_two) expect_bytes(x, rows, cols, axis, q, key);
      expect_gradient(x, there, axis, q, key);
    }
  }

  void expect_gradient(const std::vector<float>& x, const Tensor& there, Axis axis, const Quantizer& q,
                       const DrawKey& key);

 private:
  void expect_codes(const std::vector<float>& want, const Rounded& got) {
    const CodeLayout at = code_layout(got);
    const auto* const codes = static_cast<const std::int8_t*>(got.elements.raw());
    const bool by_rows = got.by.axis == Axis::row;
    for (std::int64_t line = 0; line < at.lines; ++line)
      for (std::int64_t k = 0; k < at.depth; ++k) {
        const std::int64_t i = by_rows ? line * at.depth + k : k * at.lines + line;
        const std::int8_t code = codes[at.code_at(line, k)];
        const float value = float(code) * got.scales.data()[at.scale_at(line, k / at.along)];
        const float wanted = want[std::size_t(i)];
        // Codes of scales that are 0 are 0: EDEN's factor may make them so.
        const bool equal = std::isnan(wanted) || wanted == 0 ? code == 0 : value == wanted;
        ASSERT_TRUE(equal) << "code " << i << ": " << value << ", want " << wanted;
      }
  }
  void expect_bytes(const std::vector<float>& x, std::int64_t rows, std::int64_t cols, Axis axis,
                    const Quantizer& q, const DrawKey& key) {
    std::int64_t first_uncoded = -1;
    const MxTensor want = pack(x.data(), rows, cols, axis, q, key, first_uncoded);
    if (first_uncoded >= 0) {
      EXPECT_THROW(pack(device(), x.data(), rows, cols, axis, q, key), Error);
      return;
    }
    const MxTensor got = pack(device(), x.data(), rows, cols, axis, q, key);
    EXPECT_EQ(got.codes, want.codes);
    EXPECT_EQ(got.scales, want.scales);
  }
};

void BlockScales::expect_gradient(const std::vector<float>& x, const Tensor& there, Axis axis,
                                  const Quantizer& q, const DrawKey& key) {
  const auto dy = normals(there.count(), 8);
  std::vector<float> want(dy.size());
  straight_through_reference(want.data(), dy.data(), x.data(), there.rows(), there.cols(), axis, q, mask,
                             key);
  call::QuantizeBackward call{.dx = device().empty(there.shape()),
                              .dy = upload(device(), there.shape(), dy),
                              .x = there,
                              .by = {.quantizer = q, .axis = axis, .draws = key},
                              .ste = mask};
  for (const char* where : {"elsewhere", "in place"}) {
    device().run(call);
    const auto got = download(device(), call.dx);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(same(got[i], want[i])) << where << " " << i << ": x " << x[i] << ", got " << got[i];
    call.dx = call.dy;
  }
}

TEST_F(BlockScales, OfEveryKindAreTheDefinitionOnEveryTier) {
  auto all = shapes;
  all.insert(all.end(), {{300, 70}, {512, 300}, {33, 2500}, {9, 24}, {40, 192}});
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const char* text : quantizers) {
      ++seed;  // another content for each shape than the quantizer before had
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto [rows, cols] = all[i];
        ++seed;
        const auto x = content(Content(seed % 3), rows * cols, seed);
        expect_definitions(text, x, rows, cols, {.seed = seed, .first_element = seed % 4 ? seed : 0});
        if (HasFailure()) return;
      }
    }
  });
}

// Sums of another order differ in their last bits, which few scales show.
TEST_F(BlockScales, AreOfSumsInTheDefinitionsOrder) {
  const int rows = 32, cols = 2048;
  const auto x = normals(rows * cols, 6);
  on_every_tier([&] {
    for (const char* text :
         {"mxfp4 statistic=rms", "e2m1 block=32 scale=e5m10 outer=none eden",
          "mxfp4 block=16x16 statistic=rms", "e2m1 block=8x32 scale=e5m10 outer=none eden"})
      for (const Axis axis : {Axis::row, Axis::column}) {
        const Quantizer q = parse_quantizer(text);
        const BlockRule rule = block_rule(q);
        cpu::TileBlocks got;
        cpu::find_scales(got, {x.data(), cols, rows, cols}, axis, q, rule, 1);
        int blocks = 0;
        for_each_block(rows, cols, block_extent(q.block, rows, cols, axis), [&](const BlockRange& range) {
          const BlockOfMatrix block{x.data(), cols, range};
          const BlockScale want = scale_of_block(rule, 1, block, [] { return 0u; });
          const std::int64_t entry = axis == Axis::row
                                         ? range.row * (cols / q.block.along) + range.col / q.block.along
                                         : range.row / q.block.along * cols + range.col;
          EXPECT_EQ(got.scale[entry], want.scale) << text << " " << entry;
          EXPECT_EQ(got.inverse[entry], want.inverse) << text << " " << entry;
          if (q.statistic == Statistic::rms) {
            const float rms = rms_in_place_of_amax(rule, largest_magnitude(block, 0), block);
            EXPECT_EQ(float_of(got.amax[blocks]), rms) << blocks;
          }
          ++blocks;
        });
        EXPECT_EQ(got.count, blocks);
      }
  });
}

// A mean that underflows is of no block of zeros, and a scale of such a block has no finite inverse.
TEST_F(BlockScales, OfTinyNumbersAreTheDefinition) {
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const char* text : {"mxfp4 statistic=rms clip=1e-20",
                             "mxfp4 statistic=rms clip=1e-7 block=64",
                             "mxfp4 statistic=rms clip=1e-7 alpha=1.9",
                             "mxfp4 statistic=rms clip=1e-7 scale=e4m0",
                             "nvfp4 statistic=rms clip=1e-20",
                             "nvfp4 scale=e6m2",
                             "nvfp4 scale=e7m2",
                             "nvfp4 scale=e7m2 round=stochastic",
                             "nvfp4 scale=ue5m3",
                             "nvfp4 scale=ue5m3 4o6",
                             "nvfp4 scale=ue5m3 eden",
                             "nvfp4 scale=e7m2 eden scale.round=stochastic",
                             "nvfp4 scale=e2m1 eden",
                             "nvfp4 scale=e3m2 outer=none eden alpha=2",
                             "nvfp4",
                             "mxfp4 block=8",
                             "nvfp4 4o6",
                             "nvfp4 4o6 error=mae block=16x16",
                             "e2m1 block=16 scale=e7m2 outer=none 4o6",
                             "e5m2 block=16 scale=e5m2"})
      for (const float size : {0.0f, 1e-45f, 1e-40f, 1e-38f, 1e-36f, 1e-30f, 1e-20f, 1e-10f, 1e30f, 1e38f})
        for (const auto [rows, cols] : {std::array<std::int64_t, 2>{5, 83}, {70, 17}}) {
          auto x = normals(rows * cols, unsigned(++seed));
          for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 7 == 0 || i / 64 % 4 == 3 ? 0 : size;
          expect_definitions(text, x, rows, cols, {.seed = seed});
          if (HasFailure()) return;
        }
  });
}

// Where values have no loops, scales may.
TEST_F(BlockScales, OfWideValuesMaskAsTheDefinition) {
  std::uint64_t seed = 1;
  on_every_tier([&] {
    for (const char* text :
         {"e7m6 block=32 scale=e8m0", "bf16 scale=e8m0 block=32", "mxfp4 round=stochastic sr.bits=20"})
      for (const Content kind : {Content::normal, Content::spread, Content::specials}) {
        const Quantizer q = parse_quantizer(text);
        ASSERT_TRUE(cpu::has_scale_loops(q) && !cpu::fits_tiles(q)) << text;
        SCOPED_TRACE(text);
        const auto x = content(kind, 70 * 90, ++seed);
        for (const Axis axis : {Axis::row, Axis::column})
          expect_gradient(x, upload(device(), {70, 90}, x), axis, q, {.seed = seed});
        if (HasFailure()) return;
      }
  });
}

// Sums over longer blocks, draws of tiles, and scales and draws beyond the loops'.
TEST_F(BlockScales, WithoutLoopsAreLeftToTheDefinition) {
  std::uint64_t seed = 1;
  for (const char* text :
       {"mxfp4 statistic=rms block=128", "nvfp4 eden block=8x128", "nvfp4 scale.round=stochastic block=16x16",
        "nvfp4 scale.round=stochastic sr.bits=20", "nvfp4 scale=e8m1 outer=none", "nvfp4 outer=axis",
        "mxfp4 search", "mxfp4 scale=e9m0", "mxfp4 block=24", "mxint8 offset=int"}) {
    EXPECT_FALSE(cpu::has_scale_loops(parse_quantizer(text))) << text;
    expect_definition({text, 70, 90, Content::spread}, {.seed = ++seed});
  }
}

}  // namespace
}  // namespace mxtape::test
