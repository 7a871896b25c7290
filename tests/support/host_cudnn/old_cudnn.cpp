#include <cstddef>

// A shared library that calls itself cuDNN 9.7.1, for the test that such a one is refused.
extern "C" std::size_t cudnnGetVersion() { return 90701; }
