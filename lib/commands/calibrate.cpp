#include "commands/calibrate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>

#include "backend/target_traits.h"
#include "commands/layer_search.h"
#include "commands/smoothing.h"
#include "commands/trials.h"
#include "commands/weight_search.h"
#include "driver/compile.h"
#include "driver/config_files.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "driver/pipeline.h"
#include "eval/equivalence.h"
#include "eval/value.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantize/tensor_names.h"
#include "report/table.h"
#include "runtime/data_set.h"
#include "support/foreign_text.h"
#include "support/json_writer.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/text.h"

namespace rlxc {
namespace {

struct Tap {
  std::string name;
  bool weight = false;
  std::optional<int64_t> axis;  // axis of a weight's scales
  ValueRange range;
  std::optional<CalibrationEntry> entry;  // of a weight, after its first evaluation; of an activation, after the second round
  QuantizationNoise noise;
};

enum class Round : uint8_t { Range, Distribution, Noise };

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
  Calibration(const Module& m, ChannelScales channel_scales) : channel_scales_(std::move(channel_scales)) {
    std::unordered_map<uint64_t, std::string> layer_names;  // by result
    each_tensor(m, [&](GraphId id, ValueId v, const std::string& name) {
      const Graph& g = m.graph(id);
      if (!is_float(g.dtype(v))) return;
      if (is_layer(g, g.def(v))) layer_names.emplace(key(id, v), layer_name(g, g.def(v), name));
      bool read = false, weight = match::is_weight(g, v);
      std::optional<int64_t> axis;
      for (Graph::Use u : g.uses(v)) {
        if (!is_layer(g, u.user) || u.index > 1) continue;
        const auto own = channel_axis(g, u.user, u.index);
        axis = !read || axis == own ? own : std::nullopt;  // users that disagree share one scale
        read = true;
      }
      if (!read) return;
      index_.emplace(key(id, v), taps_.size());
      taps_.push_back({name, weight, weight ? axis : std::nullopt, {}, {}, {}});
    });
    for (size_t i = 0; i < m.graph_count(); ++i) {
      const Graph& g = m.graph(GraphId(i));
      for (NodeId n : g.nodes())
        if (is_layer(g, n)) add_layer(g, n, layer_names[key(g.id(), g.result(n))]);
    }
  }

  // Evaluates one data set. Returns the outputs.
  std::optional<std::vector<eval::HostValue>> sample(const Module& m, const DataSet& set, Round round, eval::Options options,
                                                     Diagnostics& d) {
    options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
      if (const auto it = index_.find(key(g.id(), v)); it != index_.end()) see(taps_[it->second], value, round);
    };
    return eval::evaluate(m, set.inputs, d, options);
  }

  // Chooses the scales of activations, after the second round.
  void choose(RangeMethod method, const CalibrateRequest& request, Diagnostics& d) {
    std::string unseen, not_finite;
    const auto list = [](std::string* names, const Tap& t) { *names += (names->empty() ? "" : ", ") + quote(t.name); };
    for (Tap& t : taps_) {
      if (t.range.left_out()) list(&not_finite, t);
      if (t.range.seen()) {
        const ValueRange::Ends ends = t.range.choose(method, request.percentile);
        t.entry = request.symmetric ? symmetric_entry(ends) : entry_of(ends);
      }
      if (!t.entry) list(&unseen, t);
    }
    if (!not_finite.empty())
      d.warning(Code::BadCalibration, "infinities or NaN in these tensors are outside of their ranges: " + not_finite);
    if (!unseen.empty())
      d.warning(Code::BadCalibration, "no sample reached these tensors, so they are not in the record: " + unseen);
  }

  // The record in which these layers are float: a tensor is in it if another layer reads it.
  CalibrationRecord record(const std::vector<bool>& is_float) const {
    CalibrationRecord out;
    out.channel_scales = channel_scales_;
    for (size_t i = 0; i < layers_.size(); ++i)
      if (is_float[i]) out.float_layers.push_back(layers_[i].name);
    for (size_t i : quantized(is_float)) out.entries.emplace_back(taps_[i].name, *taps_[i].entry);
    return out;
  }

  Calibrated result(const std::vector<bool>& is_float) const {
    Calibrated c;
    c.record = record(is_float);
    for (size_t i : quantized(is_float)) c.sqnr.push_back(taps_[i].noise.sqnr());
    for (size_t i = 0; i < layers_.size(); ++i) {
      CalibratedLayer& layer = c.layers.emplace_back(CalibratedLayer{layers_[i].name, {}, {}, {}, is_float[i]});
      for (size_t t : layers_[i].taps) {
        layer.tensors.push_back(taps_[t].name);
        layer.sqnr.push_back(taps_[t].noise.sqnr());
      }
    }
    return c;
  }

  size_t layers() const { return layers_.size(); }

 private:
  struct Layer {
    std::string name;
    std::vector<size_t> taps;
  };

  static bool is_layer(const Graph& g, NodeId n) { return g.op(n) == OpKind::MatMul || g.op(n) == OpKind::Conv; }

  void add_layer(const Graph& g, NodeId n, std::string name) {
    Layer layer{std::move(name), {}};
    for (size_t i = 0; i < 2; ++i)
      if (const auto it = index_.find(key(g.id(), g.operand(n, i))); it != index_.end()) layer.taps.push_back(it->second);
    if (!layer.taps.empty()) layers_.push_back(std::move(layer));
  }

  static void see(Tap& tap, const eval::HostValue& value, Round round) {
    const std::vector<double> numbers = eval::numbers(value);
    if (tap.weight && !tap.entry) {
      tap.entry = symmetric_entry(numbers, value.tensor.dims, tap.axis);
      tap.noise.add(*tap.entry, numbers, value.tensor.dims);
    }
    if (tap.weight) return;
    if (round == Round::Range) tap.range.see(numbers);
    else if (round == Round::Distribution) tap.range.count(numbers);
    else if (tap.entry) tap.noise.add(*tap.entry, numbers, value.tensor.dims);
  }

  std::vector<size_t> quantized(const std::vector<bool>& is_float) const {
    std::vector<bool> used(taps_.size());
    for (size_t i = 0; i < layers_.size(); ++i)
      for (size_t t : layers_[i].taps) used[t] = used[t] || !is_float[i];
    std::vector<size_t> out;
    for (size_t i = 0; i < taps_.size(); ++i)
      if (used[i] && taps_[i].entry) out.push_back(i);
    return out;
  }

 private:
  ChannelScales channel_scales_;
  std::vector<Tap> taps_;
  std::vector<Layer> layers_;
  std::unordered_map<uint64_t, size_t> index_;
};

// Runs migrate_scales on the module, which then has the tensors that a compile with the record quantizes.
bool migrate(Module& m, const ChannelScales& scales, const TargetTraits& target, PassOptions passes, Diagnostics& d) {
  passes.calibration = CalibrationRecord{{}, {}, scales, {}};
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> notes;
  PassContext context{target, passes, d, decisions, notes};
  migrate_scales(m, context);
  return d.ok();
}

// Finds the layers that stay float.
std::optional<Calibrated> accurate(const Calibration& calibration, Trials& trials, size_t samples) {
  const size_t n = calibration.layers();
  const auto alone = trials.each_alone(n, [&](const std::vector<bool>& kept) { return calibration.record(kept); });
  if (!alone) return std::nullopt;
  const auto with_figures = [&](const std::vector<bool>& kept) {
    Calibrated c = calibration.result(kept);
    for (size_t i = 0; i < n; ++i) c.layers[i].alone = (*alone)[i];
    return c;
  };
  const auto kept = layers_to_keep(cosines(*alone), [&](const std::vector<bool>& k) { return trials.good(with_figures(k)); });
  if (!kept) return std::nullopt;
  Calibrated c = with_figures(*kept);
  c.accuracy = trials.accuracy(c.record, samples);
  return c.accuracy ? std::optional(std::move(c)) : std::nullopt;
}

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
  if (*method != RangeMethod::Percentile && request.percentile != CalibrateRequest().percentile)
    d.warning(Code::BadFlag, "--percentile changes nothing: --method is " + request.method, {}, "give --method percentile");
  if (!request.check.empty() && o.output == "-") {
    d.error(Code::BadFlag, "--check needs an output file, which the command reads", {}, "give -o FILE");
    return std::nullopt;
  }
  auto model = load_model(o, d);
  if (!model) return std::nullopt;
  Module& m = *model->module;
  std::vector<DataSet> samples;
  for (const std::string& folder : request.data) {
    auto sets = read_data_sets(m, folder, d, true);
    if (!sets) return std::nullopt;
    for (DataSet& s : *sets) samples.push_back(std::move(s));
  }
  // Run the passes that precede quantization, which makes the tensors match those it will see.
  CompileOptions before = o;
  before.calibration_file.clear();
  before.weights.clear();
  const TargetTraits* target = find_target(o.targets.empty() ? "cpu" : o.targets[0]);
  if (!target) {
    d.error(Code::BadFlag, "there is no target \"" + o.targets[0] + "\"");
    return std::nullopt;
  }
  const auto forms = lower_interface(m, target->name, before, d);
  if (!forms) return std::nullopt;
  for (DataSet& s : samples)
    if (!strings_to_bytes(s, forms->text_inputs, d)) return std::nullopt;
  if (!o.weights.empty() && request.smooth > 0) {
    d.error(Code::BadFlag, "--smooth is for 8-bit activations, and --weights quantizes weights alone");
    return std::nullopt;
  }
  if (!pass_options(o, d)) return std::nullopt;
  auto pass_opts = pass_options(before, d);
  if (!pass_opts) return std::nullopt;
  before.stop_before = "quantize";
  Compiled done;
  if (!optimise(m, *target, before, *pass_opts, {}, &done, d)) return std::nullopt;

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
  std::vector<ReferenceRun> references;
  if (!o.weights.empty()) {
    for (DataSet& s : samples) {
      auto outputs = eval::evaluate(m, s.inputs, d, evaluation_limits(before));
      if (!outputs) return std::nullopt;
      references.push_back({std::move(s), std::move(*outputs)});
    }
    Trials trials(o, request, *target, *pass_opts, references, d);
    auto out = accurate_weights(m, o, request, trials, references.size(), d);
    if (out) out->model = model->content_hash, out->samples = references.size();
    return out;
  }
  ChannelScales channel_scales;
  if (request.smooth > 0) {
    auto found = smoothing(m, samples, request.smooth, evaluation_limits(before), d);
    if (!found) return std::nullopt;
    channel_scales = std::move(*found);
    if (channel_scales.empty())
      d.warning(Code::BadCalibration, "--smooth changes nothing: no norm is read by matmuls with constant weights alone");
    if (!migrate(m, channel_scales, *target, *pass_opts, d)) return std::nullopt;
  }
  Calibration calibration(m, std::move(channel_scales));
  if (calibration.layers() == 0)
    d.warning(Code::BadCalibration, "the record is empty: the model has no matmul or convolution of floats");
  for (Round round : {Round::Range, Round::Distribution, Round::Noise}) {
    if (round == Round::Noise) calibration.choose(*method, request, d);
    for (size_t i = 0; i < samples.size(); ++i) {
      note_stage("calibrate: round " + std::to_string(static_cast<int>(round) + 1) + " of 3, sample " + std::to_string(i + 1) +
                 " of " + std::to_string(samples.size()));
      auto outputs = calibration.sample(m, samples[i], round, evaluation_limits(before), d);
      if (!outputs) return std::nullopt;
      if (round == Round::Noise) references.push_back({std::move(samples[i]), std::move(*outputs)});
    }
  }
  std::optional<Calibrated> out = calibration.result(std::vector<bool>(calibration.layers()));
  if (request.accuracy > 0 || !request.check.empty()) {
    Trials trials(o, request, *target, *pass_opts, references, d);
    out = accurate(calibration, trials, references.size());
  }
  if (out) out->model = model->content_hash, out->samples = references.size();
  return out;
}

}  // namespace rlxc
