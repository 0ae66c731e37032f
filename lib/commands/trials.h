// Trials of a calibration: quantizes the model with candidate records and measures what that does to its outputs.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "backend/target_traits.h"
#include "commands/calibrated.h"
#include "eval/compare.h"
#include "runtime/data_set.h"

namespace rlxc {

// The float outputs of a sample, and its inputs.
struct ReferenceRun {
  DataSet set;
  std::vector<eval::HostValue> outputs;
};

// Judges outputs as all commands do: they must be as similar to the float outputs as `request.accuracy`.
void judge_outputs(const std::vector<eval::HostValue>& outputs, const std::vector<eval::HostValue>& floats, double accuracy,
                   Accuracy*);

class Trials {
 public:
  // All but the options must outlive the object.
  Trials(const CompileOptions&, const CalibrateRequest&, const TargetTraits&, const PassOptions&,
         const std::vector<ReferenceRun>&, Diagnostics&);

  // The accuracy over the first `count` samples. Evaluates the optimised model.
  std::optional<Accuracy> accuracy(CalibrationRecord, size_t count);
  // The same on the first sample, by layer: only this one is quantized. `record`: the record in which these layers are float.
  std::optional<std::vector<Accuracy>> each_alone(
      size_t layers, const std::function<CalibrationRecord(const std::vector<bool>& is_float)>& record);
  // Whether the outputs are as accurate as the request demands, and its check passes.
  std::optional<bool> good(const Calibrated&);

 private:
  std::nullopt_t failed(const Diagnostics&);

  CompileOptions o_;
  const CalibrateRequest& request_;
  const TargetTraits& target_;
  const PassOptions& passes_;
  const std::vector<ReferenceRun>& samples_;
  Diagnostics& d_;
  int tried_ = 0;
};

}  // namespace rlxc
