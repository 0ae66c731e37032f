// `rlxc calibrate`: evaluates a model on sample data and writes the record that `--calibration` reads.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"
#include "passes/quantise/scales.h"
#include "support/diagnostics.h"

namespace rlxc {

// The tensors recorded are the operands of matmuls and convolutions as they stand when quantisation runs: activations with one
// asymmetric scale, two-dimensional weights and filters with one symmetric scale an output channel. The evaluator runs twice over
// the data, for the ends and for the distribution. Warnings name tensors that no sample reached.
struct Calibrated {
  CalibrationRecord record;
  std::string model;  // hash of the file, LoadedModel::content_hash
};
std::optional<Calibrated> calibrate(const CompileOptions&, const CalibrateRequest&, Diagnostics&);

// The record as JSON, equal for equal records.
std::string calibration_json(const Calibrated&);

}  // namespace rlxc
