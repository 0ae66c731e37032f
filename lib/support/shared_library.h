// Shared libraries of kernels that the program built, opened while it runs. A static build opens none
// (shared_library_absent.cpp).
#pragma once
#include <string>

namespace rlxc {

// Whether this build opens libraries.
bool opens_libraries();

enum class Unloading { Allowed, Never };

// A path, or a name that the dynamic linker looks up. Null on failure: library_error says why. `Never` is for libraries with
// threads, which outlive their use.
void* open_library(const std::string& file, Unloading unloading = Unloading::Allowed);
void close_library(void* library);  // null is allowed
void* find_symbol(void* library, const std::string& name);

// Why the last call of this thread failed; empty if the system does not say.
std::string library_error();

// A function or variable of a library. False if it has none of this name.
template <class F>
bool find_symbol(void* library, const std::string& name, F* f) {
  *f = reinterpret_cast<F>(find_symbol(library, name));
  return *f != nullptr;
}

}  // namespace rlxc
