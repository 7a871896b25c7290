// Preloaded into the program under test (tests/program/fault_fixture.h): counts its calls to the file system
// and makes the n-th one fail, or ends the process in it. The settings are in the environment:
//   MXT_FAULT_CALLS  "changes": calls that change files; "reads": opens for reading, reads, seeks, listings,
//   looks MXT_FAULT_LOG    a file that gets one line per call: "write /path", "rename /from /to" MXT_FAULT_AT
//   n, counted from 1; "all": every one; absent: nothing fails MXT_FAULT_HOW    "error": ENOSPC where a call
//   wants room, else EIO
//                    "other": EMFILE where a call wants a descriptor, ENOSPC for a sync or a new name, else
//                    EIO "short": a read or write does half of its work, and says so "interrupted": the call
//                    does nothing, EINTR; the same call succeeds when it comes again (not an open for
//                    reading: libhdf5 does not repeat it) "kill": SIGKILL
//   MXT_FREE_BYTES   what every file system has left
//   MXT_FAULT_ALONE  set: the processes that this one starts are left alone
// A write that fails has written half of its bytes before: what a full disk or a lost process leaves.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace {

enum class Kind { change, read };
enum class Fate { passes, fails, is_short, is_interrupted };

template <class Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

std::string_view setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

[[gnu::constructor]] void leave_others_alone() {
  if (getenv("MXT_FAULT_ALONE")) unsetenv("LD_PRELOAD");
}

std::string path_of(int file) {
  char name[4096];
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), name, sizeof name);
  return length > 0 ? std::string(name, std::size_t(length)) : "?";
}

void log(const std::string& line) {
  const char* path = getenv("MXT_FAULT_LOG");
  if (!path) return;
  static const int file =
      int(::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const std::string text = line + "\n";
  if (::syscall(SYS_write, file, text.data(), text.size()) < 0) _exit(126);
}

/// Counts a call. `line`: what the log says of it.
Fate fate_of(Kind kind, const std::string& line) {
  const bool reads = setting("MXT_FAULT_CALLS") == "reads";
  if (reads != (kind == Kind::read)) return Fate::passes;
  static int count = 0;
  ++count;
  log(line);
  const std::string_view at = setting("MXT_FAULT_AT"), how = setting("MXT_FAULT_HOW");
  if (at.empty() || (at != "all" && count != atoi(at.data()))) return Fate::passes;
  if (how == "short") return Fate::is_short;
  if (how != "interrupted") return Fate::fails;
  static std::string before;  // the call that was interrupted last
  if (before == line) return before.clear(), Fate::passes;
  before = line;
  return Fate::is_interrupted;
}

/// Ends the process if that is asked for; else the call's failure.
int fail_with(int error, int other) {
  const std::string_view how = setting("MXT_FAULT_HOW");
  if (how == "kill") ::kill(::getpid(), SIGKILL);
  errno = how == "other" ? other : error;
  return -1;
}
int interrupt() {
  errno = EINTR;
  return -1;
}

/// stdout and stderr are pipes or files of the test, and count as nothing.
bool is_counted(int file) { return file > STDERR_FILENO; }

bool makes_files(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }
bool is_written(int file) { return (::fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY; }

/// A read of `count` bytes by `call`, which takes the number of bytes that it may read.
template <class Call>
ssize_t read_with(int file, size_t count, const Call& call) {
  const Fate fate = is_counted(file) ? fate_of(Kind::read, "read " + path_of(file)) : Fate::passes;
  if (fate == Fate::fails) return fail_with(EIO, ENOMEM);
  if (fate == Fate::is_interrupted) return interrupt();
  return call(fate == Fate::is_short && count > 1 ? count / 2 : count);
}

/// The result of a call that can only succeed or fail.
template <class Call>
auto whole(Kind kind, const std::string& line, int error, int other, const Call& call) -> decltype(call()) {
  return fate_of(kind, line) == Fate::fails ? decltype(call())(fail_with(error, other)) : call();
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = makes_files(flags) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  const Fate fate = fate_of(makes_files(flags) ? Kind::change : Kind::read, std::string("open ") + path);
  if (fate == Fate::fails) return fail_with(makes_files(flags) ? ENOSPC : EIO, EMFILE);
  if (fate == Fate::is_interrupted && makes_files(flags)) return interrupt();
  return real<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

FILE* fopen(const char* path, const char* how) {
  const bool reads = *how == 'r';
  if (fate_of(reads ? Kind::read : Kind::change, std::string("open ") + path) == Fate::fails) {
    fail_with(reads ? EIO : ENOSPC, EMFILE);
    return nullptr;
  }
  return real<FILE* (*)(const char*, const char*)>("fopen")(path, how);
}
FILE* fopen64(const char* path, const char* how) { return fopen(path, how); }

ssize_t write(int file, const void* bytes, size_t count) {
  const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  const Fate fate = is_counted(file) ? fate_of(Kind::change, "write " + path_of(file)) : Fate::passes;
  if (fate == Fate::passes) return call(file, bytes, count);
  if (fate == Fate::is_interrupted) return interrupt();
  if (fate == Fate::is_short) return call(file, bytes, count > 1 ? count / 2 : count);
  if (call(file, bytes, count / 2) < 0) _exit(126);
  return fail_with(ENOSPC, EIO);
}

ssize_t writev(int file, const iovec* parts, int count) {
  const Fate fate = is_counted(file) ? fate_of(Kind::change, "write " + path_of(file)) : Fate::passes;
  if (fate == Fate::passes) return real<ssize_t (*)(int, const iovec*, int)>("writev")(file, parts, count);
  if (fate == Fate::is_interrupted) return interrupt();
  const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  const size_t half = parts->iov_len / 2;
  if (fate == Fate::is_short && half > 0) return call(file, parts->iov_base, half);
  if (fate == Fate::is_short) return real<ssize_t (*)(int, const iovec*, int)>("writev")(file, parts, count);
  if (call(file, parts->iov_base, half) < 0) _exit(126);
  return fail_with(ENOSPC, EIO);
}

int posix_fallocate(int file, off_t offset, off_t length) {
  const Fate fate = fate_of(Kind::change, "allocate " + path_of(file));
  if (fate == Fate::is_interrupted) return EINTR;
  if (fate == Fate::fails) return fail_with(ENOSPC, EIO), errno;
  if (const auto free = setting("MXT_FREE_BYTES"); !free.empty() && atoll(free.data()) < offset + length)
    return ENOSPC;
  return real<int (*)(int, off_t, off_t)>("posix_fallocate")(file, offset, length);
}

int statvfs(const char* path, struct statvfs* out) {
  const int result = real<int (*)(const char*, struct statvfs*)>("statvfs")(path, out);
  if (const auto free = setting("MXT_FREE_BYTES"); !free.empty())
    out->f_frsize = 1, out->f_bavail = fsblkcnt_t(atoll(free.data()));
  return result;
}
int statvfs64(const char* path, struct statvfs64* out) {
  return statvfs(path, reinterpret_cast<struct statvfs*>(out));  // the same of 64 bits
}

int fsync(int file) {
  const Fate fate = fate_of(Kind::change, "fsync " + path_of(file));
  if (fate == Fate::fails) return fail_with(EIO, ENOSPC);
  if (fate == Fate::is_interrupted) return interrupt();
  return real<int (*)(int)>("fsync")(file);
}

int close(int file) {  // closed it is in any case
  const bool counts = is_counted(file) && is_written(file);
  const Fate fate = counts ? fate_of(Kind::change, "close " + path_of(file)) : Fate::passes;
  const int result = real<int (*)(int)>("close")(file);
  if (fate == Fate::fails) return fail_with(EIO, ENOSPC);
  return fate == Fate::is_interrupted ? interrupt() : result;
}

int rename(const char* from, const char* to) {
  return whole(Kind::change, std::string("rename ") + from + " " + to, EIO, ENOSPC,
               [&] { return real<int (*)(const char*, const char*)>("rename")(from, to); });
}

int unlink(const char* path) {
  return whole(Kind::change, std::string("remove ") + path, EIO, EIO,
               [&] { return real<int (*)(const char*)>("unlink")(path); });
}

int remove(const char* path) {
  return whole(Kind::change, std::string("remove ") + path, EIO, EIO,
               [&] { return real<int (*)(const char*)>("remove")(path); });
}

int mkdir(const char* path, mode_t mode) {
  return whole(Kind::change, std::string("mkdir ") + path, ENOSPC, EIO,
               [&] { return real<int (*)(const char*, mode_t)>("mkdir")(path, mode); });
}

int truncate(const char* path, off_t length) {
  return whole(Kind::change, std::string("truncate ") + path, EIO, ENOSPC,
               [&] { return real<int (*)(const char*, off_t)>("truncate")(path, length); });
}

ssize_t read(int file, void* bytes, size_t count) {
  return read_with(file, count,
                   [&](size_t n) { return real<ssize_t (*)(int, void*, size_t)>("read")(file, bytes, n); });
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  return read_with(file, count, [&](size_t n) {
    return real<ssize_t (*)(int, void*, size_t, off_t)>("pread")(file, bytes, n, offset);
  });
}

off_t lseek(int file, off_t offset, int whence) {
  return whole(Kind::read, "seek in " + path_of(file), EIO, EIO,
               [&] { return real<off_t (*)(int, off_t, int)>("lseek")(file, offset, whence); });
}

DIR* opendir(const char* path) {
  if (fate_of(Kind::read, std::string("list ") + path) == Fate::fails) {
    fail_with(EIO, EMFILE);
    return nullptr;
  }
  return real<DIR* (*)(const char*)>("opendir")(path);
}

DIR* fdopendir(int file) {
  if (fate_of(Kind::read, "list " + path_of(file)) == Fate::fails) {
    fail_with(EIO, ENOMEM);
    return nullptr;
  }
  return real<DIR* (*)(int)>("fdopendir")(file);
}

dirent* readdir(DIR* folder) {
  if (fate_of(Kind::read, "list on " + path_of(::dirfd(folder))) == Fate::fails) {
    fail_with(EIO, ENOMEM);
    return nullptr;
  }
  return real<dirent* (*)(DIR*)>("readdir")(folder);
}

int stat(const char* path, struct stat* out) {
  return whole(Kind::read, std::string("look at ") + path, EIO, ENOMEM,
               [&] { return real<int (*)(const char*, struct stat*)>("stat")(path, out); });
}

int lstat(const char* path, struct stat* out) {
  return whole(Kind::read, std::string("look at ") + path, EIO, ENOMEM,
               [&] { return real<int (*)(const char*, struct stat*)>("lstat")(path, out); });
}

int fstat(int file, struct stat* out) {
  return whole(Kind::read, "look at " + path_of(file), EIO, ENOMEM,
               [&] { return real<int (*)(int, struct stat*)>("fstat")(file, out); });
}

}  // extern "C"
