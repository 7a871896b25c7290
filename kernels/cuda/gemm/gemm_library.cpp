#include "kernels/cuda/gemm/gemm_library.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "kernels/cuda/gemm/gemm_descriptors.h"

namespace mxtape::cuda {
namespace {

/// A product with its algorithm.
struct Plan {
  GemmDescriptors descriptors;
  cublasLtMatmulHeuristicResult_t algorithm;
};

template <class T>
T config(const CublasLt& lt, const cublasLtMatmulAlgo_t& algorithm,
         cublasLtMatmulAlgoConfigAttributes_t what) {
  T value{};
  std::size_t written = 0;
  lt.check(lt.algorithm_attribute(&algorithm, what, &value, sizeof value, &written), "reading an algorithm");
  return value;
}

/// NVIDIA_TF32_OVERRIDE=1 makes cuBLASLt round f32 operands to TF32 whatever it was asked for.
void require_true_f32(const CublasLt& lt, const cublasLtMatmulAlgo_t& algorithm, const GemmKey& key) {
  std::uint64_t flags = 0;
  std::size_t written = 0;
  lt.check(lt.algorithm_capability(&algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags,
                                   &written),
           "reading an algorithm");
  require(!(flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32), ExitCode::resource,
          "cuda: cuBLASLt {} would round the operands of {} to TF32; want f32: unset NVIDIA_TF32_OVERRIDE",
          lt.version, key.text());
}

}  // namespace

struct GemmLibrary::Library {
  const CublasLt& lt;
  const Stream& stream;
  const Tensor workspace;
  cublasLtHandle_t handle = nullptr;
  std::map<GemmKey, Plan> plans;

  Plan& plan_for(const GemmKey& key, const GemmCall& call) {
    if (const auto found = plans.find(key); found != plans.end()) [[likely]]
      return found->second;
    Plan plan{GemmDescriptors(lt, key, workspace_bytes), {}};
    auto& d = plan.descriptors;
    if (call.bias) d.set_bias(lt, call.bias.raw());
    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};  // the best first, but not all need be usable
    int found = 0;
    const cublasStatus_t status =
        lt.choose(handle, d.operation.get(), d.a.get(), d.b.get(), d.c.get(), d.c.get(), d.preference.get(),
                  int(results.size()), results.data(), &found);
    const auto end = results.begin() + found;
    const auto best = std::find_if(results.begin(), end,
                                   [](const auto& result) { return result.state == CUBLAS_STATUS_SUCCESS; });
    require(status == CUBLAS_STATUS_SUCCESS && best != end, ExitCode::resource,
            "cuda: cuBLASLt {} has no algorithm for {} ({}), first elements aligned to {}, {} and {} bytes; "
            "choose sizes that are multiples of 8, or the device cpu",
            lt.version, key.text(), lt.status_name(found ? results[0].state : status), key.c_align,
            key.a_align, key.b_align);
    plan.algorithm = *best;
    if (key.operands == DType::f32) require_true_f32(lt, plan.algorithm.algo, key);
    return plans.emplace(key, std::move(plan)).first->second;
  }
};

GemmLibrary::GemmLibrary(const Stream& stream, const Tensor& workspace)
    : library_(new Library{cublas_lt(), stream, workspace, nullptr, {}}) {
  require(workspace.bytes() == workspace_bytes, "cuda: cuBLASLt's workspace has {} bytes; want {}",
          workspace.bytes(), workspace_bytes);
  library_->lt.check(library_->lt.create(&library_->handle), "starting it on this device");
}

GemmLibrary::~GemmLibrary() {
  if (library_->handle) library_->lt.destroy(library_->handle);
}

std::string GemmLibrary::description() const { return "cuBLASLt " + library_->lt.version; }

void GemmLibrary::multiply(const GemmCall& call) {
  const CublasLt& lt = library_->lt;
  const GemmKey key(call);
  Plan& plan = library_->plan_for(key, call);
  auto& d = plan.descriptors;
  if (call.bias) d.set_bias(lt, call.bias.raw());
  const float one = 1, kept = call.write == Write::accumulate ? 1 : 0;
  const float* const alpha = call.scale ? call.scale.data() : &one;
  const float* const beta = call.scale ? call.scale.data() + 1 : &kept;
  const cublasStatus_t status =
      lt.matmul(library_->handle, d.operation.get(), alpha, call.b.raw(), d.a.get(), call.a.raw(), d.b.get(),
                beta, call.c.raw(), d.c.get(), call.c.raw(), d.c.get(), &plan.algorithm.algo,
                library_->workspace.raw(), std::size_t(workspace_bytes), library_->stream.get());
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    lt.check(status, key.text().c_str());
}

std::vector<std::string> GemmLibrary::chosen() const {
  const CublasLt& lt = library_->lt;
  std::vector<std::string> lines;
  for (const auto& [key, plan] : library_->plans) {
    const cublasLtMatmulAlgo_t& algorithm = plan.algorithm.algo;
    const auto number = [&](cublasLtMatmulAlgoConfigAttributes_t what) {
      return config<std::uint32_t>(lt, algorithm, what);
    };
    lines.push_back(
        fmt::format("{}: algorithm {}, tile {}, stages {}, split {}, reduction {}, swizzle {}, option {}, "
                    "inner {}, cluster "
                    "{}, workspace {}",
                    key.text(), config<std::int32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_ID),
                    number(CUBLASLT_ALGO_CONFIG_TILE_ID), number(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                    config<std::int32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                    number(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), number(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                    number(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                    config<std::uint16_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
                    config<std::uint16_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID),
                    plan.algorithm.workspaceSize));
  }
  return lines;
}

}  // namespace mxtape::cuda
