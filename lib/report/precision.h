// precision.json: each cast inserted by the precision policy, with its reason. quant.json: each quantized tensor, with the source
// of its scale.
#pragma once
#include <span>
#include <string_view>

#include "passes/pass.h"
#include "report/context.h"

namespace rlxc::report {

std::string_view name(PrecisionPolicy);  // as in --precision: "automixed-bf16"
std::optional<PrecisionPolicy> precision_policy_from_name(std::string_view);

// Input of both reports. Notes are in execution order; a note with an integer type is a Quantize/Dequantize pair, with the source
// of the scale as reason. `result`: the module after all passes.
struct PrecisionReport {
  PrecisionPolicy policy = PrecisionPolicy::F32;
  std::span<const PrecisionNote> notes;
  const CalibrationRecord* calibration = nullptr;  // null if there is none
  const Module& result;
};

void write_precision(const PrecisionReport&, JsonWriter&, const ReportContext&);
void write_quant(const PrecisionReport&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
