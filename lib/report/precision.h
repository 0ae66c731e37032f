// precision.json: each cast that the precision policy placed, and why. quant.json: each quantised tensor, and where its scale
// comes from.
#pragma once
#include <span>
#include <string_view>

#include "passes/pass.h"
#include "report/context.h"

namespace rlxc::report {

std::string_view name(PrecisionPolicy);  // as in --precision: "automixed-bf16"
std::optional<PrecisionPolicy> precision_policy_from_name(std::string_view);

// Notes of casts and notes of quantisation come in one list, in execution order; each report takes its own: a note to an integer
// type is a pair of Quantize and Dequantize, its reason the source of the scale. `result` is the module after all passes.
struct PrecisionReport {
  PrecisionPolicy policy = PrecisionPolicy::F32;
  std::span<const PrecisionNote> notes;
  const CalibrationRecord* calibration = nullptr;  // null if there was none
  const Module& result;
};

void write_precision(const PrecisionReport&, JsonWriter&, const ReportContext&);
void write_quant(const PrecisionReport&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
