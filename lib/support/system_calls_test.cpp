#include "support/system_calls.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

namespace rlxc {

TEST_CASE("system calls: a nameless file is empty, writable, and closed in programs that are started") {
  const int file = open_nameless_file("test");
  REQUIRE(file >= 0);
  struct stat info;
  REQUIRE(fstat(file, &info) == 0);
  CHECK(info.st_nlink == 0);
  CHECK(info.st_size == 0);
  CHECK(write(file, "abc", 3) == 3);
  CHECK((fcntl(file, F_GETFD) & FD_CLOEXEC));
  close(file);
}

TEST_CASE("system calls: a pipe carries bytes, and its ends are closed in programs that are started") {
  int ends[2] = {-1, -1};
  REQUIRE(open_pipe(ends));
  for (const int end : ends) CHECK((fcntl(end, F_GETFD) & FD_CLOEXEC));
  char byte = 0;
  CHECK(write(ends[1], "x", 1) == 1);
  CHECK(read(ends[0], &byte, 1) == 1);
  CHECK(byte == 'x');
  for (const int end : ends) close(end);
}

TEST_CASE("system calls: names are looked up in an open folder, and a file is no folder") {
  const int root = open("/", folder_flags());
  REQUIRE(root >= 0);
  CHECK(faccessat(root, "dev", F_OK, 0) == 0);
  close(root);
  CHECK(open("/dev/null", folder_flags()) < 0);
}

TEST_CASE("system calls: threads have different numbers") {
  uint64_t other = 0;
  std::thread([&] { other = thread_number(); }).join();
  CHECK(thread_number() != 0);
  CHECK(other != 0);
  CHECK(other != thread_number());
}

}  // namespace rlxc
