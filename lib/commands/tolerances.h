// How closely results have to agree, by the precision of a compile and the types that the model computes in.
#pragma once
#include "eval/compare.h"
#include "options/options.h"

namespace rlxc {

// Rounding errors of f16 and bf16 grow over layers; 8-bit and 4-bit values are compared by cosine. `m`: before any pass, for the
// rounding of the types that it computes in. Flags of `rlxc run` override.
eval::Tolerance tolerance_of(const CompileOptions&, const RunRequest&, const Module& m);

// Tolerances of the outputs that the model declares as f8, f16 or bf16: at least the rounding of the type.
eval::Tolerance for_type(eval::Tolerance, DType);

}  // namespace rlxc
