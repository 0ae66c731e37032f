#include "driver/compile.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "backend/backend.h"
#include "backend/dispatch.h"
#include "backend/target_traits.h"
#include "driver/config_files.h"
#include "driver/pipeline.h"
#include "ir/graphs.h"
#include "ir/verify.h"
#include "memory/plan_lir.h"
#include "memory/states.h"
#include "passes/lower/maps_as_rows.h"
#include "passes/lower/strings_as_bytes.h"
#include "report/fingerprint.h"
#include "report/precision.h"
#include "support/text.h"

namespace rlxc {
namespace {

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double s = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return s;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

bool find_passes(std::span<const std::string_view> names, std::vector<const PassInfo*>* out, Diagnostics& d) {
  for (std::string_view n : names) {
    if (const PassInfo* p = find_pass(n)) {
      out->push_back(p);
      continue;
    }
    std::vector<std::string_view> known;
    for (const PassInfo& p : all_passes()) known.push_back(p.name);
    const auto close = closest(n, known);
    d.error(Code::BadFlag, "there is no pass \"" + std::string(n) + "\"", {},
            close ? "did you mean " + std::string(*close) + "?" : "`rlxc list passes` shows them");
  }
  return d.ok();
}

// Of --weights TYPE[:BLOCK].
std::optional<CastConfig> weight_cast_from(std::string_view s) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"int8", DType::I8}, {"int4", DType::I4}, {"fp8-e4m3", DType::F8E4M3FN}, {"fp8-e5m2", DType::F8E5M2}};
  const size_t colon = s.find(':');
  for (const auto& [name, dtype] : kTypes) {
    if (name != s.substr(0, colon)) continue;
    CastConfig c{dtype, 0, false, false};
    if (colon == std::string_view::npos) return c;
    const auto [end, error] = std::from_chars(s.data() + colon + 1, s.data() + s.size(), c.block);
    if (error != std::errc() || end != s.data() + s.size() || c.block < 1 || c.block > 1 << 20) return std::nullopt;
    return c;
  }
  return std::nullopt;
}

// Which output is a tensor now, and what its columns are.
void say_columns(const Module& m, const std::vector<std::optional<MapKeysAttrs>>& keys, Diagnostics& d) {
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!keys[i]) continue;
    std::vector<std::string> names = keys[i]->strings;
    for (int64_t k : keys[i]->ints) names.push_back(std::to_string(k));
    const size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    d.warning(Code::UnsupportedOnTarget,
              "kernels have no maps: it is " + text(m.main().type(m.main().outputs()[i]), m.dims) +
                  ", with a column for each key: " + join(names, ", ") +
                  (more > 0 ? " and " + std::to_string(more) + " more" : ""),
              "output " + ForeignText(m.text(m.main().output_name(i))).quoted());
  }
}

// What an 8-bit precision makes of the operands of products.
std::optional<CastConfig> operand_cast_of(PrecisionPolicy p) {
  if (p < PrecisionPolicy::Fp8E4M3) return std::nullopt;
  const bool blocks = p == PrecisionPolicy::MxFp8E4M3 || p == PrecisionPolicy::MxFp8E5M2;
  const bool e4m3 = p == PrecisionPolicy::Fp8E4M3 || p == PrecisionPolicy::MxFp8E4M3;
  return CastConfig{e4m3 ? DType::F8E4M3FN : DType::F8E5M2, blocks ? 32 : 0, !blocks, blocks};
}

}  // namespace

std::optional<PassOptions> pass_options(const Options& o, Diagnostics& d) {
  PassOptions p;
  p.fold_max_bytes = o.fold_max_bytes;
  p.fast_math = o.fast_math;
  p.unroll_max_nodes = o.unroll_max_nodes;
  p.max_packed = o.max_packed;
  p.fuse_attn_threshold = o.fuse_attn_threshold;
  p.promoted_params = o.promoted_params, p.specialised_params = o.specialised_params;
  if (o.hir_policy == "direct") p.fusion = FusionPolicy::Direct;
  if (o.precision.starts_with("custom:")) {
    p.precision = PrecisionPolicy::Custom;
    if (!read_precision_map(o.precision.substr(7), &p.custom_precision, d)) return std::nullopt;
  } else if (const auto policy = report::precision_policy_from_name(o.precision); policy && *policy != PrecisionPolicy::Custom) {
    p.precision = *policy;
    p.weight_cast = p.operand_cast = operand_cast_of(*policy);
  } else {
    d.error(Code::BadFlag, "--precision does not know \"" + o.precision + "\"", {},
            "one of f32, f16, automixed, automixed-conservative, automixed-bf16, fp8-e4m3, fp8-e5m2, mxfp8-e4m3, mxfp8-e5m2, "
            "custom:FILE");
    return std::nullopt;
  }
  if (!o.weights.empty() && !(p.weight_cast = weight_cast_from(o.weights))) {
    d.error(Code::BadFlag, "--weights does not know \"" + o.weights + "\"", {},
            "int8, int4, fp8-e4m3 or fp8-e5m2, and how many terms share a scale: int4:32");
    return std::nullopt;
  }
  if (!o.calibration.empty()) {
    CalibrationRecord record;
    if (!read_calibration(o.calibration, &record, d)) return std::nullopt;
    p.calibration = std::move(record);
  }
  return p;
}

bool optimise(Module& m, const TargetTraits& target, const Options& o, const PassOptions& pass_opts, const StageSink& sink,
              Compiled* out, Diagnostics& d) {
  for (size_t i = 0; i < m.graph_count(); ++i)  // what shares a launch is decided here, whatever the input says
    for (Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes()) g.set_launch(n, {});
  TargetTraits traits = target;
  if (o.kernel_dispatch == "common")
    for (size_t k = 0; k < kOpCount; ++k)
      if (has_trait(static_cast<OpKind>(k), kFused)) traits.native.reset(k);
  if (o.kernel_dispatch == "common" || !o.supported_ops.empty()) traits.joins = nullptr;
  if (!o.supported_ops.empty()) {
    std::bitset<kOpCount> claimed;
    if (!read_supported_ops(o.supported_ops, &claimed, d)) return false;
    traits.native &= claimed;
  }
  PassContext context{traits, pass_opts, d, out->decisions, out->precision};
  RunnerOptions runner;
  runner.verify = o.verify || o.verify_each;
  runner.verify_each = o.verify_each;
  runner.stop_after = o.stop_after;
  runner.disabled.assign(o.disabled_passes.begin(), o.disabled_passes.end());
  runner.bisect_limit = o.bisect_limit;
  runner.most_runs = o.most_runs;
  runner.dump = sink;

  std::vector<PipelinePart> parts = pipeline(target.name, o);
  if (!o.passes.empty()) parts = {{"custom", {o.passes.begin(), o.passes.end()}, 1}};
  std::vector<const PassInfo*> known;
  for (const std::string& name : o.disabled_passes) {
    const std::string_view view = name;
    if (!find_passes({&view, 1}, &known, d)) return false;
  }
  if (!o.stop_after.empty()) {
    const std::string_view view = o.stop_after;
    if (o.stop_after != "hir" && o.stop_after != "mir" && !find_passes({&view, 1}, &known, d)) return false;
  }
  if (o.stop_after == "hir") return true;
  for (const PipelinePart& part : parts) {
    if (part.name == o.stop_before) break;
    std::vector<const PassInfo*> passes;
    if (!find_passes(part.passes, &passes, d)) return false;
    compact_sparse(m);
    const bool legalises = part.name == "legalise";
    std::vector<report::DispatchNode> foreign;
    if (legalises) foreign = foreign_nodes(m, traits);
    const bool ok = part.repeat > 1 ? run_to_fixed_point(m, passes, part.repeat, context, runner, &out->passes)
                                    : run_passes(m, passes, context, runner, &out->passes);
    if (!ok) return false;
    if (legalises) out->rewritten = rewritten_nodes(m, std::move(foreign));
    if (o.stop_after == "mir" && part.name == "lower") break;
  }
  m.current_pass = {};
  return d.ok();
}

std::optional<LirModule> plan_for(const std::string& target, std::unique_ptr<Module> m, const Options& o, Diagnostics& d) {
  PlanOptions planning;
  const TargetInfo& info = find_backend(target)->info;
  planning.alignment = o.alignment ? o.alignment : info.alignment;
  planning.element_bytes = o.element_bytes;
  planning.max_binding = o.max_binding && info.max_binding ? o.max_binding : info.max_binding;
  planning.in_place = o.in_place, planning.reorder = o.reorder;
  planning.max_arena = o.max_arena, planning.max_packed = o.max_packed;
  planning.kernels = o.element_bytes > 1 ? std::nullopt : capability(info);
  planning.ranges = o.ranges, planning.bounds = o.bounds;
  planning.verify = o.verify;
  auto states = find_states(*m, o.states, d);
  if (!states) return std::nullopt;
  planning.states = std::move(*states);
  auto lir = plan_lir(std::move(m), planning, d);
  if (!lir) return std::nullopt;
  std::vector<std::string_view> names;
  for (const Extent& e : lir->extents) names.push_back(e.symbol.bytes());
  bool known = true;
  for (const auto& [symbol, size] : o.bounds) {
    if (std::ranges::find(names, symbol) != names.end()) continue;
    const auto close = closest(symbol, names);
    known = false;
    d.error(Code::BadBinding, "--bound names \"" + symbol + "\", which no node of the model defines when it runs", {},
            close ? "did you mean " + std::string(*close) + "?" : "");
  }
  return known ? std::move(lir) : std::nullopt;
}

std::optional<Compiled> compile(LoadedModel model, const std::string& target, const Options& o, const StageSink& sink,
                                Diagnostics& d) {
  const TargetTraits* traits = find_target(target);
  if (!traits) {
    const auto close = closest(target, target_names());
    d.error(Code::BadFlag, "there is no target \"" + target + "\"", {},
            close ? "did you mean " + std::string(*close) + "?" : "`rlxc list targets` shows them");
    return std::nullopt;
  }
  const auto pass_opts = pass_options(o, d);
  if (!pass_opts) return std::nullopt;
  if (!o.calibration.empty() && !check_calibrated_model(o.calibration, model.content_hash, d)) return std::nullopt;
  Compiled out;
  out.target = target;
  out.options = *pass_opts;
  Stopwatch watch;
  out.before = report::count_module(*model.module);
  if (sink) sink("import", true, *model.module);
  if (o.verify && !verify(*model.module, d)) return std::nullopt;
  say_columns(*model.module, maps_as_rows(*model.module), d);
  strings_as_bytes(*model.module, &d);
  if (!optimise(*model.module, *traits, o, *pass_opts, sink, &out, d)) return std::nullopt;
  out.seconds.emplace_back("passes", watch.lap());
  out.decisions = report::settled(std::move(out.decisions));
  auto lir = plan_for(target, std::move(model.module), o, d);
  if (!lir) return std::nullopt;
  out.lir = std::move(*lir);
  out.lir.fingerprint = report::fingerprint(out.lir);
  out.after = report::count_module(*out.lir.module);
  out.seconds.emplace_back("plan", watch.lap());
  if (sink) sink("lir", true, *out.lir.module);
  return out;
}

}  // namespace rlxc
