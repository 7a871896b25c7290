#include <dlfcn.h>

#include <compare>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa_name.h"
#include "kernels/cpu/loops/few_rows_loops.h"
#include "kernels/cpu/pairs/pairs.h"

namespace mxtape::cpu {
namespace {

/// oneDNN asks its OpenMP runtime how many threads to use, per calling thread, when it makes a primitive and
/// when it runs it. The symbol is looked up, not linked: it must be the one of the runtime that oneDNN
/// brought along, whichever compiler built us.
using SetThreads = void (*)(int);
SetThreads openmp_set_threads() {
  static const auto function = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  return function;
}

/// What oneDNN uses on this machine and under its environment's settings (ONEDNN_MAX_CPU_ISA).
unsigned effective_isa() {
  static const auto isa = unsigned(dnnl::get_effective_cpu_isa());
  return isa;
}

/// What one primitive is made for.
struct Problem {
  std::int64_t M, N, K, a_stride, b_stride, c_stride;
  Axis a_axis, b_axis;
  DType dtype;  // of both sides
  bool bias;
  Write write;
  auto operator<=>(const Problem&) const = default;
};

dnnl::memory::desc describe(std::int64_t rows, std::int64_t cols, DType dtype, std::int64_t stride,
                            bool turned = false) {
  const auto type = dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  return {{rows, cols}, type, turned ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1}};
}

/// A primitive with the memory objects that its arguments are put in.
struct Prepared {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratch, bias{};
  std::unordered_map<int, dnnl::memory> arguments{};
};

/// The primitives and scratch memory of one thread: no locks, no sharing.
class Thread {
 public:
  Thread() {
    if (auto set = openmp_set_threads()) set(1);
  }

  void run(const Problem& p, float* c, const void* a, const void* b, const float* bias) {
    Prepared& prepared = find(p);
    prepared.a.set_data_handle(const_cast<void*>(a));
    prepared.b.set_data_handle(const_cast<void*>(b));
    prepared.c.set_data_handle(c);
    if (bias) prepared.bias.set_data_handle(const_cast<float*>(bias));
    prepared.scratch.set_data_handle(scratch(prepared.scratch.get_desc().get_size()));
    prepared.primitive.execute(stream_, prepared.arguments);
    stream_.wait();
  }

 private:
  void* scratch(std::size_t bytes) {
    constexpr std::size_t line = 64;  // oneDNN wants whole cache lines
    if (scratch_.size() < bytes + line) scratch_ = std::vector<std::byte>(bytes + line);
    void* start = scratch_.data();
    std::size_t space = scratch_.size();
    return std::align(line, bytes, start, space);
  }

  Prepared& find(const Problem& p) {
    auto it = prepared_.find(p);
    if (it != prepared_.end()) return it->second;
    // Training uses a few dozen problems. Sampling grows a context token by token: forget rather than hoard.
    constexpr std::size_t most = 1024;
    if (prepared_.size() >= most) prepared_.clear();
    return prepared_.emplace(p, prepare(p)).first->second;
  }

  Prepared prepare(const Problem& p) {
    const auto a = describe(p.M, p.K, p.dtype, p.a_stride, p.a_axis == Axis::column);
    const auto b = describe(p.K, p.N, p.dtype, p.b_stride, p.b_axis == Axis::row);
    const auto c = describe(p.M, p.N, DType::f32, p.c_stride);
    const auto bias = p.bias ? describe(1, p.N, DType::f32, p.N) : dnnl::memory::desc();
    dnnl::primitive_attr attributes;
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // f32 stays f32, whatever the environment says
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.write == Write::accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine_, a, b, bias, c, attributes);
#else
    const dnnl::matmul::primitive_desc description(
        p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, engine_);
#endif
    auto empty = [&](const dnnl::memory::desc& d) { return dnnl::memory(d, engine_, nullptr); };
    Prepared r{dnnl::matmul(description), empty(a), empty(b), empty(c), empty(description.scratchpad_desc())};
    r.arguments = {
        {DNNL_ARG_SRC, r.a}, {DNNL_ARG_WEIGHTS, r.b}, {DNNL_ARG_DST, r.c}, {DNNL_ARG_SCRATCHPAD, r.scratch}};
    if (p.bias) {
      r.bias = empty(bias);
      r.arguments.emplace(DNNL_ARG_BIAS, r.bias);
    }
    return r;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Problem, Prepared> prepared_;
  std::vector<std::byte> scratch_;
};

/// A copy of `view` [rows, cols as stored] in f32, without gaps.
const float* in_f32(std::vector<float>& room, const MatrixView& view, std::int64_t rows, std::int64_t cols) {
  room.resize(std::size_t(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    if (float* const to = room.data() + r * cols; view.dtype == DType::bf16)
      std::transform(static_cast<const bf16*>(view.data) + r * view.stride,
                     static_cast<const bf16*>(view.data) + r * view.stride + cols, to, to_f32);
    else
      std::copy_n(static_cast<const float*>(view.data) + r * view.stride, cols, to);
  return room.data();
}

/// One column of c, in memory without gaps: oneDNN 3.7 with AVX-512 takes c_stride for 1 where N is 1.
void multiply_into_column(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b,
                          std::int64_t M, std::int64_t K, Write write, const float* bias) {
  thread_local std::vector<float> column;
  column.resize(std::size_t(M));
  for (std::int64_t m = 0; m < M && write == Write::accumulate; ++m) column[std::size_t(m)] = c[m * c_stride];
  gemm_block(column.data(), 1, a, b, M, 1, K, write, bias);
  for (std::int64_t m = 0; m < M; ++m) c[m * c_stride] = column[std::size_t(m)];
}

void multiply_pairs(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                    std::int64_t N, std::int64_t K, Write write, const float* bias) {
  struct alignas(64) Line {
    Word words[16];
  };
  thread_local std::vector<Line> room(PairGemm::scratch_words / 16);
  const auto source = [K](const MatrixView& x, std::int64_t lines) {
    const bool columns = x.axis == Axis::column;
    return PairSource{x.data, x.stride, columns ? K : lines, columns ? lines : K, true};
  };
  pair_tiles()->gemm({source(a, M), source(b, N), a.axis == Axis::column, b.axis == Axis::column, c, c_stride,
                      bias, write == Write::accumulate, room.front().words});
}

}  // namespace

bool gemm_takes_bf16() {
  constexpr unsigned wanted = dnnl_cpu_isa_avx512_core_bf16;
  return this_machine == Machine::x86_64 && (effective_isa() & wanted) == wanted;
}

bool gemm_has_matrix_unit() {
  return isa_name(this_machine, dnnl::version()->major, effective_isa()).find("amx") != std::string::npos;
}

void multiply_few_rows(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b,
                       std::int64_t M, std::int64_t N, std::int64_t K, Write write, const float* bias) {
  thread_local std::vector<float> wide;
  FewRowsJob job{.c = c,
                 .c_stride = c_stride,
                 .a = static_cast<const float*>(a.data),
                 .a_stride = a.stride,
                 .b = b.data,
                 .b_stride = b.stride,
                 .M = M,
                 .N = N,
                 .K = K,
                 .bias = bias,
                 .accumulate = write == Write::accumulate};
  const bool column = a.axis == Axis::column;  // one row, stored as a column
  if (a.dtype == DType::bf16 || column)
    job.a = in_f32(wide, a, column ? K : M, column ? 1 : K), job.a_stride = K;
  const FewRowsLoops& loops = few_rows_loops();
  const bool narrow = b.dtype == DType::bf16;
  if (b.axis == Axis::row)
    (narrow ? loops.dots_bf16 : loops.dots_f32)(job);
  else
    (narrow ? loops.columns_bf16 : loops.columns_f32)(job);
}

void gemm_block(float* c, std::int64_t c_stride, const MatrixView& a, const MatrixView& b, std::int64_t M,
                std::int64_t N, std::int64_t K, Write write, const float* bias) {
  if (M == 0 || N == 0) return;
  // Those of no products, too.
  if (K == 0 || is_few_rows(a, M)) return multiply_few_rows(c, c_stride, a, b, M, N, K, write, bias);
  const bool narrow = a.dtype == DType::bf16 && b.dtype == DType::bf16 && gemm_takes_bf16();
  if (narrow && has_own_gemm()) return multiply_pairs(c, c_stride, a, b, M, N, K, write, bias);
  if (N == 1 && c_stride > 1) return multiply_into_column(c, c_stride, a, b, M, K, write, bias);
  thread_local Thread thread;
  MatrixView sides[2] = {a, b};
  thread_local std::vector<float> wide[2];
  for (int side = 0; side < 2 && !narrow; ++side) {
    MatrixView& view = sides[side];
    if (view.dtype != DType::bf16) continue;
    const std::int64_t lines = side == 0 ? M : N;
    const std::int64_t rows = view.axis == Axis::row ? lines : K, cols = view.axis == Axis::row ? K : lines;
    view = {in_f32(wide[side], view, rows, cols), DType::f32, cols, view.axis};
  }
  try {
    thread.run({M, N, K, sides[0].stride, sides[1].stride, c_stride, a.axis, b.axis,
                narrow ? DType::bf16 : DType::f32, bias != nullptr, write},
               c, sides[0].data, sides[1].data, bias);
  } catch (const dnnl::error& e) {
    fail(e.status == dnnl_out_of_memory ? ExitCode::resource : ExitCode::internal,
         "cpu: oneDNN, a product of {} x {} x {}: {}", M, N, K, e.what());
  }
}

std::string describe_gemm_library() {
  const auto* v = dnnl::version();
  return fmt::format("oneDNN {}.{}.{} {}{}", v->major, v->minor, v->patch,
                     isa_name(this_machine, v->major, effective_isa()),
                     gemm_takes_bf16() ? "" : " (no bf16: operands are widened to f32)");
}

void check_gemm_library() {
  const unsigned runtime = dnnl::version()->cpu_runtime;
  require(runtime == DNNL_RUNTIME_SEQ || (runtime == DNNL_RUNTIME_OMP && openmp_set_threads()),
          ExitCode::usage,
          "cpu: oneDNN uses threading runtime {}; want its OpenMP or sequential build, whose threads can be "
          "kept to one",
          runtime);
}

}  // namespace mxtape::cpu
