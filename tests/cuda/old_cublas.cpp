#include <cstddef>

// A library that says it is cuBLASLt 12.4.5, for tests of what is said about it.
extern "C" std::size_t cublasLtGetVersion() { return 120405; }
