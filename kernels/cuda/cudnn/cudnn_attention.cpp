#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <algorithm>
#include <array>
#include <map>

#include "kernels/cuda/cudnn/cudnn_attention_graphs.h"

namespace mxtape::cuda {
namespace {

using Key = std::array<std::int64_t, 5>;

}  // namespace

struct CudnnAttention::Plans {
  struct Destroy {
    const cudnn::Library* library;
    void operator()(cudnnHandle_t handle) const { library->destroy(handle); }
  };
  Plans(Backend& scratch, const Stream& stream)
      : memory(scratch), handle(nullptr, {&library}), device(cudnn::present_device(library)) {
    cudnnHandle_t created = nullptr;
    library.check(library.create(&created), "creating a handle");
    handle.reset(created);
    library.check(library.set_stream(created, stream.get()), "setting the stream");
  }

  const cudnn::Plan& plan(std::map<Key, cudnn::Plan>& plans, const AttentionShape& s,
                          cudnn::Graph (*graph)(const cudnn::Library&, const AttentionShape&)) {
    const Key key{s.batch, s.time, s.heads, s.width, s.kv_heads};
    const auto known = plans.find(key);
    if (known != plans.end()) return known->second;
    return plans.try_emplace(key, graph(library, s), device).first->second;
  }

  Tensor workspace(const cudnn::Plan& plan) {
    return memory.empty({std::max<std::int64_t>(plan.workspace_bytes(), 1)}, DType::u8);
  }

  Backend& memory;
  cudnn::Library library;
  std::unique_ptr<cudnnContext, Destroy> handle;
  cudnn::Descriptor device;
  std::map<Key, cudnn::Plan> forward, backward;
};

CudnnAttention::CudnnAttention(Backend& memory, const Stream& stream)
    : plans_(std::make_unique<Plans>(memory, stream)) {}

CudnnAttention::~CudnnAttention() = default;

std::string CudnnAttention::description() const { return "cuDNN " + plans_->library.version; }

void CudnnAttention::forward(const Tensor& o, const Tensor& lse, const Tensor& qkv, const AttentionShape& s) {
  const cudnn::Plan& plan = plans_->plan(plans_->forward, s, cudnn::attention_graph);
  const Tensor workspace = plans_->workspace(plan);
  cudnn::run_attention(plan, {plans_->handle.get(), s, workspace.raw()}, o, lse, qkv);
}

void CudnnAttention::backward(const Tensor& dqkv, const Tensor& d_o, const Tensor& qkv, const Tensor& o,
                              const Tensor& lse, const AttentionShape& s) {
  const cudnn::Plan& plan = plans_->plan(plans_->backward, s, cudnn::attention_backward_graph);
  const Tensor workspace = plans_->workspace(plan), delta = plans_->memory.empty(lse.shape());
  cudnn::run_attention_backward(plan, {plans_->handle.get(), s, workspace.raw()}, dqkv, d_o, qkv, o, lse,
                                delta);
}

}  // namespace mxtape::cuda
