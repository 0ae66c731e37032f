// Each target's back end, defined beside its row.
#pragma once
#include "backend/backend.h"

namespace rlxc {

#define BACKEND(target) const Backend& target##_backend();
#include "backend/backends.def"
#undef BACKEND

}  // namespace rlxc
