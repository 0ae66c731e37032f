// Element types that the kernel language does not hold: 8-bit floats, which are stored as bytes, and types of 2 and 4 bits,
// several to a byte.
#pragma once
#include "support/dtype.h"

namespace rlxc {

inline bool is_narrow(DType t) { return t != DType::String && (bits(t) < 8 || (bits(t) == 8 && is_float(t))); }

// The type kernels see in memory.
inline DType storage_dtype(DType t) { return is_narrow(t) ? DType::U8 : t; }

}  // namespace rlxc
