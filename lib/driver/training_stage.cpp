#include "driver/training_stage.h"

#include <array>
#include <set>

#include "driver/pass_options.h"
#include "driver/transform_stage.h"
#include "eval/random.h"
#include "ir/verify.h"
#include "support/progress.h"
#include "transform/steps.h"

namespace rlxc {
namespace {

// The model in its precision, before its weights are states and it is differentiated: gradients follow the types of what they
// are taken by.
bool lower_precision(Module& m, const CompileOptions& o, std::vector<PrecisionNote>* notes, Diagnostics& d) {
  constexpr std::array<std::string_view, 3> kLower{"auto_mixed_precision", "common_subexpression_elimination",
                                                   "dead_code_elimination"};
  const auto options = pass_options(o, d);
  if (!options) return false;
  if (options->precision >= PrecisionPolicy::Fp8E4M3) {
    d.error(Code::BadFlag, "--train does not know --precision " + o.precision_name, {},
            "f32, f16, automixed, automixed-conservative, automixed-bf16 or custom:FILE");
    return false;
  }
  return run_named_passes(m, kRecognisingPasses, *options, d) && run_named_passes(m, kLower, *options, d, 1, notes);
}

// Gradients in f16 become 0 or infinite without a scale.
bool needs_scale(const Module& m) {
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (const Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r)
        if (g.dtype(g.result(n, r)) == DType::F16) return true;
  return false;
}

// The first option that says how to train; empty if there is none.
std::string_view option_of_training(const TrainingOptions& o) {
  const TrainingOptions defaults;
  const std::pair<bool, std::string_view> given[] = {{o.loss != defaults.loss, "--loss"},
                                                     {o.loss_output != defaults.loss_output, "--loss-output"},
                                                     {o.optimizer != defaults.optimizer, "--optimizer"},
                                                     {o.lr.has_value(), "--lr"},
                                                     {o.momentum.has_value(), "--momentum"},
                                                     {o.beta1.has_value(), "--beta1"},
                                                     {o.beta2.has_value(), "--beta2"},
                                                     {o.epsilon.has_value(), "--epsilon"},
                                                     {o.weight_decay.has_value(), "--weight-decay"},
                                                     {o.clip_norm.has_value(), "--clip-norm"},
                                                     {o.lr_input, "--lr-input"},
                                                     {o.accumulate != defaults.accumulate, "--accumulate"},
                                                     {o.loss_scale != defaults.loss_scale, "--loss-scale"},
                                                     {!o.frozen.empty(), "--freeze"}};
  for (const auto& [is_given, flag] : given)
    if (is_given) return flag;
  return {};
}

// Initializers that became attributes or sizes of nodes are no parameters of the graph.
void freeze_others(transform::Training* t, std::span<const std::string> initializers) {
  std::set<std::string_view> known;
  for (const transform::TrainingState& s : t->states) known.insert(s.name);
  for (const transform::FrozenParameter& f : t->frozen) known.insert(f.name);
  std::vector<transform::FrozenParameter> others;
  for (const std::string& name : initializers)
    if (known.insert(name).second) others.push_back({name, "no node reads it but for an attribute or a size"});
  t->frozen.insert(t->frozen.end(), others.begin(), others.end());
}

}  // namespace

bool training_module(Module& m, const CompileOptions& o, std::span<const std::string> initializers,
                     std::optional<transform::Training>* training, std::vector<PrecisionNote>* notes, Diagnostics& d) {
  if (!o.train) {
    const std::string_view flag = o.parameters_only ? std::string_view() : option_of_training(o);
    if (!flag.empty()) d.error(Code::BadFlag, std::string(flag) + " says how to train, and nothing is trained", {}, "--train");
    return flag.empty();
  }
  note_stage("training");
  const auto steps = transform::parse_steps(o.transforms, d);
  if (!steps || !lower_to_tensors(m, o, d)) return false;
  if (o.precision_name != "f32" && !lower_precision(m, o, notes, d)) return false;
  const bool scales = o.loss_scale == "dynamic" || (o.loss_scale == "auto" && needs_scale(m));
  *training = transform::make_training(m, o, scales, steps->stopped, expand_by_table, d);
  if (!training->has_value()) return false;
  freeze_others(&**training, initializers);
  return verify(m, d);
}

CompileOptions training_options(const CompileOptions& o, const transform::Training& t) {
  CompileOptions own = o;
  own.precision_name = "f32";
  if (!o.evaluate_only)
    for (const transform::TrainingState& s : t.states) own.states.emplace_back(s.name, "next:" + s.name);
  return own;
}

const TensorData* first_contents(const std::optional<transform::Training>& t, size_t input) {
  if (!t || input < t->first_state() || input >= t->first_state() + t->states.size()) return nullptr;
  const TensorData& d = t->states[input - t->first_state()].initial;
  return d.bytes.empty() && d.size_bytes() > 0 ? nullptr : &d;
}

std::vector<eval::HostValue> random_inputs(const Module& m, const std::optional<transform::Training>& training,
                                           const DimBindings& sizes, uint64_t seed, int64_t int_high) {
  const Graph& g = m.main();
  std::vector<eval::HostValue> out;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const TensorData* first = first_contents(training, i);
    const Type& type = g.type(g.result(g.inputs()[i]));
    out.push_back(first ? eval::host_value(*first) : eval::random_value(m, type, sizes, seed + i, {.int_high = int_high}));
  }
  return out;
}

}  // namespace rlxc
