// A build that opens no libraries (RLXC_STATIC): a static program has no dynamic linker.
#include "support/shared_library.h"

namespace rlxc {

bool opens_libraries() { return false; }

void* open_library(const std::string&, Unloading) { return nullptr; }

void close_library(void*) {}

void* find_symbol(void*, const std::string&) { return nullptr; }

std::string library_error() { return "this build of rlxc is static and opens no libraries"; }

}  // namespace rlxc
