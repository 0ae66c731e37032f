// The result of a calibration: the record, and what is known about its entries.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "passes/quantize/scales.h"

namespace rlxc {

// How near outputs are to those of the float model.
struct Accuracy {
  double cosine = 1, norm_error = 0;  // of the worst output: the least, and the greatest
  bool good = true;                   // all are as near as requested
};

std::vector<double> cosines(const std::vector<Accuracy>&);

// A matmul or convolution whose operands are in the record.
struct CalibratedLayer {
  std::string name;
  std::vector<std::string> tensors;
  std::vector<std::optional<double>> sqnr;  // what 8 bits lose of each, in dB; nullopt: nothing
  std::optional<Accuracy> alone;            // with only this layer quantized, on the first sample; with a search for accuracy
  bool is_float = false;                    // not quantized, for accuracy
};

struct Calibrated {
  CalibrationRecord record;
  std::vector<std::optional<double>> sqnr;  // of each entry of the record, in dB; nullopt: exact
  std::vector<CalibratedLayer> layers;      // in the order of execution
  std::string weights;                      // type and group size of constant weights, if only these are quantized
  std::optional<Accuracy> accuracy;         // over all samples; with a search
  size_t samples = 0;                       // on which the model was evaluated
  std::string model;                        // hash of the file, LoadedModel::content_hash
};

// The record as JSON. Deterministic.
std::string calibration_json(const Calibrated&);
// The layers that lose most, those that stay float, and what that costs.
std::string calibration_text(const Calibrated&);

}  // namespace rlxc
