// `rlxc calibrate`: evaluates a model on sample data and writes the record that `--calibration` reads.
#pragma once
#include <string>
#include <vector>

#include "options/options.h"
#include "passes/quantise/scales.h"
#include "support/diagnostics.h"

namespace rlxc {

// A matmul or convolution whose operands are in the record.
struct CalibratedLayer {
  std::string name;
  std::vector<std::string> tensors;
  std::vector<std::optional<double>> sqnr;  // what 8 bits lose of each, in dB; nullopt: nothing
  std::optional<double> cosine;  // least cosine of the outputs with only this layer quantised; with a search for accuracy
  bool is_float = false;         // not quantised, for accuracy
};

struct Calibrated {
  CalibrationRecord record;
  std::vector<std::optional<double>> sqnr;  // of each entry of the record, in dB; nullopt: exact
  std::vector<CalibratedLayer> layers;      // in the order of execution
  std::string weights;                      // type and group size of constant weights, if only these are quantised
  std::optional<double> accuracy;           // least cosine of the outputs over all samples; with a search
  std::string model;                        // hash of the file, LoadedModel::content_hash
};

// Records the operands of matmuls and convolutions as quantisation will see them: activations with one scale, two-dimensional
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

// The record as JSON. Deterministic.
std::string calibration_json(const Calibrated&);
// The layers that lose most, those that stay float, and what that costs.
std::string calibration_text(const Calibrated&);

}  // namespace rlxc
