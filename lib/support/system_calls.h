// System calls of Linux that other systems of the POSIX family lack, with what these have in their place.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rlxc {

// A descriptor of an empty file that no folder names, in memory where the system has such files. -1, with errno, on failure.
int open_nameless_file(const char* name);

// A pipe whose ends are closed in programs that are started. False, with errno, on failure.
bool open_pipe(int (&ends)[2]);

// Flags that open a folder to look up names in it.
int folder_flags();

// Random bytes, without waiting for them. False if there are none yet.
bool random_bytes(void* bytes, size_t size);

// A number of this thread that no other thread of the process has; never 0. May be called by handlers of signals.
uint64_t thread_number();

// Bytes of the second cache of a core, or 0.
int64_t second_cache_bytes();

}  // namespace rlxc
