#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/normal.h"
#include "core/parallel.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

constexpr std::int64_t many = 300'001;  // several ranges of every loop, and a ragged end

class Memory : public testing::Test {
 protected:
  ~Memory() override { set_threads(threads_before); }
  const int threads_before = threads();
};

TEST_F(Memory, UploadedBytesComeBack) {
  std::vector<std::int32_t> sent(many), received(many);
  std::iota(sent.begin(), sent.end(), -7);
  const Tensor x = device().empty({many}, DType::i32), y = device().empty({many}, DType::i32);
  device().upload(x, sent.data());
  device().copy(y, x);
  device().download(received.data(), y);
  EXPECT_EQ(sent, received);
}

TEST_F(Memory, TensorsStartAtCacheLines) {
  for (const std::int64_t count : {1, 3, 1000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(device().empty({count}, DType::u8).raw()) % 64, 0u);
}

TEST_F(Memory, UsedBytesCountLivingTensorsAndPeakTheMostOfThem) {
  const auto before = device().used_bytes();
  {
    const Tensor x = device().empty({1024});
    EXPECT_GE(device().used_bytes() - before, 4096);
    EXPECT_LE(device().used_bytes() - before, 4096 + 4096 / 8);  // an idle block that is a little larger
  }
  EXPECT_EQ(device().used_bytes(), before);
  EXPECT_GE(device().peak_bytes(), before + 4096);
}

TEST_F(Memory, FillWritesEveryElementOfF32AndBf16AndRefusesCodes) {
  const Tensor x = device().empty({many}), y = device().empty({many}, DType::bf16);
  device().fill(x, 2.5f);
  device().fill(y, -3);
  for (const float v : download(device(), x)) ASSERT_EQ(v, 2.5f);
  for (const float v : download(device(), y)) ASSERT_EQ(v, -3.0f);
  EXPECT_THROW(device().fill(device().empty({1}, DType::u8), 1), Error);
}

/// `count` elements of `memory` from element `first` on.
Tensor view(const Tensor& memory, std::int64_t first, std::int64_t count) {
  void* const at = static_cast<char*>(memory.raw()) + first * size_of(memory.dtype());
  return {std::shared_ptr<void>(std::make_shared<Tensor>(memory), at), {count}, memory.dtype()};
}

TEST_F(Memory, CopiesConvertBetweenPlacesOfUnlikeAlignmentAndWriteNothingElse) {
  constexpr std::int64_t guard = 16;
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{8}, std::int64_t{15}, std::int64_t{2061}, many}) {
    auto values = normals(count, 3);
    values[0] = -0x1.fffffep127f;  // to bf16: -infinity
    std::vector<float> rounded;
    for (const float v : values) rounded.push_back(to_f32(to_bf16(v)));
    for (const auto& [x_first, y_first] : {std::pair{0, 16}, {4, 8}, {1, 16}, {8, 3}, {5, 7}}) {
      const Tensor wide = view(device().empty({x_first + count}), x_first, count);
      device().upload(wide, values.data());
      const Tensor narrow_all = device().empty({y_first + count + guard}, DType::bf16);
      const Tensor wide_all = device().empty({x_first + count + guard});
      device().fill(narrow_all, 77);
      device().fill(wide_all, 77);
      const Tensor narrow = view(narrow_all, y_first, count);
      device().copy(narrow, wide);
      device().copy(view(wide_all, x_first, count), narrow);
      for (const auto& [all, first] : {std::pair{narrow_all, y_first}, {wide_all, x_first}}) {
        std::vector<float> want(std::size_t(all.count()), 77);
        std::copy(rounded.begin(), rounded.end(), want.begin() + first);
        ASSERT_EQ(download(device(), all), want) << count << " from " << x_first << " to " << y_first;
      }
    }
  }
}

TEST_F(Memory, TheFirstElementThatIsNotFiniteIsFoundAtBothEndsAndInTheMiddle) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = device().empty({many}, dtype);
    device().fill(x, 0x1.fep127f);  // the largest bf16: one bit from infinity
    EXPECT_EQ(device().first_nonfinite(x), -1);
    for (const std::int64_t place : {many - 1, many / 2, std::int64_t{0}}) {
      auto values = download(device(), x);
      values[std::size_t(place)] = place == many / 2 ? NAN : -INFINITY;
      device().copy(x, upload(device(), {many}, values));
      EXPECT_EQ(device().first_nonfinite(x), place) << name_of(dtype);
    }
  }
}

TEST_F(Memory, NormalDrawsDependOnTheIndexInTheGlobalTensorOnly) {
  const Tensor whole = device().empty({many}), part = device().empty({many - 1001});
  const DrawKey key{.seed = 5, .purpose = Purpose::initialisation, .tensor_id = 3};
  DrawKey later = key;
  later.first_element = 1001;  // odd: the second of a pair
  set_threads(1);
  device().run(call::Normal{whole, 0.5f, key});
  set_threads(3);
  device().run(call::Normal{part, 0.5f, later});
  const auto all = download(device(), whole), tail = download(device(), part);
  for (std::size_t i = 0; i < tail.size(); ++i) ASSERT_EQ(tail[i], all[i + 1001]) << i;
}

TEST_F(Memory, NormalDrawsHaveTheMomentsOfTheNormalDistribution) {
  const Tensor x = device().empty({many});
  device().run(call::Normal{x, 2, {.seed = 11, .purpose = Purpose::initialisation}});
  const auto values = download(device(), x);
  double sum = 0, squares = 0, fourths = 0, neighbours = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i] / 2.0;
    sum += v, squares += v * v, fourths += v * v * v * v;
    if (i) neighbours += v * values[i - 1] / 2.0;
  }
  // Five standard errors: the moments 1, 2 and 4 and the correlation of neighbours have variances 1, 2, 96, 1
  // over n.
  const double error = 5 / std::sqrt(double(many));
  EXPECT_NEAR(sum / many, 0, error);
  EXPECT_NEAR(squares / many, 1, error * std::sqrt(2.0));
  EXPECT_NEAR(fourths / many, 3, error * std::sqrt(96.0));
  EXPECT_NEAR(neighbours / many, 0, error);
}

TEST(Normal, LogarithmAndCircleAgreeWithTheCLibraryWithinTheirStatedErrors) {
  for (int i = 1; i < 20000; ++i) {
    const double u = (double(philox({std::uint32_t(i), 0, 0, 0}, 1, 2)[0]) + 1) * 0x1p-32;
    // A relative error of 2^-48; near u = 1 the logarithm itself is as small as 2^-32.
    EXPECT_NEAR(portable_log(u), std::log(u), std::fabs(std::log(u)) * 0x1p-48) << u;
    const auto [c, s] = cos_sin_of_turns(u == 1 ? 0 : u);
    EXPECT_NEAR(c, std::cos(2 * M_PI * u), 0x1p-49) << u;
    EXPECT_NEAR(s, std::sin(2 * M_PI * u), 0x1p-49) << u;
  }
  EXPECT_EQ(portable_log(1), 0);
}

}  // namespace
}  // namespace mxtape::test
