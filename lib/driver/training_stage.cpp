#include "driver/training_stage.h"

#include <array>

#include "driver/pass_options.h"
#include "driver/transform_stage.h"
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

}  // namespace

bool training_module(Module& m, const CompileOptions& o, std::optional<transform::Training>* training,
                     std::vector<PrecisionNote>* notes, Diagnostics& d) {
  if (!o.train) return true;
  note_stage("training");
  const auto steps = transform::parse_steps(o.transforms, d);
  if (!steps || !lower_to_tensors(m, o, d)) return false;
  if (o.precision_name != "f32" && !lower_precision(m, o, notes, d)) return false;
  const bool scales = o.loss_scale == "dynamic" || (o.loss_scale == "auto" && needs_scale(m));
  *training = transform::make_training(m, o, scales, steps->stopped, expand_by_table, d);
  return training->has_value() && verify(m, d);
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

}  // namespace rlxc
