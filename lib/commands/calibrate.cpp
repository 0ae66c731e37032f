#include "commands/calibrate.h"

#include <unordered_map>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/pipeline.h"
#include "eval/equivalence.h"
#include "eval/value.h"
#include "passes/match.h"
#include "passes/quantise/tensor_names.h"
#include "runtime/data_set.h"
#include "support/json_writer.h"
#include "support/text.h"

namespace rlxc {
namespace {

struct Tap {
  std::string name;
  bool weight = false;
  std::optional<int64_t> axis;  // axis of a weight's scales
  ValueRange range;
  std::optional<CalibrationEntry> fixed;  // of a weight, after its first evaluation
};

uint64_t key(GraphId g, ValueId v) { return uint64_t{g.raw} << 32 | v.raw; }

// Returns the output channel axis of operand `i`, if each channel may have a scale.
std::optional<int64_t> channel_axis(const Graph& g, NodeId n, size_t i) {
  if (i != 1) return std::nullopt;
  if (g.op(n) == OpKind::Conv) return 0;
  if (g.rank(g.operand(n, 1)) != 2) return std::nullopt;
  return g.attrs<MatMulAttrs>(n).trans_b ? 0 : 1;
}

class Calibration {
 public:
  explicit Calibration(const Module& m) {
    each_tensor(m, [&](GraphId id, ValueId v, const std::string& name) {
      const Graph& g = m.graph(id);
      if (!is_float(g.dtype(v))) return;
      bool read = false, weight = match::is_weight(g, v);
      std::optional<int64_t> axis;
      for (Graph::Use u : g.uses(v)) {
        if ((g.op(u.user) != OpKind::MatMul && g.op(u.user) != OpKind::Conv) || u.index > 1) continue;
        const auto own = channel_axis(g, u.user, u.index);
        axis = !read || axis == own ? own : std::nullopt;  // users that disagree share one scale
        read = true;
      }
      if (!read) return;
      index_.emplace(key(id, v), taps_.size());
      taps_.push_back({name, weight, weight ? axis : std::nullopt, {}, {}});
    });
  }

  // Evaluates one data set. `counting`: in the second round.
  bool sample(const Module& m, const DataSet& set, bool counting, eval::Options options, Diagnostics& d) {
    options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
      const auto it = index_.find(key(g.id(), v));
      if (it == index_.end()) return;
      Tap& tap = taps_[it->second];
      if (tap.weight) {
        if (!tap.fixed) tap.fixed = symmetric_entry(eval::numbers(value), value.tensor.dims, tap.axis);
      } else if (counting) {
        tap.range.count(eval::numbers(value));
      } else {
        tap.range.see(eval::numbers(value));
      }
    };
    return eval::evaluate(m, set.inputs, d, options).has_value();
  }

  CalibrationRecord record(RangeMethod method, double percentile, Diagnostics& d) const {
    CalibrationRecord out;
    std::string unseen;
    for (const Tap& t : taps_) {
      if (t.fixed) out.entries.emplace_back(t.name, *t.fixed);
      else if (t.range.seen()) out.entries.emplace_back(t.name, entry_of(t.range.choose(method, percentile)));
      else unseen += (unseen.empty() ? "" : ", ") + quote(t.name);
    }
    if (!unseen.empty())
      d.warning(Code::BadCalibration, "no sample reached these tensors, so they are not in the record: " + unseen);
    return out;
  }

 private:
  std::vector<Tap> taps_;
  std::unordered_map<uint64_t, size_t> index_;
};

}  // namespace

std::optional<Calibrated> calibrate(const CompileOptions& o, const CalibrateRequest& request, Diagnostics& d) {
  const auto method = range_method_from_name(request.method);
  if (!method) {
    d.error(Code::BadFlag, "--method does not know \"" + request.method + "\"", {}, "one of minmax, percentile, entropy, mse");
    return std::nullopt;
  }
  if (!(request.percentile > 50 && request.percentile <= 100)) {
    d.error(Code::BadFlag, "--percentile must be above 50 and at most 100");
    return std::nullopt;
  }
  auto model = load_model(o, d);
  if (!model) return std::nullopt;
  Module& m = *model->module;
  std::vector<DataSet> samples;
  for (const std::string& folder : request.data) {
    auto sets = read_data_sets(m, folder, d);
    if (!sets) return std::nullopt;
    for (DataSet& s : *sets) samples.push_back(std::move(s));
  }
  // Run the passes that precede quantisation, which makes the tensors match those it will see.
  CompileOptions before = o;
  before.calibration_file.clear();
  const TargetTraits* target = find_target(o.targets.empty() ? "cpu" : o.targets[0]);
  if (!target) {
    d.error(Code::BadFlag, "there is no target \"" + o.targets[0] + "\"");
    return std::nullopt;
  }
  const auto forms = lower_interface(m, target->name, before, d);
  if (!forms) return std::nullopt;
  for (DataSet& s : samples)
    if (forms->bytes && !strings_to_bytes(s, d)) return std::nullopt;
  const auto pass_opts = pass_options(before, d);
  if (!pass_opts) return std::nullopt;
  before.stop_before = "quantise";
  Compiled done;
  if (!optimise(m, *target, before, *pass_opts, {}, &done, d)) return std::nullopt;

  Calibration calibration(m);
  eval::EquivalenceOptions random;
  random.range = {-3, 3, 0, 3};
  random.evaluation.bindings = o.bind;
  if (request.random > 0 && !eval::random_inputs_fit(m, random.evaluation, d)) return std::nullopt;
  for (random.seed = 1; random.seed <= request.random; ++random.seed)
    samples.push_back({"random", eval::random_inputs(m, random), {}});
  if (samples.empty()) {
    d.error(Code::BadFlag, "there are no samples", {}, "give --data DIR or --random N");
    return std::nullopt;
  }
  for (bool counting : {false, true})
    for (const DataSet& s : samples)
      if (!calibration.sample(m, s, counting, evaluation_limits(before), d)) return std::nullopt;
  return Calibrated{calibration.record(*method, request.percentile, d), model->content_hash};
}

std::string calibration_json(const Calibrated& c) {
  std::string text;
  {
    JsonWriter out(text);
    out.begin_object()
        .key("$schema")
        .string("calibration.schema.json")
        .key("format")
        .string("rlxc-calibration")
        .key("format_version")
        .string("1.0");
    out.key("model").string(c.model).key("tensors").begin_object();
    for (const auto& [name, e] : c.record.entries) {
      out.key(name).begin_object(JsonLayout::Line);
      if (e.axis) out.key("axis").integer(*e.axis);
      out.key("scales").begin_array(JsonLayout::Line);
      for (double s : e.scales) out.number(s);
      out.end_array().key("zero_points").begin_array(JsonLayout::Line);
      for (int64_t z : e.zero_points) out.integer(z);
      out.end_array().end_object();
    }
    out.end_object().end_object().finish();
  }
  return text;
}

}  // namespace rlxc
