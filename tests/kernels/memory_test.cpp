#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/normal.h"
#include "core/parallel.h"
#include "kernels/make_backend.h"

namespace mxtape {
namespace {

constexpr std::int64_t many = 300'001;  // several ranges of every loop, and a ragged end

class CpuMemory : public testing::Test {
 protected:
  ~CpuMemory() override { set_threads(threads_before); }
  const int threads_before = threads();
  std::unique_ptr<Backend> backend = make_backend("cpu");
};

TEST_F(CpuMemory, UploadedBytesComeBack) {
  std::vector<std::int32_t> sent(many), received(many);
  std::iota(sent.begin(), sent.end(), -7);
  const Tensor x = backend->empty({many}, DType::i32), y = backend->empty({many}, DType::i32);
  backend->upload(x, sent.data());
  backend->copy(y, x);
  backend->download(received.data(), y);
  EXPECT_EQ(sent, received);
}

TEST_F(CpuMemory, TensorsStartAtCacheLines) {
  for (const std::int64_t count : {1, 3, 1000})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(backend->empty({count}, DType::u8).raw()) % 64, 0u);
}

TEST_F(CpuMemory, UsedBytesCountLivingTensorsAndPeakTheMostOfThem) {
  const auto before = backend->used_bytes();
  {
    const Tensor x = backend->empty({1024});
    EXPECT_EQ(backend->used_bytes() - before, 4096);
  }
  EXPECT_EQ(backend->used_bytes(), before);
  EXPECT_GE(backend->peak_bytes(), before + 4096);
}

TEST_F(CpuMemory, FillWritesEveryElementOfF32AndBf16AndRefusesCodes) {
  const Tensor x = backend->empty({many}), y = backend->empty({many}, DType::bf16);
  backend->fill(x, 2.5f);
  backend->fill(y, -3);
  for (const float v : x.host()) ASSERT_EQ(v, 2.5f);
  for (const bf16 v : y.host<bf16>()) ASSERT_EQ(to_f32(v), -3.0f);
  EXPECT_THROW(backend->fill(backend->empty({1}, DType::u8), 1), Error);
}

TEST_F(CpuMemory, TheFirstElementThatIsNotFiniteIsFoundAtAnyPlace) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = backend->empty({many}, dtype);
    backend->fill(x, 0x1.fep127f);  // the largest bf16: one bit from infinity
    EXPECT_EQ(backend->first_nonfinite(x), -1);
    for (const std::int64_t place : {many - 1, many / 2, std::int64_t{0}}) {
      const bool nan = place == many / 2;
      if (dtype == DType::f32)
        x.data()[place] = nan ? NAN : -INFINITY;
      else
        x.data<bf16>()[place] = to_bf16(nan ? NAN : -INFINITY);
      EXPECT_EQ(backend->first_nonfinite(x), place) << name_of(dtype);
    }
  }
}

TEST_F(CpuMemory, NormalDrawsDependOnTheIndexInTheGlobalTensorOnly) {
  const Tensor whole = backend->empty({many}), part = backend->empty({many - 1001});
  const DrawKey key{.seed = 5, .purpose = Purpose::initialisation, .tensor_id = 3};
  DrawKey later = key;
  later.first_element = 1001;  // odd: the second of a pair
  set_threads(1);
  backend->normal(whole, 0.5f, key);
  set_threads(3);
  backend->normal(part, 0.5f, later);
  for (std::int64_t i = 0; i < part.count(); ++i) ASSERT_EQ(part.data()[i], whole.data()[i + 1001]) << i;
}

TEST_F(CpuMemory, NormalDrawsHaveTheMomentsOfTheNormalDistribution) {
  const Tensor x = backend->empty({many});
  backend->normal(x, 2, {.seed = 11, .purpose = Purpose::initialisation});
  double sum = 0, squares = 0, fourths = 0, neighbours = 0;
  for (std::int64_t i = 0; i < many; ++i) {
    const double v = x.data()[i] / 2.0;
    sum += v, squares += v * v, fourths += v * v * v * v;
    if (i) neighbours += v * x.data()[i - 1] / 2.0;
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

TEST(MakeBackend, AnUnknownDeviceIsAnErrorThatNamesTheKnownOnes) {
  try {
    make_backend("tpu");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "compute.device: no device 'tpu'; this build has: cpu");
  }
}

}  // namespace
}  // namespace mxtape
