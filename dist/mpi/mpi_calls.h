#pragma once

/// What mxtape asks of MPI, as a table of functions: the program is linked with no MPI, and loads the module
/// that has this table (libmxtape_mpi.so, made from mpi_module.cpp) only under a launcher. Bytes, ranks and
/// tags alone; all of one communicator that is nobody else's. Functions return 0, or an error code of MPI.
extern "C" {
struct MxtapeMpiRequest;  ///< one operation under way

struct MxtapeMpi {
  int version;  ///< of this table
  /// MPI_Init_thread with MPI_THREAD_FUNNELED; all calls come from one thread.
  int (*init)(int* rank, int* size);
  int (*finalize)();
  /// "Open MPI v4.1.4, ...": what MPI_Get_library_version says.
  int (*library)(char* text, int size);
  /// At most 1 GiB. The memory stays untouched until test() says so.
  int (*send)(const void* data, long bytes, int to, int tag, MxtapeMpiRequest** request);
  int (*receive)(void* data, long bytes, int from, int tag, MxtapeMpiRequest** request);
  /// *done: whether the operation has ended. Then the request is gone.
  int (*test)(MxtapeMpiRequest* request, int* done);
  int (*abort)(int code);
  /// The text of an error code.
  void (*error)(int code, char* text, int size);
};

using MxtapeMpiTable = const MxtapeMpi* (*)();  ///< mxtape_mpi()
}

namespace mxtape {
inline constexpr int mpi_table_version = 1;
}
