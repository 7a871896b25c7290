// Preloaded into the program under test (fault_test.cpp): counts the calls that change files and makes the
// n-th one fail, or ends the process in it. The settings are in the environment:
//   MXT_FAULT_LOG   a file that gets one line per call: "write /path", "rename /from /to"
//   MXT_FAULT_AT    n, counted from 1; absent: nothing fails
//   MXT_FAULT_HOW   "error": ENOSPC where a call wants room, else EIO; "kill": SIGKILL
// A write that fails has written half of its bytes before: what a full disk or a lost process leaves.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace {

template <class Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

std::string path_of(int file) {
  char name[4096];
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), name, sizeof name);
  return length > 0 ? std::string(name, std::size_t(length)) : "?";
}

/// True if this call is the one that fails. `line`: what the log says of it.
bool is_due(const std::string& line) {
  static int count = 0;
  ++count;
  if (const char* log = getenv("MXT_FAULT_LOG")) {
    static const int file =
        int(::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    const std::string text = line + "\n";
    if (::syscall(SYS_write, file, text.data(), text.size()) < 0) _exit(126);
  }
  const char* at = getenv("MXT_FAULT_AT");
  return at && count == atoi(at);
}

/// Ends the process if that is asked for; else the call's failure.
int fail_with(int error) {
  if (!strcmp(getenv("MXT_FAULT_HOW"), "kill")) ::kill(::getpid(), SIGKILL);
  errno = error;
  return -1;
}

/// stdout and stderr are pipes or files of the test, and count as nothing.
bool is_counted(int file) { return file > STDERR_FILENO; }

bool makes_files(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = makes_files(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (makes_files(flags) && is_due(std::string("open ") + path)) return fail_with(ENOSPC);
  return real<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

FILE* fopen(const char* path, const char* how) {
  if (*how != 'r' && is_due(std::string("open ") + path)) {
    fail_with(ENOSPC);
    return nullptr;
  }
  return real<FILE* (*)(const char*, const char*)>("fopen")(path, how);
}
FILE* fopen64(const char* path, const char* how) { return fopen(path, how); }

ssize_t write(int file, const void* bytes, size_t count) {
  const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (!is_counted(file) || !is_due("write " + path_of(file))) return call(file, bytes, count);
  if (call(file, bytes, count / 2) < 0) _exit(126);
  return fail_with(ENOSPC);
}

ssize_t writev(int file, const iovec* parts, int count) {
  if (!is_counted(file) || !is_due("write " + path_of(file)))
    return real<ssize_t (*)(int, const iovec*, int)>("writev")(file, parts, count);
  if (real<ssize_t (*)(int, const void*, size_t)>("write")(file, parts->iov_base, parts->iov_len / 2) < 0)
    _exit(126);
  return fail_with(ENOSPC);
}

int fsync(int file) {
  if (is_due("fsync " + path_of(file))) return fail_with(EIO);
  return real<int (*)(int)>("fsync")(file);
}

int rename(const char* from, const char* to) {
  if (is_due(std::string("rename ") + from + " " + to)) return fail_with(EIO);
  return real<int (*)(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) {
  if (is_due(std::string("remove ") + path)) return fail_with(EIO);
  return real<int (*)(const char*)>("unlink")(path);
}

int remove(const char* path) {
  if (is_due(std::string("remove ") + path)) return fail_with(EIO);
  return real<int (*)(const char*)>("remove")(path);
}

int mkdir(const char* path, mode_t mode) {
  if (is_due(std::string("mkdir ") + path)) return fail_with(ENOSPC);
  return real<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int truncate(const char* path, off_t length) {
  if (is_due(std::string("truncate ") + path)) return fail_with(EIO);
  return real<int (*)(const char*, off_t)>("truncate")(path, length);
}

}  // extern "C"
