// The result of a calibration: the record, and what is known about its entries.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "passes/quantise/scales.h"

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
  size_t samples = 0;                       // on which the model was evaluated
  std::string model;                        // hash of the file, LoadedModel::content_hash
};

// The record as JSON. Deterministic.
std::string calibration_json(const Calibrated&);
// The layers that lose most, those that stay float, and what that costs.
std::string calibration_text(const Calibrated&);

}  // namespace rlxc
