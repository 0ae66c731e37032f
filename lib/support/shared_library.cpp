#include "support/shared_library.h"

#include <dlfcn.h>

namespace rlxc {

bool opens_libraries() { return true; }

void* open_library(const std::string& file, Unloading unloading) {
  return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | (unloading == Unloading::Never ? RTLD_NODELETE : 0));
}

void close_library(void* library) {
  if (library) dlclose(library);
}

void* find_symbol(void* library, const std::string& name) { return dlsym(library, name.c_str()); }

std::string library_error() {
  const char* reason = dlerror();
  return reason ? reason : "";
}

}  // namespace rlxc
