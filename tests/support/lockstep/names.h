#pragma once
// Included before everything else in the files of kernels/cuda/ when they are compiled for the host: the same
// program may hold the real ones as well.
#define cuda lockstep
#define CudaBackend LockstepBackend
#define make_cuda_backend make_lockstep_backend
