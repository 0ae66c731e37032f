#include "support/system_calls.h"

#include <fcntl.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/random.h>

namespace rlxc {

int open_nameless_file(const char* name) { return memfd_create(name, MFD_CLOEXEC); }

bool open_pipe(int (&ends)[2]) { return pipe2(ends, O_CLOEXEC) == 0; }

int folder_flags() { return O_PATH | O_DIRECTORY | O_CLOEXEC; }

bool random_bytes(void* bytes, size_t size) { return getrandom(bytes, size, GRND_NONBLOCK) == static_cast<ssize_t>(size); }

uint64_t thread_number() { return static_cast<uint64_t>(gettid()); }

int64_t second_cache_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  return sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  return 0;
#endif
}

}  // namespace rlxc
#else
#include <stdlib.h>

#include <filesystem>
#include <string>
#if defined(__APPLE__)
#include <pthread.h>
#include <sys/random.h>
#include <sys/sysctl.h>
#endif

namespace rlxc {

int open_nameless_file(const char*) {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "rlxc-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return file;
  unlink(path.c_str());
  fcntl(file, F_SETFD, FD_CLOEXEC);
  return file;
}

bool open_pipe(int (&ends)[2]) {
  if (pipe(ends) != 0) return false;
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
}

int folder_flags() { return O_RDONLY | O_DIRECTORY | O_CLOEXEC; }

bool random_bytes(void* bytes, size_t size) { return getentropy(bytes, size) == 0; }

uint64_t thread_number() {
#if defined(__APPLE__)
  uint64_t number = 0;
  pthread_threadid_np(nullptr, &number);
  return number;
#else
  static thread_local const char place = 0;
  return reinterpret_cast<uintptr_t>(&place);
#endif
}

int64_t second_cache_bytes() {
#if defined(__APPLE__)
  int64_t bytes = 0;
  size_t size = sizeof bytes;
  return sysctlbyname("hw.l2cachesize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
#else
  return 0;
#endif
}

}  // namespace rlxc
#endif
