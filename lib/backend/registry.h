// The back end of each target, defined in the target's source file.
#pragma once

namespace rlxc {

class Backend;

#define BACKEND(target) const Backend& target##_backend();
#include "backend/backends.def"
#undef BACKEND

}  // namespace rlxc
