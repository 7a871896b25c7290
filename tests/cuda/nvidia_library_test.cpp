#include "kernels/cuda/nvidia_library.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "kernels/cuda/gemm/cublas_lt.h"

namespace mxtape::test {
namespace {

template <class Load>
std::string message_of(const Load& load) {
  try {
    load();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    return e.what();
  }
  return "";
}

TEST(NvidiaLibrary, ThatIsMissingIsAnErrorThatSaysWhereItWasLookedFor) {
  const std::vector<std::string> candidates{"libnowhere.so.1", "/nowhere/libnowhere.so"};
  EXPECT_EQ(
      message_of([&] { cuda::load_cublas_lt(candidates); }),
      "cuda: cuBLASLt is not installed; looked for libnowhere.so.1, /nowhere/libnowhere.so; install CUDA "
      "12.8 or newer (libcublas), or put its libraries first on LD_LIBRARY_PATH, or use "
      "the device cpu");
}

TEST(NvidiaLibrary, ThatIsTooOldIsAnErrorThatSaysHowOld) {
  const std::vector<std::string> candidates{"libnowhere.so.1", MXTAPE_OLD_CUBLAS};
  EXPECT_EQ(message_of([&] { cuda::load_cublas_lt(candidates); }),
            "cuda: " MXTAPE_OLD_CUBLAS
            " is cuBLASLt 12.4.5; want 12.8.0 or newer: install CUDA 12.8 or newer (libcublas), or put its "
            "libraries first on LD_LIBRARY_PATH, or use the device cpu");
}

TEST(NvidiaLibrary, ThatLacksAFunctionIsAnErrorThatNamesIt) {
  const std::vector<std::string> candidates{MXTAPE_OLD_CUBLAS};
  const cuda::NvidiaLibrary library({"cuda", "cuBLASLt", "cublasLtGetVersion", 120405, "do without"},
                                    candidates);
  EXPECT_EQ(library.version(), 120405u);
  void (*function)() = nullptr;
  EXPECT_EQ(message_of([&] { library.find(function, "cublasLtCreate"); }),
            "cuda: " MXTAPE_OLD_CUBLAS " has no function cublasLtCreate; do without");
}

}  // namespace
}  // namespace mxtape::test
