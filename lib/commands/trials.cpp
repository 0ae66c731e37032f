#include "commands/trials.h"

#include <algorithm>
#include <span>

#include "commands/check_run.h"
#include "driver/compile.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "support/output_file.h"
#include "support/progress.h"

namespace rlxc {

Trials::Trials(const CompileOptions& o, const CalibrateRequest& request, const TargetTraits& target, const PassOptions& passes,
               const std::vector<ReferenceRun>& samples, Diagnostics& d)
    : o_(o), request_(request), target_(target), passes_(passes), samples_(samples), d_(d) {
  o_.calibration_file = o.output;  // any name: the record is in the options of the passes
  o_.stop_before.clear();
}

void judge_outputs(const std::vector<eval::HostValue>& outputs, const std::vector<eval::HostValue>& floats, double accuracy,
                   Accuracy* a) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const eval::Judgement j = eval::judge(outputs[i], floats[i], eval::similar(accuracy));
    a->cosine = std::min(a->cosine, j.cosine);
    a->norm_error = std::max(a->norm_error, j.norm_error);
    a->good &= j.pass;
  }
}

std::optional<Accuracy> Trials::accuracy(CalibrationRecord record, size_t count) {
  note_stage("calibrate: model " + std::to_string(++tried_));
  CompileOptions plain = o_;
  plain.calibration_file.clear();
  plain.weights.clear();
  Diagnostics d(o_.input);
  auto model = load_model(plain, d);
  PassOptions passes = passes_;
  passes.weight_cast = record.weights;
  passes.calibration = std::move(record);
  Compiled done;
  if (!model || !lower_interface(*model->module, target_.name, plain, d) ||
      !optimise(*model->module, target_, o_, passes, {}, &done, d))
    return failed(d);
  Accuracy all;
  for (const ReferenceRun& s : std::span(samples_).first(count)) {
    const auto outputs = eval::evaluate(*model->module, s.set.inputs, d, evaluation_limits(o_));
    if (!outputs) return failed(d);
    judge_outputs(*outputs, s.outputs, request_.accuracy, &all);
  }
  return all;
}

std::optional<std::vector<Accuracy>> Trials::each_alone(
    size_t layers, const std::function<CalibrationRecord(const std::vector<bool>&)>& record) {
  std::vector<Accuracy> out;
  std::vector<bool> is_float(layers, true);
  for (size_t i = 0; i < layers; ++i) {
    is_float[i] = false;
    const auto found = accuracy(record(is_float), std::min<size_t>(samples_.size(), 1));
    if (!found) return std::nullopt;
    out.push_back(*found);
    is_float[i] = true;
  }
  return out;
}

std::optional<bool> Trials::good(const Calibrated& c) {
  if (request_.accuracy > 0) {
    const auto found = accuracy(c.record, samples_.size());
    if (!found || !found->good) return found ? std::optional(false) : std::nullopt;
  }
  if (request_.check.empty()) return true;
  if (!write_file(o_.output, calibration_json(c), d_)) return std::nullopt;
  size_t floats = 0;
  for (const CalibratedLayer& l : c.layers) floats += l.is_float;
  return run_check(request_.check, std::to_string(floats) + " of " + std::to_string(c.layers.size()) + " layers in float", d_);
}

std::nullopt_t Trials::failed(const Diagnostics& d) {
  d_.add(d);
  return std::nullopt;
}

}  // namespace rlxc
