#pragma once
// Included before everything else in the files of kernels/cuda/ when they are compiled for the host: the same
// program may hold the real ones as well.
#define cuda lockstep
#define CudaBackend LockstepBackend
#define make_cuda_backend make_lockstep_backend
#define make_cuda_side_stream make_lockstep_side_stream
#define choose_cuda_gpu choose_lockstep_gpu
#define CudaSideStream LockstepSideStream

// Launch bounds are nothing here, so what is computed for them is unused, and loops need not be unrolled.
#pragma GCC diagnostic ignored "-Wunused-function"
#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-const-variable"
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
