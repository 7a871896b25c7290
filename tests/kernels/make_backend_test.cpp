#include "kernels/choose/make_backend.h"

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace mxtape {
namespace {

TEST(MakeBackend, AnUnknownDeviceIsAnErrorThatNamesTheKnownOnes) {
  try {
    make_backend("tpu");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_TRUE(std::string(e.what()).starts_with("no device 'tpu'; this build has: cpu")) << e.what();
  }
}

TEST(MakeBackend, CudaIsThereOrRefusedWithTheReasonAndTheWayOut) {
  try {
    EXPECT_TRUE(make_backend("cuda")->description().starts_with("cuda, "));
  } catch (const Error& e) {
    const std::string text = e.what();
    if (e.code() == ExitCode::usage) {
      EXPECT_TRUE(text.find("this build has no CUDA backend; configure with -DMXTAPE_CUDA=ON") !=
                  std::string::npos)
          << text;
    } else {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_TRUE(text.starts_with("cuda: ")) << text;
      EXPECT_TRUE(text.find("the device cpu") != std::string::npos) << text;
    }
  }
}

TEST(MakeBackend, IntegerGemmsAreTheCpusAndRefusedElsewhereWithTheWayOut) {
  EXPECT_EQ(make_backend("cpu", {.gemm = GemmKernels::integer})->gemm_kernels(), GemmKernels::integer);
  EXPECT_EQ(make_backend("cpu")->gemm_kernels(), GemmKernels::library);
  EXPECT_EQ(quicker_gemm_kernels("cuda"), GemmKernels::library);
  try {
    make_backend("cuda", {.gemm = GemmKernels::integer});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_EQ(std::string(e.what()),
              "compute.gemm: integer GEMMs are the CPU's, the device is 'cuda'; use --compute.gemm=library");
  }
}

}  // namespace
}  // namespace mxtape
