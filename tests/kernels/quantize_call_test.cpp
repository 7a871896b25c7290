// What a call of call::Quantize does besides rounding: sums, threads, clocks, memory, errors.
#include "formats/rotation.h"
#include "tests/kernels/quantize_fixture.h"

namespace mxtape::test {
namespace {

TEST_F(Quantize, ColumnSumsAreTheSameBesideCopiesAndOnEveryTierAndAddToWhatWasThere) {
  for (const auto [rows, cols] : {std::array{1000, 133}, {1, 5}, {33, 64}, {2100, 8}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Shape shape{rows, cols};
      auto host = normals(shape.count(), 5);
      const Tensor x = upload_as(dtype, shape, host), sums = device().empty({cols});
      quantize(device(), {}, x, {}, sums);
      const auto want = download(device(), sums);
      const std::int64_t strips = (rows + 31) / 32;
      for (std::int64_t c = 0; c < cols; ++c) {
        double exact = 0, magnitudes = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          exact += double(host[std::size_t(r * cols + c)]);
          magnitudes += std::fabs(double(host[std::size_t(r * cols + c)]));
        }
        // Strips of 32 rows, then the strips: at most so many additions deep (Higham, section 4.2).
        ASSERT_NEAR(want[std::size_t(c)], exact, double(32 + strips) * 0x1p-24 * magnitudes) << c;
      }
      on_every_tier([&] {
        for (const char* text : {"mxfp4", "mxfp4 block=64", "bf16"}) {
          Rounded copy = copy_for(parse_quantizer(text), Axis::column, shape);
          device().fill(sums, 1);
          quantize(device(), {&copy, 1}, x, {}, sums, Write::accumulate);
          const auto got = download(device(), sums);
          for (std::size_t c = 0; c < want.size(); ++c) ASSERT_EQ(got[c], 1 + want[c]) << text;
        }
      });
    }
}

TEST_F(Quantize, TheNumberOfThreadsChangesNoBit) {
  if (tested_device != TestedDevice::cpu) GTEST_SKIP() << "threads are the CPU's";
  const Shape shape{500, 700};
  const Tensor x = normal(shape, 3);
  for (const char* text : {"mxfp4 round=stochastic", "nvfp4", "mxfp4 block=48", "bf16"}) {
    std::vector<std::vector<float>> values, sums;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      Rounded copies[] = {copy_for(parse_quantizer(text), Axis::row, shape),
                          copy_for(parse_quantizer(text), Axis::column, shape)};
      const Tensor column_sums = device().empty({700});
      quantize(device(), copies, x, {.seed = 4}, column_sums);
      auto& all = values.emplace_back();
      for (const Rounded& copy : copies) append(all, download(device(), copy.elements));
      sums.push_back(download(device(), column_sums));
    }
    EXPECT_EQ(values[0], values[1]) << text;
    EXPECT_EQ(values[0], values[2]) << text;
    EXPECT_EQ(sums[0], sums[1]) << text;
    EXPECT_EQ(sums[0], sums[2]) << text;
  }
}

TEST_F(Quantize, AKeyThatFollowsAClockDrawsAsItsStepSays) {
  const Shape shape{33, 40};
  auto host = normals(shape.count(), 9);
  const Tensor x = upload(device(), shape, host);
  for (const Clock clock : {Clock::pass, Clock::update}) {
    device().set_clocks(7, 5);
    const DrawKey key{.seed = 1, .step = clock == Clock::pass ? 7u : 5u, .clock = clock};
    Rounded copy = copy_for(parse_quantizer("mxfp4 round=stochastic"), Axis::row, shape);
    quantize(device(), {&copy, 1}, x, key);
    expect_copy(copy, host, key);
  }
}

// What a step records it repeats with the clocks of the day: the draws of a recorded call follow them.
TEST_F(Quantize, ARepeatedCallDrawsAnewWhenTheClockGoesOn) {
  const Shape shape{33, 40};
  auto host = normals(shape.count(), 10);
  const Tensor x = upload(device(), shape, host);
  Rounded copies[] = {copy_for(parse_quantizer("mxfp4 round=stochastic"), Axis::row, shape),
                      copy_for(parse_quantizer("mxfp4 block=48 round=stochastic"), Axis::column, shape)};
  for (copies[0].by.rotation = {16, SignsPer::step}; const std::uint32_t pass : {3u, 4u, 5u, 9u}) {
    device().set_clocks(pass, 0);
    const DrawKey key{.seed = 1, .step = pass, .clock = Clock::pass};
    copies[0].by.signs = {.seed = 2, .purpose = Purpose::hadamard_signs, .step = pass, .clock = Clock::pass};
    device().repeat("quantize", [&] {
      quantize(device(), copies, x, key);
      return std::vector<Tensor>{};
    });
    auto rotated = host;
    rotate_reference(rotated.data(), rotated.data(), 33, 40, Axis::row, copies[0].by.rotation,
                     copies[0].by.signs);
    expect_copy(copies[0], rotated, key);
    expect_copy(copies[1], host, key);
  }
}

TEST_F(Quantize, NothingIsWrittenOutsideTheCopies) {
  for (const std::int64_t guard : {64, 3})  // aligned, and not
    for (const auto [rows, cols] : shapes)
      for (const Axis axis : {Axis::row, Axis::column}) {
        const Tensor memory = device().empty({rows * cols + 2 * guard}, DType::bf16);
        device().fill(memory, 77);
        Rounded copy = wanted(mxfp4, axis, {rows, cols});
        copy.elements =
            Tensor(std::shared_ptr<void>(std::make_shared<Tensor>(memory), memory.data<bf16>() + guard),
                   {rows, cols}, DType::bf16);
        auto host = normals(rows * cols, 6);
        quantize(device(), {&copy, 1}, upload(device(), {rows, cols}, host));
        expect_copy(copy, host, {});
        const auto all = download(device(), memory);
        for (std::int64_t i = 0; i < guard; ++i) {
          ASSERT_EQ(all[std::size_t(i)], 77) << i;
          ASSERT_EQ(all[std::size_t(guard + rows * cols + i)], 77) << i;
        }
      }
}

TEST_F(Quantize, AMissingMultiplierOrAWrongTypeIsAnErrorThatNamesTheQuantizer) {
  const Tensor x = device().empty({2, 16});
  Rounded copy = copy_for(nvfp4, Axis::row, {2, 16});
  copy.multiplier = {};
  EXPECT_THROW(quantize(device(), {&copy, 1}, x), Error);
  copy = copy_for(mxfp4, Axis::row, {2, 16}), copy.elements = device().empty({2, 16});
  EXPECT_THROW(quantize(device(), {&copy, 1}, x), Error);
}

TEST_F(Quantize, ADeviceThatMultipliesNoCodesRefusesThemByName) {
  if (tested_device == TestedDevice::cpu) GTEST_SKIP() << "the CPU multiplies codes";
  EXPECT_EQ(device().gemm_kernels(), GemmKernels::library);
  const Tensor x = device().empty({16, 32}), c = device().empty({16, 16});
  Rounded copy = room_for(device(), mxfp4, Axis::row, x.shape(), Layout::codes);
  const auto refused = [](const auto& work) {
    try {
      work();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused([&] {
              quantize(device(), {&copy, 1}, x);
            }),
            "cuda: quantize: 'mxfp4' is wanted as integer codes, which this device has not");
  EXPECT_EQ(refused([&] {
              device().run(call::Gemm{c, copy, copy});
            }),
            "cuda: gemm: 'mxfp4' is wanted as integer codes, which this device has not");
}

}  // namespace
}  // namespace mxtape::test
