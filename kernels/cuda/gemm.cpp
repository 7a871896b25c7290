#include "kernels/cuda/gemm.h"

#include "core/error.h"

// cuBLASLt is not connected yet.
namespace mxtape::cuda {
struct GemmLibrary::Library {};
GemmLibrary::GemmLibrary(const Stream&) { fail(ExitCode::resource, "cuda: cuBLASLt is not connected yet"); }
GemmLibrary::~GemmLibrary() = default;
std::string GemmLibrary::description() const { return ""; }
void GemmLibrary::multiply(const Tensor&, const Operand&, const Operand&, const Tensor&, Write) {}
}  // namespace mxtape::cuda
