// `rlxc calibrate`: evaluates a model on sample data and writes the record that `--calibration` reads.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"
#include "passes/quantise/scales.h"
#include "support/diagnostics.h"

namespace rlxc {

// Records the operands of matmuls and convolutions as quantisation will see them: activations with one asymmetric scale,
// two-dimensional weights and filters with one symmetric scale per output channel. Evaluates the data twice: for the range and
// for the distribution. Warns about tensors that no sample reaches.
struct Calibrated {
  CalibrationRecord record;
  std::string model;  // hash of the file, LoadedModel::content_hash
};
std::optional<Calibrated> calibrate(const CompileOptions&, const CalibrateRequest&, Diagnostics&);

// The record as JSON. Deterministic.
std::string calibration_json(const Calibrated&);

}  // namespace rlxc
