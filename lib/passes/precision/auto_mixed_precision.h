// Runs parts of an f32 graph in f16 or bf16 (options.precision). Only values that are f32 change; integers, bools, f64 and what
// the model holds in a narrow type already are never touched, and graph inputs and outputs (of bodies too) keep their types.
//
// By class (precision_class.h): contractions go low; sensitive operations stay in f32; norms and the rest follow the widest of
// their inputs, weights having no say, so that a value which is low stays low up to the first operation that needs f32.
//   f16                     everything low, sensitive operations too
//   automixed, -bf16        as above; a norm reads and writes low and computes in f32 inside
//   automixed-conservative  norms in f32, and only what comes from a contraction is low
//   custom                  by operation name or class name, the operation first; what is not named stays in f32
//
// A Cast is placed at the first reader that needs it and shared by the later ones, so it stands below gathers, slices and
// transposes. Casts of parameters run once, at load time. Constants are converted here; a finite value beyond the narrow range
// (a mask of -1e9) becomes the largest finite one. With a calibration record,
// operations whose results leave the range of f16 stay in f32. Each cast and each clamped constant is a PrecisionNote.
// Must run after lower_hir and quantisation, and before elementwise regions are formed: their steps are typed. O(nodes + uses).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult auto_mixed_precision(Module&, PassContext&);

}  // namespace rlxc
