// `rlxc calibrate`: evaluates a model on sample data and writes the record that `--calibration` reads.
#pragma once
#include <string>

#include "commands/calibrated.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Records the operands of matmuls and convolutions as quantization will see them: activations with one scale, two-dimensional
// weights and filters with one symmetric scale per output channel. Evaluates the data three times: for the range, for the
// distribution, and for what 8 bits lose. Warns about tensors that no sample reaches.
//
// With `accuracy` or `check`, layers stay float until every output is close enough to that of the float model on all samples, or
// the check passes; the record then has the operands of the other layers. A candidate is the optimised model in the reference
// evaluator; for the check it is written to the output file.
//
// With `smooth`, ranges of the channels of norms move to the weights of the matmuls that read them, before all this. With weights
// (options.weights) the record has no tensors: it says in which type and group size constant weights of matmuls are stored, the
// largest group that is accurate enough, and which layers stay float.
std::optional<Calibrated> calibrate(const CompileOptions&, const CalibrateRequest&, Diagnostics&);

}  // namespace rlxc
