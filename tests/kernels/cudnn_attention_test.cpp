// cuDNN's attention against its definition: its graphs run on the host by a stand-in for cuDNN, and, where
// there is a GPU, by cuDNN itself.
#include <gtest/gtest.h>

#include "kernels/calls_rows.h"
#include "tests/support/attention_run.h"
#include "tests/support/reference_attention.h"
#ifdef MXTAPE_CUDNN
#include "kernels/cuda/cudnn/cudnn_attention_graphs.h"
#endif

namespace mxtape::test {
namespace {

std::vector<bf16> narrowed(const std::vector<float>& x) {
  std::vector<bf16> y;
  for (const float v : x) y.push_back(to_bf16(v));
  return y;
}
std::vector<float> rounded(const std::vector<float>& x) {
  std::vector<float> y;
  for (const bf16 v : narrowed(x)) y.push_back(to_f32(v));
  return y;
}

struct Case {
  AttentionShape s;
  std::vector<float> qkv, d_o;
  explicit Case(const AttentionShape& shape)
      : s(shape),
        qkv(rounded(normals(s.batch * s.time * s.q_row(), 1))),
        d_o(rounded(normals(s.batch * s.time * s.heads * s.width, 2))) {}

  /// P and dS may be rounded to bf16 or not, P before or after its division.
  void expect_within(const AttentionRun& got) const {
    const reference::Attention want = definition(0);
    EXPECT_TRUE(within(got.o, stored(want.forward()))) << "T " << s.time << " D " << s.width;
    EXPECT_TRUE(within(got.dqkv, stored(want.backward(got.o)))) << "T " << s.time << " D " << s.width;
  }
  reference::Attention definition(std::int64_t keys_too_many) const {
    return {s, qkv, d_o, DType::f32, keys_too_many, reference::Scores::near_bf16};
  }
  /// With the bounds of results that are rounded to bf16, by at most 2^-8 of themselves.
  static Reference stored(Reference r) {
    for (std::size_t i = 0; i < r.value.size(); ++i)
      r.bound[i] += 0x1p-8 * (std::abs(r.value[i]) + r.bound[i]);
    return r;
  }
  static testing::AssertionResult within(const std::vector<float>& got, const Reference& want) {
    return test::within(got, want.value, want.bound);
  }
};

#ifdef MXTAPE_CUDNN

/// The graphs, run on the host.
AttentionRun run_on_host(const Case& c) {
  using namespace cuda::cudnn;
  Backend& cpu = device();
  const Library library({MXTAPE_HOST_CUDNN});
  const Descriptor nobody = described_device(library, "{}");
  const Plan forward(attention_graph(library, c.s), nobody);
  const Plan backward(attention_backward_graph(library, c.s), nobody);
  const Tensor qkv = upload(cpu, {c.s.batch, c.s.time, c.s.q_row()}, narrowed(c.qkv));
  const Tensor d_o = upload(cpu, {c.s.batch, c.s.time, c.s.heads * c.s.width}, narrowed(c.d_o));
  const Tensor o = cpu.empty(d_o.shape(), DType::bf16), dqkv = cpu.empty(qkv.shape(), DType::bf16);
  const Tensor lse = cpu.empty({c.s.batch, c.s.heads, c.s.time}), delta = cpu.empty(lse.shape());
  const Tensor workspace = cpu.empty({forward.workspace_bytes()}, DType::u8);
  for (const Tensor& out : {o, lse, dqkv, delta}) cpu.fill(out, NAN);
  const Call call{nullptr, c.s, workspace.raw()};
  run_attention(forward, call, o, lse, qkv);
  run_attention_backward(backward, call, dqkv, d_o, qkv, o, lse, delta);
  return {download(cpu, o), download(cpu, lse), download(cpu, dqkv)};
}

TEST(CudnnAttention, ItsGraphsSayWhatAttentionIs) {
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 8}, {2, 7, 3, 16}, {1, 33, 2, 40}, {1, 64, 2, 64}, {1, 20, 1, 128}}) {
    const Case c(s);
    c.expect_within(run_on_host(c));
  }
}

AttentionShape grouped(AttentionShape s, std::int64_t kv_heads) {
  s.kv_heads = kv_heads;
  return s;
}

TEST(CudnnAttention, ItsGraphsLetGroupsOfHeadsShareTheirKeys) {
  for (const AttentionShape& s : {grouped({2, 17, 4, 16}, 2), grouped({1, 33, 6, 8}, 1)}) {
    const Case c(s);
    c.expect_within(run_on_host(c));
  }
}

TEST(CudnnAttention, ItsStatisticsAreTheLogarithmsOfTheRowSums) {
  Case c({1, 3, 1, 8});
  c.qkv.assign(c.qkv.size(), 1);  // q . k / sqrt(8) = sqrt(8)
  const std::vector<float> lse = run_on_host(c).lse;
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(lse[std::size_t(i)], std::sqrt(8.0) + std::log(i + 1.0), 4 * 0x1p-23) << i;
}

#endif

TEST(CudnnAttention, TheBoundsSeeAKeyTooMany) {
  const Case c({1, 64, 2, 16});
  const AttentionRun got = run_attention(c.s, c.qkv, c.d_o, all_slots(bf16_cast));
  c.expect_within(got);
  const reference::Attention other = c.definition(1);
  EXPECT_FALSE(Case::within(got.o, Case::stored(other.forward())));
  EXPECT_FALSE(Case::within(got.dqkv, Case::stored(other.backward(got.o))));
}

#ifdef MXTAPE_TEST_CUDA

/// A GPU whose attention is cuDNN's. Skips where cuDNN is missing.
class CudnnAttentionOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      gpu_ = make_device({.attention = AttentionKernels::cudnn});
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }

  /// Forward and backward `runs` times; each but the last writes NaN over the results of the one before.
  AttentionRun run(const Case& c, int runs) {
    const std::int64_t C = c.s.heads * c.s.width;
    const Tensor qkv = upload(*gpu_, {c.s.batch, c.s.time, c.s.q_row()}, narrowed(c.qkv));
    const Tensor d_o = upload(*gpu_, {c.s.batch, c.s.time, C}, narrowed(c.d_o));
    const Tensor o = gpu_->empty(d_o.shape(), DType::bf16), dqkv = gpu_->empty(qkv.shape(), DType::bf16);
    const Tensor lse = gpu_->empty({c.s.batch, c.s.heads, c.s.time});
    for (int i = 0; i < runs; ++i) {
      for (const Tensor& out : {o, lse, dqkv}) gpu_->fill(out, NAN);
      gpu_->repeat("attention", [&]() -> std::vector<Tensor> {
        gpu_->run(call::Attention{o, lse, qkv, c.s, all_slots(bf16_cast), {}});
        gpu_->run(call::AttentionBackward{dqkv, d_o, qkv, o, lse, c.s, all_slots(bf16_cast), {}});
        return {};
      });
    }
    gpu_->forget("attention");
    return {download(*gpu_, o), download(*gpu_, lse), download(*gpu_, dqkv)};
  }
  std::unique_ptr<Backend> gpu_;
};

TEST_F(CudnnAttentionOnGpu, IsWithinItsRoundingErrors) {
  for (const AttentionShape& s :
       {AttentionShape{2, 128, 2, 64}, {1, 2, 3, 8}, {1, 100, 3, 40}, {1, 257, 2, 64}, {2, 130, 1, 128}}) {
    const Case c(s);
    c.expect_within(run(c, 1));
  }
}

TEST_F(CudnnAttentionOnGpu, GivesTheSameBitsEachTimeAndRecorded) {
  const Case c({4, 512, 8, 64});
  const AttentionRun first = run(c, 1), later = run(c, 5);
  EXPECT_EQ(first.o, later.o);
  EXPECT_EQ(first.lse, later.lse);
  EXPECT_EQ(first.dqkv, later.dqkv);
}

TEST_F(CudnnAttentionOnGpu, DiffersFromOursByNoMoreThanTheirRoundings) {
  const Case c({2, 256, 4, 64});
  const AttentionRun theirs = run(c, 1);
  gpu_ = make_device();
  const AttentionRun ours = run(c, 1);
  c.expect_within(theirs);
  c.expect_within(ours);
}

#endif

}  // namespace
}  // namespace mxtape::test
