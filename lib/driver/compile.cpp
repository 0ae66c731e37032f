#include "driver/compile.h"

#include <algorithm>
#include <chrono>

#include "analysis/channel_blocks.h"
#include "analysis/data_dependent_dims.h"
#include "backend/backend.h"
#include "backend/c/cpu.h"
#include "backend/c/cpu_models.h"
#include "backend/dispatch.h"
#include "backend/target_traits.h"
#include "codegen/lower_blocked.h"
#include "driver/check_options.h"
#include "driver/config_files.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "driver/pipeline.h"
#include "driver/rule_file.h"
#include "driver/training_stage.h"
#include "driver/tuning_file.h"
#include "eval/text_bytes.h"
#include "import/gguf/import.h"
#include "ir/graphs.h"
#include "ir/verify.h"
#include "memory/plan_lir.h"
#include "memory/states.h"
#include "passes/interface/maps_as_rows.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"
#include "report/fingerprint.h"
#include "report/plan_json.h"
#include "report/precision.h"
#include "support/parse_number.h"
#include "support/progress.h"
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

// Clears launch groups of the input, because passes assign them.
void forget_launches(Module& m) {
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes()) g.set_launch(n, {});
}

// Marks the kinds that the options want decomposed. Fused kinds are not formed then.
bool choose_dispatch(TargetTraits* traits, const CompileOptions& o, Diagnostics& d) {
  std::bitset<kOpCount> common, native;
  add_kinds(o.force_common, "--force-common", &common, d);
  add_kinds(o.force_native, "--force-native", &native, d);
  for (size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    const bool is_control = op == OpKind::If || op == OpKind::Loop;  // passes write them as tensor operations, where they can
    const bool expands = legalise::decomposition(op) != nullptr || (is_control && common[k]);
    if (common[k] && native[k])
      d.error(Code::BadFlag, std::string(kind_name(op)) + " is named by --force-common and by --force-native");
    else if (common[k] && !expands)
      d.error(Code::BadFlag, "--force-common: " + std::string(kind_name(op)) + " has no decomposition");
    else if (native[k] && !traits->native[k])
      d.error(Code::BadFlag, "--force-native: " + traits->name + " has no kernel of " + std::string(kind_name(op)));
    const bool all = o.kernel_dispatch == KernelDispatch::Common || (o.no_fusion && has_trait(op, kFused));
    if (!expands || native[k] || !(common[k] || all)) continue;
    if (has_trait(op, kFused)) traits->native.reset(k);
    else traits->decomposed.set(k);
  }
  return d.ok();
}

// A figure of the machine by which the cost model decides; null: there is none of this name.
double* machine_figure(Machine& m, std::string_view name) {
  const std::pair<std::string_view, double*> figures[] = {
      {"launch-ns", &m.launch_ns}, {"wait-ns", &m.wait_ns}, {"memory-gbps", &m.memory_gbps}, {"peak-gflops", &m.peak_gflops}};
  for (const auto& [known, figure] : figures)
    if (known == name) return figure;
  return nullptr;
}

bool set_fusion_limits(TargetTraits* traits, const CompileOptions& o, Diagnostics& d) {
  for (const auto& [key, value] : o.fusion_limits) {
    if (double* figure = machine_figure(traits->machine, key)) {
      const bool is_rate = figure == &traits->machine.memory_gbps || figure == &traits->machine.peak_gflops;
      double number = 0;
      if (!parse_number(value, &number) || !(number >= 0 && number <= 1e12) || (is_rate && number == 0))
        d.error(Code::BadFlag,
                "--fusion-limits " + key + "=" + value + " is not a number " + (is_rate ? "above 0" : "from 0") + " to 1e12");
      else *figure = number;
      continue;
    }
    uint32_t* limit = key == "steps" ? &traits->region_max_steps : key == "inputs" ? &traits->region_max_inputs : nullptr;
    uint32_t number = 0;
    if (!limit)
      d.error(Code::BadFlag, "--fusion-limits: no limit \"" + key + "\"", {},
              "the limits are steps, inputs, launch-ns, wait-ns, memory-gbps and peak-gflops");
    else if (!parse_number(value, &number) || number < 2 || number > *limit)
      d.error(Code::BadFlag, "--fusion-limits " + key + "=" + value + " is not a number from 2 to " + std::to_string(*limit));
    else *limit = number;
  }
  return d.ok();
}

// Removes the target features that the options disable.
bool restrict_target(TargetTraits* traits, const CompileOptions& o, Diagnostics& d) {
  if (!choose_dispatch(traits, o, d) || !set_fusion_limits(traits, o, d)) return false;
  if (o.supported_ops.empty()) return true;
  std::bitset<kOpCount> claimed;
  if (!read_supported_ops(o.supported_ops, &claimed, d)) return false;
  traits->native &= claimed;
  return true;
}

RunnerOptions runner_options(const CompileOptions& o, const StageSink& sink) {
  RunnerOptions runner;
  runner.verify = o.verify || o.verify_each;
  runner.verify_each = o.verify_each;
  runner.stop_after = o.stop_after;
  runner.disabled.assign(o.disabled_passes.begin(), o.disabled_passes.end());
  runner.bisect_limit = o.bisect_limit;
  runner.most_runs = o.most_runs;
  runner.dump = sink;
  return runner;
}

// Drops the passes before the first run of a pass. The parts that convert inputs and lower the HIR stay.
bool drop_before(const std::string& pass, std::vector<PipelinePart>* parts, Diagnostics& d) {
  for (PipelinePart& part : *parts) {
    if (part.name == "interface") continue;
    const auto at = std::ranges::find(part.passes, std::string_view(pass));
    const bool found = at != part.passes.end();
    if (found && part.repeat == 1) part.passes.erase(part.passes.begin(), at);
    if (found) return true;
    part.passes.clear();
  }
  d.error(Code::BadFlag, "--start-from: the pipeline of the target does not run \"" + pass + "\"", {},
          "`rlxc compile --time-passes` prints the passes that it runs");
  return false;
}

// Returns the pipeline of the target, or the requested passes, up to the stage where the options stop. Errors: unknown passes.
std::optional<std::vector<PipelinePart>> parts_to_run(std::string_view target, const CompileOptions& o, Diagnostics& d) {
  std::vector<PipelinePart> parts = pipeline(target, o);
  std::vector<std::string_view> named(o.disabled_passes.begin(), o.disabled_passes.end());
  if (!o.start_from.empty()) named.push_back(o.start_from);
  if (!o.stop_after.empty() && o.stop_after != "hir" && o.stop_after != "mir") named.push_back(o.stop_after);
  if (!o.passes.empty()) {
    parts.resize(1);  // the interface part
    parts.push_back({"custom", {o.passes.begin(), o.passes.end()}, 1});
    named.insert(named.end(), o.passes.begin(), o.passes.end());
  }
  if (std::vector<const PassInfo*> known; !find_passes(named, &known, d)) return std::nullopt;
  if (!o.start_from.empty() && !drop_before(o.start_from, &parts, d)) return std::nullopt;
  if (o.stop_after == "hir") parts.resize(1);
  const auto end = std::ranges::find(parts, std::string_view(o.stop_before), &PipelinePart::name);
  if (!o.stop_before.empty()) parts.erase(end, parts.end());
  if (const auto lower = std::ranges::find(parts, "lower", &PipelinePart::name); o.stop_after == "mir" && lower != parts.end())
    parts.erase(lower + 1, parts.end());
  return parts;
}

bool run_part(Module& m, const PipelinePart& part, PassContext& context, const RunnerOptions& runner, Compiled* out) {
  std::vector<const PassInfo*> passes;
  if (!find_passes(part.passes, &passes, context.diagnostics)) return false;
  compact_sparse(m);
  const bool legalises = part.name == "legalise";
  std::vector<report::DispatchNode> foreign;
  if (legalises) foreign = foreign_nodes(m, context.target);
  const bool ok = part.repeat > 1 ? run_to_fixed_point(m, passes, part.repeat, context, runner, &out->passes)
                                  : run_passes(m, passes, context, runner, &out->passes);
  if (ok && legalises) out->rewritten = rewritten_nodes(m, std::move(foreign));
  return ok;
}

const TargetTraits* find_named_target(const std::string& target, Diagnostics& d) {
  return check_targets(std::span(&target, 1), d) ? find_target(target) : nullptr;
}

// The capabilities of the target; for cpu, of the processor that the options name. Nullopt for a graph target.
std::optional<codegen::CapabilityRow> capability_for(const TargetInfo& info, const CompileOptions& o) {
  auto row = capability(info);
  if (const target::CpuModel* cpu = target::find_cpu(o.cpu); row && cpu && info.language == target::cpu)
    row->mapping = target::cpu_mapping(*cpu);
  if (row) row->winograd = o.winograd == Winograd::Off ? 0 : o.winograd == Winograd::Tile2 ? 2 : 4;
  return row;
}

// Notes the convolutions whose sums are rounded in another way than in the reference evaluator.
void note_winograd(const LirModule& lir, const codegen::CapabilityRow& row, std::vector<PrecisionNote>* notes) {
  for (GraphId id : graphs_in_use(*lir.module)) {
    const Graph& g = lir.module->graph(id);
    const GraphPlan& plan = lir.plans[id.raw];
    for (const PrepackedWeight& p : plan.prepacked) {
      const int64_t tile = codegen::winograd_tile(g, plan.layouts, p.node, row);
      if (tile == 0 || is_integer_conv(g.op(p.node))) continue;
      const std::string size = std::to_string(tile) + "x" + std::to_string(tile);
      notes->push_back(
          {g.label(p.node).line(), "f32", "winograd-" + size,
           std::string("winograd: rounding errors ") + (tile == 2 ? "as of" : "up to three times those of") + " plain sums"});
    }
  }
}

// The type of the operands of matmuls; none where it is f32, or a file says it.
std::optional<DType> narrow_type(PrecisionPolicy p) {
  switch (p) {
    case PrecisionPolicy::F32:
    case PrecisionPolicy::Custom: return std::nullopt;
    case PrecisionPolicy::F16:
    case PrecisionPolicy::AutoMixed:
    case PrecisionPolicy::AutoMixedConservative: return DType::F16;
    case PrecisionPolicy::AutoMixedBf16: return DType::BF16;
    case PrecisionPolicy::Fp8E4M3:
    case PrecisionPolicy::MxFp8E4M3: return DType::F8E4M3FN;
    case PrecisionPolicy::Fp8E5M2:
    case PrecisionPolicy::MxFp8E5M2: return DType::F8E5M2;
  }
  return std::nullopt;
}

// Warns if the processor multiplies the narrow floats of the precision as f32.
void check_gain(const kernel::Mapping& m, PrecisionPolicy p, const std::string& precision, const std::string& cpu,
                Diagnostics& d) {
  const auto type = narrow_type(p);
  if (!type || m.workgroups || std::ranges::any_of(m.dot_units, [&](const kernel::DotUnit& u) { return u.a == *type; })) return;
  d.warning(Code::NoGain,
            "--precision " + precision + " makes the model smaller and not faster: the processor \"" + cpu + "\" multiplies " +
                std::string(name(*type)) + " as f32",
            {}, "--cpu zen4 and --cpu sapphirerapids multiply bf16: use one with --precision automixed-bf16");
}

// Warns if matrix units multiply another 16-bit float than that of the precision.
void check_half(const TargetInfo& target, PrecisionPolicy p, const std::string& precision, Diagnostics& d) {
  if (target.half != DType::BF16 || (p != PrecisionPolicy::F16 && p != PrecisionPolicy::AutoMixedConservative)) return;
  const std::string name(target.name);
  d.warning(Code::NoGain,
            "--precision " + precision + " makes the model smaller and not faster: matrix units of " + name +
                " multiply bf16, and f16 as f32",
            {}, "--precision automixed is bf16 on " + name);
}

// --max-arena of a plan with free sizes: planning holds only plans of known sizes against it, so this one is held against it at
// the sizes that reports evaluate.
bool check_free_arena(const LirModule& lir, uint64_t allowed, Diagnostics& d) {
  const Dim arena = lir.plans[0].arena_size;
  if (allowed == 0 || arena.is_static()) return true;
  constexpr const char* kHelp = "--range NAME=LOW..HIGH or --bind NAME=SIZE makes a plan that meets the limit";
  for (const DimBindings& sizes : report::corner_sizes(lir)) {
    const auto bytes = lir.module->dims.evaluate(arena, sizes);
    if (bytes && *bytes >= 0 && static_cast<uint64_t>(*bytes) <= allowed) continue;
    std::string at;
    for (const auto& [name, size] : sizes) at += (at.empty() ? "" : ", ") + ForeignText(name).line() + "=" + std::to_string(size);
    d.error(Code::TooLarge,
            "the arena takes " + (bytes ? std::to_string(*bytes) : std::string("more than 2^63")) + " bytes at " + at +
                ", --max-arena allows " + std::to_string(allowed),
            {}, kHelp);
    return false;
  }
  d.warning(Code::UnboundDim, "--max-arena is met at the sizes of the report, and may not be at larger ones", {}, kHelp);
  return true;
}

bool is_known_cpu(const CompileOptions& o, Diagnostics& d) {
  if (target::find_cpu(o.cpu)) return true;
  d.error(Code::BadFlag, "--cpu: no processor is named " + ForeignText(o.cpu).quoted(), {}, "known are " + target::cpu_names());
  return false;
}

}  // namespace

bool optimise(Module& m, const TargetTraits& target, const CompileOptions& o, const PassOptions& pass_opts, const StageSink& sink,
              Compiled* out, Diagnostics& d) {
  forget_launches(m);
  TargetTraits traits = target;
  if (!restrict_target(&traits, o, d)) return false;
  const auto parts = parts_to_run(target.name, o, d);
  if (!parts || !is_known_cpu(o, d)) return false;
  const TargetInfo& info = find_backend(target.name)->info;
  if (auto row = capability_for(info, o)) {
    if (!o.tuning_file.empty() && info.language == target::cpu && !(row->tuning = read_tuning(o.tuning_file, d))) return false;
    traits.fast_bytes = !row->mapping.workgroups && row->mapping.dot_instructions == 1;
    out->lowerings = std::make_unique<codegen::LoweringCache>(std::move(*row));
  }
  const PassOptions own_options = for_target(pass_opts, info);
  PassContext context{traits, own_options, d, out->decisions, out->precision};
  const bool own_kernels = o.kernel_dispatch != KernelDispatch::Common && o.force_common.empty() && o.supported_ops.empty();
  if (own_kernels && out->lowerings && out->lowerings->row().mapping.workgroups) context.lowerings = out->lowerings.get();
  const RunnerOptions runner = runner_options(o, sink);
  for (const PipelinePart& part : *parts)
    if (!run_part(m, part, context, runner, out)) return false;
  m.current_pass = {};
  return d.ok();
}

std::optional<HostForms> lower_interface(Module& m, const std::string& target, const CompileOptions& o, Diagnostics& d) {
  const TargetTraits* traits = find_named_target(target, d);
  if (!traits) return std::nullopt;
  const Graph& g = m.main();
  HostForms forms{map_columns(m), {}, {}};
  for (NodeId n : g.inputs()) forms.text_inputs.push_back(g.dtype(g.result(n)) == DType::String);
  for (ValueId v : g.outputs()) forms.text_outputs.push_back(g.dtype(v) == DType::String);
  CompileOptions first = o;
  first.passes.clear();
  first.stop_before = "lower";
  Diagnostics inner;  // dropped, because compiling the module repeats its warnings
  Compiled out;
  if (!optimise(m, *traits, first, {}, {}, &out, inner)) {
    d.add(inner);
    return std::nullopt;
  }
  for (size_t i = 0; i < g.inputs().size(); ++i)
    forms.text_inputs[i] = forms.text_inputs[i] && g.dtype(g.result(g.inputs()[i])) != DType::String;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    forms.text_outputs[i] = forms.text_outputs[i] && g.dtype(g.outputs()[i]) != DType::String;
  return forms;
}

std::vector<eval::HostValue> host_results(const HostForms& forms, std::vector<eval::HostValue> results) {
  for (size_t i = 0; i < std::min(forms.text_outputs.size(), results.size()); ++i)
    if (forms.text_outputs[i]) results[i] = eval::text_of_bytes(results[i]);
  for (size_t i = 0; i < std::min(forms.maps.size(), results.size()); ++i)
    if (forms.maps[i]) results[i] = eval::maps_of_rows(results[i].tensor, *forms.maps[i]);
  return results;
}

std::optional<LirModule> plan_for(const std::string& target, std::unique_ptr<Module> m, const CompileOptions& o,
                                  codegen::LoweringCache* lowerings, Diagnostics& d) {
  PlanOptions planning = o;
  const TargetInfo& info = find_backend(target)->info;
  if (o.hardened && !info.language) {
    d.error(Code::BadFlag, "--hardened: packages for " + target + " have no kernels of ours to check indices in");
    return std::nullopt;
  }
  if (planning.alignment == 0) planning.alignment = info.alignment;
  if (planning.max_binding == 0 || info.max_binding == 0) planning.max_binding = info.max_binding;
  std::vector<std::pair<std::string, std::string>> pairs = o.states;
  if (o.kv_cache > 0)
    for (auto& pair : gguf_import::cache_states(*m)) pairs.push_back(std::move(pair));
  auto states = find_states(*m, pairs, d);
  if (!states) return std::nullopt;
  const auto kernels = o.element_bytes > 1 ? std::nullopt : capability_for(info, o);
  if (kernels && kernels->collectives && info.host_run.how == HostRun::How::Native && !o.whole_states &&
      find_data_dependent_dims(*m, o.bounds).empty())
    split_states(*m, &*states);
  const bool gradient = o.train || std::ranges::any_of(o.transforms, [](const std::string& w) { return w.starts_with("grad "); });
  const PlanInputs inputs{std::move(*states), kernels, lowerings, gradient};
  auto lir = plan_lir(std::move(m), planning, d, inputs);
  if (!lir) return std::nullopt;
  lir->check_indices = o.hardened;
  std::vector<std::string_view> names;
  for (const DataDependentDim& e : lir->extents) names.push_back(e.symbol.bytes());
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

std::optional<Compiled> compile(LoadedModel model, const std::string& target, const CompileOptions& given, const StageSink& sink,
                                Diagnostics& d) {
  const TargetTraits* traits = find_named_target(target, d);
  const auto asked = pass_options(given, d);
  if (!traits || !asked) return std::nullopt;
  if (!given.mesh.empty() && given.shards.empty() && given.parallel.empty() && given.shard_rules.empty() &&
      model.module->devices.empty())
    d.warning(Code::BadFlag, "--mesh splits nothing by itself: every device runs the whole model", {},
              "--parallel tensor, data or auto, or --shard NAME=AXIS:DIM");
  const CompileOptions o = model.training ? training_options(given, *model.training) : given;
  const auto pass_opts = pass_options(o, d);
  if (!pass_opts) return std::nullopt;
  if (!o.calibration_file.empty() && !check_calibrated_model(o.calibration_file, model.content_hash, d)) return std::nullopt;
  Compiled out;
  out.target = target;
  const TargetInfo& info = find_backend(target)->info;
  out.options = for_target(*asked, info);
  out.transforms = std::move(model.transforms);
  out.training = std::move(model.training);
  out.precision = std::move(model.precision);
  Stopwatch watch;
  out.before = report::count_module(*model.module);
  if (sink) sink("import", true, *model.module);
  if (o.verify && !verify(*model.module, d)) return std::nullopt;
  if (!optimise(*model.module, *traits, o, *pass_opts, sink, &out, d)) return std::nullopt;
  check_half(info, pass_opts->precision, o.precision_name, d);
  if (out.lowerings) check_gain(out.lowerings->row().mapping, pass_opts->precision, o.precision_name, o.cpu, d);
  out.seconds.emplace_back("passes", watch.lap());
  out.decisions = report::settled(std::move(out.decisions));
  note_stage("plan");
  std::vector<IndexInput> index_inputs;  // before states are split
  if (model.gguf) index_inputs = gguf_import::index_inputs(*model.module, *model.gguf);
  auto lir = plan_for(target, std::move(model.module), o, out.lowerings.get(), d);
  if (!lir) return std::nullopt;
  out.lir = std::move(*lir);
  out.lir.index_inputs = std::move(index_inputs);
  if (!check_free_arena(out.lir, o.max_arena, d)) return std::nullopt;
  if (out.lowerings) note_winograd(out.lir, out.lowerings->row(), &out.precision);
  out.lir.fingerprint = report::fingerprint(out.lir);
  out.after = report::count_module(out.lir);
  out.seconds.emplace_back("plan", watch.lap());
  if (sink) sink("lir", true, *out.lir.module);
  note_stage("artefacts");
  return out;
}

std::optional<Compiled> compile_forward(const Compiled& step, const std::string& target, const CompileOptions& o,
                                        Diagnostics& d) {
  CompileOptions forward = o;
  forward.evaluate_only = true;
  forward.package_name = codegen::package_name(*step.lir.module) + "_forward";
  Diagnostics inner;  // dropped, because the other compile reports its warnings
  auto model = load_model(forward, inner);
  auto compiled = model ? compile(std::move(*model), target, forward, {}, inner) : std::nullopt;
  if (!compiled) d.add(inner);
  return compiled;
}

}  // namespace rlxc
