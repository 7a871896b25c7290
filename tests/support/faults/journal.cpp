// Preloaded into the program under test (tests/program/power_loss_test.cpp): writes down each call that
// changes files, with the bytes of each write, in the order in which they succeeded. power_loss.h rebuilds
// from that what a power cut may leave. MXT_JOURNAL names the journal; bytes go to the same name with
// ".bytes". A line is the call, its numbers and its paths, separated by tabs.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <string>

namespace {

template <class Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

int log_file(const char* ending) {
  return int(::syscall(SYS_openat, AT_FDCWD, (std::string(getenv("MXT_JOURNAL")) + ending).c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}
void put(int file, const void* bytes, std::size_t count) {
  if (::syscall(SYS_write, file, bytes, count) != long(count)) _exit(126);
}

void note(const std::string& line) {
  static const int file = log_file("");
  put(file, (line + "\n").data(), line.size() + 1);
}
void note_bytes(const void* bytes, std::size_t count) {
  static const int file = log_file(".bytes");
  put(file, bytes, count);
}

std::string absolute(const char* path) {
  char folder[4096];
  return path[0] == '/' || !::getcwd(folder, sizeof folder) ? path : std::string(folder) + "/" + path;
}
std::string path_of(int file) {
  char name[4096];
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), name, sizeof name);
  return length > 0 ? std::string(name, std::size_t(length)) : "?";
}

/// Where the next write to `file` begins.
long position(int file) {
  struct stat status {};
  ::fstat(file, &status);
  return ::fcntl(file, F_GETFL) & O_APPEND ? long(status.st_size) : long(::lseek(file, 0, SEEK_CUR));
}
bool is_kept(int file) {
  struct stat status {};
  return file > STDERR_FILENO && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

bool exists(const char* path) { return ::access(path, F_OK) == 0; }

void note_opened(const char* path, bool was_there, bool cuts) {
  if (!was_there) note("create\t" + absolute(path));
  if (was_there && cuts) note("truncate\t0\t" + absolute(path));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  const bool was_there = exists(path);
  const int file = real<int (*)(const char*, int, ...)>("open")(path, flags, mode);
  if (file >= 0 && is_kept(file)) note_opened(path, was_there, flags & O_TRUNC);
  return file;
}

FILE* fopen(const char* path, const char* how) {
  const bool was_there = exists(path);
  FILE* file = real<FILE* (*)(const char*, const char*)>("fopen")(path, how);
  if (file && *how != 'r') note_opened(path, was_there, *how == 'w');
  return file;
}
FILE* fopen64(const char* path, const char* how) { return fopen(path, how); }

ssize_t write(int file, const void* bytes, size_t count) {
  const bool kept = is_kept(file);
  const long at = kept ? position(file) : 0;
  const ssize_t done = real<ssize_t (*)(int, const void*, size_t)>("write")(file, bytes, count);
  if (kept && done > 0) {
    note("write\t" + std::to_string(at) + "\t" + std::to_string(done) + "\t" + path_of(file));
    note_bytes(bytes, std::size_t(done));
  }
  return done;
}
ssize_t writev(int file, const iovec* parts, int count) {
  ssize_t all = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t done = write(file, parts[i].iov_base, parts[i].iov_len);
    if (done < 0) return done;
    all += done;
  }
  return all;
}

int posix_fallocate(int file, off_t offset, off_t length) {
  const int error = real<int (*)(int, off_t, off_t)>("posix_fallocate")(file, offset, length);
  if (error == 0) note("extend\t" + std::to_string(offset + length) + "\t" + path_of(file));
  return error;
}
int truncate(const char* path, off_t length) {
  const int result = real<int (*)(const char*, off_t)>("truncate")(path, length);
  if (result == 0) note("truncate\t" + std::to_string(length) + "\t" + absolute(path));
  return result;
}
int ftruncate(int file, off_t length) {
  const int result = real<int (*)(int, off_t)>("ftruncate")(file, length);
  if (result == 0) note("truncate\t" + std::to_string(length) + "\t" + path_of(file));
  return result;
}
int fsync(int file) {
  const int result = real<int (*)(int)>("fsync")(file);
  if (result == 0) note("fsync\t" + path_of(file));
  return result;
}
int rename(const char* from, const char* to) {
  const int result = real<int (*)(const char*, const char*)>("rename")(from, to);
  if (result == 0) note("rename\t" + absolute(from) + "\t" + absolute(to));
  return result;
}
int unlink(const char* path) {
  const int result = real<int (*)(const char*)>("unlink")(path);
  if (result == 0) note("remove\t" + absolute(path));
  return result;
}
int remove(const char* path) {
  const int result = real<int (*)(const char*)>("remove")(path);
  if (result == 0) note("remove\t" + absolute(path));
  return result;
}
int mkdir(const char* path, mode_t mode) {
  const int result = real<int (*)(const char*, mode_t)>("mkdir")(path, mode);
  if (result == 0) note("mkdir\t" + absolute(path));
  return result;
}

}  // extern "C"
