#pragma once
#include "kernels/attention/attention.h"
#include "kernels/backend.h"
#include "kernels/cuda/cudnn/cudnn_plan.h"

namespace mxtape::cuda::cudnn {

// Causal attention as cuDNN's patterns want it: bf16 tensors, queries, keys and values inside
// qkv [B, T, (H + 2 G) D], o and d_o [B, T, H D]; f32 statistics [B, H, T]. The source of the patterns is
// NVIDIA/cudnn-frontend, include/cudnn_frontend/node/scaled_dot_product_flash_attention.h.

Graph attention_graph(const Library&, const AttentionShape&);
/// dq is the sum of one matrix product, which cuDNN takes in one order. (With an f32 tensor between product
/// and dq it would add to it atomically.)
Graph attention_backward_graph(const Library&, const AttentionShape&);

/// Where plans run.
struct Call {
  cudnnHandle_t handle;
  const AttentionShape& shape;
  void* workspace;  ///< Plan::workspace_bytes()
};
/// Run plans of the graphs above. delta [B, H, T] is f32 scratch.
void run_attention(const Plan&, const Call&, const Tensor& o, const Tensor& lse, const Tensor& qkv);
void run_attention_backward(const Plan&, const Call&, const Tensor& dqkv, const Tensor& d_o,
                            const Tensor& qkv, const Tensor& o, const Tensor& lse, const Tensor& delta);

}  // namespace mxtape::cuda::cudnn
