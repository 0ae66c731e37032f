// Metal Shading Language 3.1 (bfloat, atomic_float). Compile with -fno-fast-math: NaN and infinities have their meaning.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

const CLike& metal();

}  // namespace rlxc::target
