// libmxtape_mpi.so: MPI behind dist/mpi/mpi_calls.h. Built with the MPI that CMake finds; a vendor's own, as
// handles differ.
#define OMPI_SKIP_MPICXX 1  // the C++ bindings that MPI has dropped
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "dist/mpi/mpi_calls.h"

struct MxtapeMpiRequest {
  MPI_Request request;
};

namespace {

MPI_Comm all = MPI_COMM_NULL;

int init(int* rank, int* size) {
  int given = 0;
  if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given)) return error;
  if (const int error = MPI_Comm_dup(MPI_COMM_WORLD, &all)) return error;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  MPI_Comm_rank(all, rank);
  return MPI_Comm_size(all, size);
}

int finalize() {
  if (all != MPI_COMM_NULL) MPI_Comm_free(&all);
  return MPI_Finalize();
}

int library(char* text, int size) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  const int error = MPI_Get_library_version(whole, &length);
  std::snprintf(text, std::size_t(size), "%s", whole);
  return error;
}

/// Keeps the request if start(MPI_Request*) has begun an operation.
template <class Start>
int begin(MxtapeMpiRequest** request, const Start& start) {
  std::unique_ptr<MxtapeMpiRequest> made(new (std::nothrow) MxtapeMpiRequest);
  const int error = made ? start(&made->request) : MPI_ERR_NO_MEM;
  *request = error ? nullptr : made.release();
  return error;
}

int send(const void* data, long bytes, int to, int tag, MxtapeMpiRequest** request) {
  return begin(request,
               [&](MPI_Request* r) { return MPI_Isend(data, int(bytes), MPI_BYTE, to, tag, all, r); });
}

int receive(void* data, long bytes, int from, int tag, MxtapeMpiRequest** request) {
  return begin(request,
               [&](MPI_Request* r) { return MPI_Irecv(data, int(bytes), MPI_BYTE, from, tag, all, r); });
}

int test(MxtapeMpiRequest* request, int* done) {
  const int error = MPI_Test(&request->request, done, MPI_STATUS_IGNORE);
  if (*done || error) delete request;
  return error;
}

int abort(int code) { return MPI_Abort(MPI_COMM_WORLD, code); }

void error_text(int code, char* text, int size) {
  char whole[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, whole, &length)) std::strcpy(whole, "an error without a text");
  std::snprintf(text, std::size_t(size), "%s", whole);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MxtapeMpi* mxtape_mpi() {
  static const MxtapeMpi table{1, init, finalize, library, send, receive, test, abort, error_text};
  return &table;
}
