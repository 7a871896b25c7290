// cuDNN's graphs, without a GPU: cuDNN takes a description of a device instead.
#ifdef MXTAPE_CUDNN
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "kernels/attention/scratch.h"
#include "kernels/cuda/cudnn/cudnn_attention_graphs.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"

namespace mxtape::cuda::cudnn {
namespace {

std::string message_of(const std::string& file) {
  try {
    Library library({file});
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    return e.what();
  }
  return "";
}

TEST(CudnnLibrary, AMissingOneIsNamedWithWhatToDo) {
  const std::string message = message_of("libcudnn_of_nobody.so.9");
  EXPECT_NE(message.find("libcudnn_of_nobody.so.9"), std::string::npos) << message;
  EXPECT_NE(message.find("LD_LIBRARY_PATH"), std::string::npos) << message;
  EXPECT_NE(message.find("--compute.attention=own"), std::string::npos) << message;
}

TEST(CudnnLibrary, AnOldOneIsRefusedWithItsVersion) {
  const std::string message = message_of(MXTAPE_OLD_CUDNN);
  EXPECT_NE(message.find("is cuDNN 9.7.1; want 9.15.1 or newer"), std::string::npos) << message;
}

/// A device of compute capability `major`.`minor` that is otherwise an H200.
std::string device_json(int major, int minor) {
  return fmt::format(
      R"({{"deviceName":"NVIDIA H200","cudaDeviceId":0,"pciDeviceId":0,"deviceVer":{},"driverVer":13000,)"
      R"("multiProcessorCount":132,"warpSize":32,"maxGridSize":[2147483647,65535,65535],)"
      R"("maxBlockSize":[1024,1024,64],"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxCtasPerSM":32,)"
      R"("regsPerBlock":65536,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,)"
      R"("totalGlobalMem":150754820096}})",
      major * 100 + minor * 10);
}

/// Skips where cuDNN is not installed. It looks whether a kernel can be compiled, for which it loads the
/// driver's library; where there is none, the toolkit's stub has the functions that it asks for.
class CudnnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    if (!dlopen("libcuda.so.1", RTLD_NOW) && !dlopen(MXTAPE_CUDA_STUBS "/libcuda.so", RTLD_NOW))
      GTEST_SKIP() << dlerror();
    try {
      library_.emplace();
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  std::size_t configs(const Graph& graph, int major, int minor) const {
    return deterministic_configs(graph.finalized(), described_device(*library_, device_json(major, minor)))
        .size();
  }
  /// Of the engine that a plan would take.
  std::int64_t workspace_bytes(const Graph& graph, int major, int minor) const {
    const auto all =
        deterministic_configs(graph.finalized(), described_device(*library_, device_json(major, minor)));
    std::int64_t bytes = -1, count = 1;
    library_->check(library_->get_attribute(all.at(0).raw(), CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &count, &bytes),
                    "a workspace's size");
    return bytes;
  }
  std::optional<Library> library_;
};

TEST_F(CudnnGraphs, HaveKernelsForWidthsThatAreMultiplesOf8UpTo128) {
  for (std::int64_t width = 8; width <= 128; width += 8) {
    const AttentionShape s{4, 1024, 12, width};
    EXPECT_GE(configs(attention_graph(*library_, s), 9, 0), 1u) << width;
    EXPECT_GE(configs(attention_backward_graph(*library_, s), 9, 0), 1u) << width;
  }
}

TEST_F(CudnnGraphs, HaveNoKernelForOtherWidths) {
  for (const std::int64_t width : {4, 12, 100}) {
    const AttentionShape s{4, 64, 2, width};
    EXPECT_EQ(configs(attention_graph(*library_, s), 9, 0), 0u) << width;
    EXPECT_EQ(configs(attention_backward_graph(*library_, s), 9, 0), 0u) << width;
  }
}

TEST_F(CudnnGraphs, HaveKernelsForShortAndRaggedSequences) {
  for (const std::int64_t time : {2, 7, 100, 1023, 16384}) {
    const AttentionShape s{1, time, 2, 64};
    EXPECT_GE(configs(attention_graph(*library_, s), 9, 0), 1u) << time;
    EXPECT_GE(configs(attention_backward_graph(*library_, s), 9, 0), 1u) << time;
  }
  EXPECT_GE(configs(attention_graph(*library_, {1, 1, 2, 64}), 9, 0), 1u);  // the first token of a sample
}

TEST_F(CudnnGraphs, HaveKernelsForGroupedHeads) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {9, 0}, {10, 0}, {12, 0}})
    for (const std::int64_t kv_heads : {1, 4}) {
      const AttentionShape s{4, 1024, 12, 64, kv_heads};
      EXPECT_GE(configs(attention_graph(*library_, s), major, minor), 1u) << major << " groups " << kv_heads;
      EXPECT_GE(configs(attention_backward_graph(*library_, s), major, minor), 1u)
          << major << " groups " << kv_heads;
    }
}

TEST_F(CudnnGraphs, HaveKernelsFromAmpereToBlackwell) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {10, 0}, {12, 0}})
    for (const std::int64_t width : {64, 128}) {
      const AttentionShape s{4, 1024, 12, width};
      EXPECT_GE(configs(attention_graph(*library_, s), major, minor), 1u) << major << " width " << width;
      EXPECT_GE(configs(attention_backward_graph(*library_, s), major, minor), 1u)
          << major << " width " << width;
    }
}

TEST_F(CudnnGraphs, TakeNoMoreScratchThanTheMemoryPlanCountsAndThatWhereTheirTilesAreFull) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {9, 0}, {10, 0}, {12, 0}})
    for (const AttentionShape& s : {AttentionShape{64, 1024, 12, 64},
                                    {16, 1024, 25, 64},
                                    {4, 2048, 8, 128},
                                    {3, 100, 2, 64},
                                    {2, 1023, 2, 32},
                                    {1, 16, 1, 16},
                                    {4, 1024, 12, 64, 4},
                                    {3, 100, 6, 32, 2}}) {
      const auto counted = attention_scratch(AttentionKernels::cudnn, s, AttentionQuant{}, DType::bf16);
      const std::int64_t delta = 4 * s.batch * s.heads * s.time;  // the backend's own
      const std::int64_t forward = workspace_bytes(attention_graph(*library_, s), major, minor);
      const std::int64_t backward = workspace_bytes(attention_backward_graph(*library_, s), major, minor);
      EXPECT_LE(forward, counted.forward) << major << " T " << s.time;
      EXPECT_LE(backward, counted.backward - delta) << major << " T " << s.time;
      if (s.time % 128 != 0) continue;
      EXPECT_GE(backward, counted.backward - delta - 256) << major << " T " << s.time;
    }
}

TEST_F(CudnnGraphs, AGraphThatIsNoAttentionHasNoPlanAndSaysSo) {
  Graph g(*library_);
  const Value x = g.stored(dense(1, 1, 64, 4)), y = g.stored(dense(1, 1, 64, 64));
  g.matmul(x, g.turned(x, CUDNN_DATA_BFLOAT16), y);
  try {
    Plan(g, described_device(*library_, device_json(9, 0)));
    FAIL() << "planned";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resource);
    EXPECT_NE(std::string(e.what()).find("--compute.attention=own"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mxtape::cuda::cudnn
#endif
