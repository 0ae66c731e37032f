#include "driver/pass_options.h"

#include <iterator>

#include "driver/config_files.h"
#include "driver/rule_file.h"
#include "report/precision.h"

namespace rlxc {
namespace {

// Returns the operand type of matmuls for an 8-bit precision.
std::optional<CastConfig> operand_cast_of(PrecisionPolicy p) {
  if (p < PrecisionPolicy::Fp8E4M3) return std::nullopt;
  const bool blocks = p == PrecisionPolicy::MxFp8E4M3 || p == PrecisionPolicy::MxFp8E5M2;
  const bool e4m3 = p == PrecisionPolicy::Fp8E4M3 || p == PrecisionPolicy::MxFp8E4M3;
  return CastConfig{e4m3 ? DType::F8E4M3FN : DType::F8E5M2, blocks ? 32 : 0, !blocks, blocks};
}

}  // namespace

std::optional<PassOptions> pass_options(const CompileOptions& o, Diagnostics& d) {
  PassOptions p = o;
  p.max_packed = o.PlanOptions::max_packed;
  p.device_memory = o.PlanOptions::device_memory;
  if (o.precision_name.starts_with("custom:")) {
    p.precision = PrecisionPolicy::Custom;
    if (!read_precision_map(o.precision_name.substr(7), &p.custom_precision, d)) return std::nullopt;
  } else if (const auto policy = report::precision_policy_from_name(o.precision_name);
             policy && *policy != PrecisionPolicy::Custom) {
    p.precision = *policy;
    p.weight_cast = p.operand_cast = operand_cast_of(*policy);
  } else {
    d.error(Code::BadFlag, "--precision does not know \"" + o.precision_name + "\"", {},
            "one of f32, f16, automixed, automixed-conservative, automixed-bf16, fp8-e4m3, fp8-e5m2, mxfp8-e4m3, mxfp8-e5m2, "
            "custom:FILE");
    return std::nullopt;
  }
  if (!o.weights.empty() && !(p.weight_cast = weight_cast_from(o.weights))) {
    d.error(Code::BadFlag, "--weights does not know \"" + o.weights + "\"", {},
            "int8, int4, fp8-e4m3 or fp8-e5m2, and how many terms share a scale: int4:32");
    return std::nullopt;
  }
  if (!o.shard_rules.empty()) {
    auto rules = read_shard_rules(o.shard_rules, d);
    if (!rules) return std::nullopt;
    p.shards.insert(p.shards.begin(), std::make_move_iterator(rules->begin()), std::make_move_iterator(rules->end()));
  }
  if (!o.rule_file.empty() && !(p.user_rules = read_rules(o.rule_file, d))) return std::nullopt;
  if (o.activations != "model") p.int8_activations = o.activations == "int8";
  if (!o.calibration_file.empty()) {
    CalibrationRecord record;
    if (!read_calibration(o.calibration_file, &record, d)) return std::nullopt;
    // The group size of the record holds unless another is given.
    const bool same_type = p.weight_cast && record.weights && p.weight_cast->to == record.weights->to;
    if (record.weights && (o.weights.empty() || (same_type && p.weight_cast->block == 0))) p.weight_cast = record.weights;
    p.calibration = std::move(record);
  }
  return p;
}

PassOptions for_target(PassOptions p, const TargetInfo& target) {
  if (p.precision == PrecisionPolicy::AutoMixed && target.half == DType::BF16) p.precision = PrecisionPolicy::AutoMixedBf16;
  return p;
}

}  // namespace rlxc
