#pragma once
#include <limits>
#include <memory>
#include <optional>

#include "core/memory/arena.h"
#include "core/memory/pool.h"
#include "kernels/backend.h"
#include "kernels/backend_options.h"
#include "kernels/calls_rows.h"

namespace mxtape {

/// A device without memory that computes nothing and counts everything: run a training step on it and it
/// knows the step's peak memory and its GEMMs, for a model of any size, in milliseconds. Tensors have
/// addresses that no one may read; download() gives zeros. Blocks are reused as on a real device. What a
/// device takes for itself inside a kernel is not counted, but for what may be of the size of a step's
/// largest tensors, or of many of them: rotated tensors, attention's share on a GPU.
class DryBackend final : public Backend {
 public:
  /// How the device that it stands for keeps the memory of work that repeats.
  enum class Memory : std::uint8_t {
    pool,     ///< as all other memory
    planned,  ///< in one block from the second time on (Arena), which trim() gives back
    recorded  ///< in one block that stays
  };
  /// `gpu_attention`: it stands for a GPU, and attention takes these kernels' scratch (attention/scratch.h).
  explicit DryBackend(Memory = Memory::pool, std::optional<AttentionKernels> gpu_attention = {},
                      GemmKernels = GemmKernels::library);

  /// GEMMs seen, by the operands that meet. Attention's are not among them.
  struct Gemms {
    std::int64_t calls = 0;
    double flops = 0;  ///< 2 M N K each
  };
  const Gemms& integer_gemms() const { return integer_; }  ///< both operands codes
  const Gemms& bf16_gemms() const { return bf16_; }        ///< both operands bf16
  const Gemms& f32_gemms() const { return f32_; }          ///< at least one operand f32

  std::string description() const override { return "dry run"; }
  void dispatch(AnyCall) override;
  GemmKernels gemm_kernels() const override { return kernels_; }
  bool narrows() const override { return !gpu_attention_; }
  GemmPath last_gemm() const override { return last_gemm_; }
  Tensor empty(Shape, DType = DType::f32) override;
  void upload(const Tensor&, const void*) override {}
  void download(void* host, const Tensor& x) override;
  std::int64_t used_bytes() const override { return pool_->used_bytes(); }
  std::int64_t peak_bytes() const override { return pool_->peak_bytes(); }
  std::int64_t first_nonfinite(const Tensor&) override { return -1; }
  void set_clocks(std::uint32_t, std::uint32_t) override {}
  std::int64_t capacity_bytes(int) const override { return std::numeric_limits<std::int64_t>::max(); }
  void trim() override { arena_.trim(); }
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override;
  void forget(const std::string& name) override { arena_.forget(name); }

 private:
  void count(const call::Gemm&);
  void count(const call::Quantize&);
  void count(const call::QuantizeBackward&);
  void count(const call::Attention&);
  void count(const call::AttentionBackward&);
  void count(const auto&) {}

  Memory memory_;
  std::optional<AttentionKernels> gpu_attention_;
  std::shared_ptr<Pool> pool_;
  Arena arena_;
  Gemms integer_, bf16_, f32_;
  GemmKernels kernels_;
  GemmPath last_gemm_{};
};

/// Whether it is a DryBackend, or one that stands around a DryBackend: there what is uploaded is never read,
/// so a caller may leave out what is long to compute.
bool merely_counts(const Backend&);

}  // namespace mxtape
