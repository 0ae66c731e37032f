#include "eval/image/library.h"

#include <dlfcn.h>

namespace rlxc::eval::codec {

Library::Library(const char* file) : file_(file), handle_(dlopen(file, RTLD_LAZY | RTLD_LOCAL)) {
  if (handle_) return;
  const char* why = dlerror();
  error_ = "the library that reads it can't be opened: " + (why ? std::string(why) : file_);
}

void* Library::find(const char* name) {
  void* const function = handle_ ? dlsym(handle_, name) : nullptr;
  if (!function && error_.empty()) error_ = "the library that reads it, " + file_ + ", has no function " + name;
  return function;
}

}  // namespace rlxc::eval::codec
