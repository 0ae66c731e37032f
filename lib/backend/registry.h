// The back end of each target, defined in the target's source file.
#pragma once
#include "backend/backend.h"

namespace rlxc {

#define BACKEND(target) const Backend& target##_backend();
#include "backend/backends.def"
#undef BACKEND

}  // namespace rlxc
