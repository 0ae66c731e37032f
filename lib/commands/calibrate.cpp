#include "commands/calibrate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_map>

#include "backend/target_traits.h"
#include "commands/check_run.h"
#include "commands/layer_search.h"
#include "driver/compile.h"
#include "driver/config_files.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/pipeline.h"
#include "eval/equivalence.h"
#include "eval/value.h"
#include "eval/weight_value.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantise/scalable_norms.h"
#include "passes/quantise/tensor_names.h"
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

using ChannelScales = decltype(CalibrationRecord::channel_scales);

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
    each_tensor(m, [&](GraphId id, ValueId v, const std::string& name) {
      const Graph& g = m.graph(id);
      if (!is_float(g.dtype(v))) return;
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
        if (is_layer(g, n)) add_layer(g, n);
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
    std::string unseen;
    for (Tap& t : taps_) {
      if (t.range.seen()) {
        const ValueRange::Ends ends = t.range.choose(method, request.percentile);
        t.entry = request.symmetric ? symmetric_entry(ends) : entry_of(ends);
      }
      if (!t.entry) unseen += (unseen.empty() ? "" : ", ") + quote(t.name);
    }
    if (!unseen.empty())
      d.warning(Code::BadCalibration, "no sample reached these tensors, so they are not in the record: " + unseen);
  }

  // The record in which these layers are float: a tensor is in it if another layer reads it.
  CalibrationRecord record(const std::vector<bool>& is_float) const {
    CalibrationRecord out;
    out.channel_scales = channel_scales_;
    for (size_t i = 0; i < layers_.size(); ++i)
      if (is_float[i]) out.float_layers.push_back(layers_[i].name);
    for (size_t i : quantised(is_float)) out.entries.emplace_back(taps_[i].name, *taps_[i].entry);
    return out;
  }

  Calibrated result(const std::vector<bool>& is_float) const {
    Calibrated c;
    c.record = record(is_float);
    for (size_t i : quantised(is_float)) c.sqnr.push_back(taps_[i].noise.sqnr());
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

  void add_layer(const Graph& g, NodeId n) {
    Layer layer{std::string(g.label(n).bytes()), {}};
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

  std::vector<size_t> quantised(const std::vector<bool>& is_float) const {
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

// The float outputs of a sample, and its inputs.
struct ReferenceRun {
  DataSet set;
  std::vector<eval::HostValue> outputs;
};

// Quantises the model with candidate records and measures what that does to its outputs.
class Trials {
 public:
  Trials(const CompileOptions& o, const CalibrateRequest& request, const TargetTraits& target, const PassOptions& passes,
         const std::vector<ReferenceRun>& samples, Diagnostics& d)
      : o_(o), request_(request), target_(target), passes_(passes), samples_(samples), d_(d) {
    o_.calibration_file = o.output;  // any name: the record is in the options of the passes
    o_.stop_before.clear();
  }

  // The least cosine of an output over the first `count` samples.
  std::optional<double> cosine(CalibrationRecord record, size_t count) {
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
    double least = 1;
    for (const ReferenceRun& s : std::span(samples_).first(count)) {
      const auto outputs = eval::evaluate(*model->module, s.set.inputs, d, evaluation_limits(o_));
      if (!outputs) return failed(d);
      for (size_t i = 0; i < outputs->size(); ++i)
        least = std::min(least, eval::compare((*outputs)[i], s.outputs[i], 0, 0).cosine);
    }
    return least;
  }

  std::optional<bool> good(const Calibrated& c) {
    if (request_.accuracy > 0) {
      const auto found = cosine(c.record, samples_.size());
      if (!found || *found < request_.accuracy) return found ? std::optional(false) : std::nullopt;
    }
    if (request_.check.empty()) return true;
    if (!write_file(o_.output, calibration_json(c), d_)) return std::nullopt;
    size_t floats = 0;
    for (const CalibratedLayer& l : c.layers) floats += l.is_float;
    return run_check(request_.check, std::to_string(floats) + " of " + std::to_string(c.layers.size()) + " layers in float", d_);
  }

 private:
  std::nullopt_t failed(const Diagnostics& d) {
    for (const Diagnostic& item : d.items()) d_.add(item);
    return std::nullopt;
  }

  CompileOptions o_;
  const CalibrateRequest& request_;
  const TargetTraits& target_;
  const PassOptions& passes_;
  const std::vector<ReferenceRun>& samples_;
  Diagnostics& d_;
  int tried_ = 0;
};

// Scales of the channels of norms by which `share` of their range moves to the weights that read them:
// max|x|^share / max|w|^(1-share) (Xiao et al., "SmoothQuant", 2022). Channels of zeros keep their scale.
std::optional<ChannelScales> smoothing(const Module& m, std::span<const DataSet> samples, double share,
                                       const eval::Options& limits, Diagnostics& d) {
  std::unordered_map<uint64_t, std::vector<double>> largest;  // of each channel of a norm
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (const ScalableNorm& s : scalable_norms(g))
      largest[key(g.id(), g.result(s.norm))].resize(static_cast<size_t>(*match::size_at(g, g.result(s.norm), -1)));
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    note_stage("calibrate: ranges of channels, sample " + std::to_string(i + 1) + " of " + std::to_string(samples.size()));
    eval::Options options = limits;
    options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
      const auto found = largest.find(key(g.id(), v));
      if (found == largest.end()) return;
      const std::vector<double> x = eval::numbers(value);
      for (size_t k = 0; k < x.size(); ++k) {
        double& most = found->second[k % found->second.size()];
        if (std::isfinite(x[k])) most = std::max(most, std::fabs(x[k]));
      }
    };
    if (!eval::evaluate(m, samples[i].inputs, d, options)) return std::nullopt;
  }
  std::unordered_map<uint64_t, std::vector<double>> scales;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (const ScalableNorm& s : scalable_norms(g)) {
      const std::vector<double>& x = largest[key(g.id(), g.result(s.norm))];
      std::vector<double> w(x.size());
      bool known = true;
      for (NodeId n : s.matmuls) {
        const auto data = eval::weight_value(m, g, g.operand(n, 1));
        known = known && data;
        const bool rows_of_k = g.attrs<MatMulAttrs>(n).trans_b;
        for (int64_t e = 0; known && e < data->elements(); ++e) {
          double& most = w[static_cast<size_t>(rows_of_k ? e % data->dims[1] : e / data->dims[1])];
          most = std::max(most, std::fabs(element_as_double(*data, e)));
        }
      }
      if (!known) continue;
      std::vector<double> each(x.size(), 1);
      for (size_t k = 0; k < x.size(); ++k) {
        const double v = std::pow(x[k], share) / std::pow(w[k], 1 - share);
        if (v > 0 && std::isfinite(v)) each[k] = static_cast<double>(static_cast<float>(v));
      }
      scales.emplace(key(g.id(), g.result(s.norm)), std::move(each));
    }
  }
  ChannelScales out;
  each_tensor(m, [&](GraphId g, ValueId v, const std::string& name) {
    if (const auto found = scales.find(key(g, v)); found != scales.end()) out.emplace_back(name, std::move(found->second));
  });
  return out;
}

// Runs migrate_scales on the module, which then has the tensors that a compile with the record quantises.
bool migrate(Module& m, const ChannelScales& scales, const TargetTraits& target, PassOptions passes, Diagnostics& d) {
  passes.calibration = CalibrationRecord{{}, {}, scales, {}};
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> notes;
  PassContext context{target, passes, d, decisions, notes};
  migrate_scales(m, context);
  return d.ok();
}

// The matmuls that a compile with these weights makes DequantMatMul.
std::vector<std::string> weight_layers(const Module& m) {
  std::vector<std::string> names;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::MatMul && g.rank(g.operand(n, 1)) == 2 && match::is_weight(g, g.operand(n, 1)))
        names.emplace_back(g.label(n).bytes());
  }
  return names;
}

constexpr int64_t kGroupSizes[] = {128, 64, 32, 16};

// Finds the largest group of weights that share a scale, and the layers that stay float if the smallest is not accurate enough.
std::optional<Calibrated> accurate_weights(const Module& m, const CompileOptions& o, const CalibrateRequest& request,
                                           Trials& trials, size_t samples, Diagnostics& d) {
  const auto given = weight_cast_from(o.weights);
  const std::vector<std::string> layers = weight_layers(m);
  std::vector<int64_t> sizes(std::begin(kGroupSizes), std::end(kGroupSizes));
  if (given->block != 0) sizes = {given->block};
  if (request.accuracy == 0 && request.check.empty()) {
    d.error(Code::BadFlag, "--weights of a record needs --accuracy or --check", {},
            "rlxc compile --weights quantises all layers");
    return std::nullopt;
  }
  const auto candidate = [&](int64_t size, const std::vector<bool>& kept) {
    Calibrated c;
    c.record.weights = given;
    c.record.weights->block = size;
    c.weights = o.weights.substr(0, o.weights.find(':')) + ":" + std::to_string(size);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (kept[i]) c.record.float_layers.push_back(layers[i]);
      c.layers.push_back({layers[i], {}, {}, {}, kept[i]});
    }
    return c;
  };
  const std::vector<bool> none(layers.size());
  std::optional<Calibrated> best;
  for (int64_t size : sizes) {
    Calibrated c = candidate(size, none);
    const auto good = trials.good(c);
    if (!good) return std::nullopt;
    if (*good) {
      best = std::move(c);
      break;
    }
  }
  if (!best) {
    std::vector<double> alone(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      std::vector<bool> others(layers.size(), true);
      others[i] = false;
      const auto cosine = trials.cosine(candidate(sizes.back(), others).record, std::min<size_t>(samples, 1));
      if (!cosine) return std::nullopt;
      alone[i] = *cosine;
    }
    const auto kept = layers_to_keep(alone, [&](const std::vector<bool>& k) { return trials.good(candidate(sizes.back(), k)); });
    if (!kept) return std::nullopt;
    best = candidate(sizes.back(), *kept);
    for (size_t i = 0; i < layers.size(); ++i) best->layers[i].cosine = alone[i];
  }
  best->accuracy = trials.cosine(best->record, samples);
  return best->accuracy ? std::move(best) : std::nullopt;
}

// Finds the layers that stay float.
std::optional<Calibrated> accurate(const Calibration& calibration, Trials& trials, size_t samples) {
  const size_t n = calibration.layers();
  std::vector<double> alone(n);
  for (size_t i = 0; i < n; ++i) {
    std::vector<bool> others(n, true);
    others[i] = false;
    const auto cosine = trials.cosine(calibration.record(others), std::min<size_t>(samples, 1));
    if (!cosine) return std::nullopt;
    alone[i] = *cosine;
  }
  const auto with_cosines = [&](const std::vector<bool>& kept) {
    Calibrated c = calibration.result(kept);
    for (size_t i = 0; i < n; ++i) c.layers[i].cosine = alone[i];
    return c;
  };
  const auto kept = layers_to_keep(alone, [&](const std::vector<bool>& k) { return trials.good(with_cosines(k)); });
  if (!kept) return std::nullopt;
  Calibrated c = with_cosines(*kept);
  c.accuracy = trials.cosine(c.record, samples);
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
  if (!request.check.empty() && o.output == "-") {
    d.error(Code::BadFlag, "--check needs an output file, which the command reads", {}, "give -o FILE");
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
  before.weights.clear();
  const TargetTraits* target = find_target(o.targets.empty() ? "cpu" : o.targets[0]);
  if (!target) {
    d.error(Code::BadFlag, "there is no target \"" + o.targets[0] + "\"");
    return std::nullopt;
  }
  const auto forms = lower_interface(m, target->name, before, d);
  if (!forms) return std::nullopt;
  for (DataSet& s : samples)
    if (forms->bytes && !strings_to_bytes(s, d)) return std::nullopt;
  if (!o.weights.empty() && request.smooth > 0) {
    d.error(Code::BadFlag, "--smooth is for 8-bit activations, and --weights quantises weights alone");
    return std::nullopt;
  }
  if (!pass_options(o, d)) return std::nullopt;
  auto pass_opts = pass_options(before, d);
  if (!pass_opts) return std::nullopt;
  before.stop_before = "quantise";
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
    if (out) out->model = model->content_hash;
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
  if (out) out->model = model->content_hash;
  return out;
}

namespace {

constexpr size_t kWorst = 10;  // layers of the text

double rounded(double x, int digits) {
  const double unit = std::pow(10, digits);
  return std::round(x * unit) / unit;
}

}  // namespace

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
    for (size_t i = 0; i < c.record.entries.size(); ++i) {
      const auto& [name, e] = c.record.entries[i];
      out.key(name).begin_object(JsonLayout::Line);
      if (e.axis) out.key("axis").integer(*e.axis);
      out.key("scales").begin_array(JsonLayout::Line);
      for (double s : e.scales) out.number(s);
      out.end_array().key("zero_points").begin_array(JsonLayout::Line);
      for (int64_t z : e.zero_points) out.integer(z);
      out.end_array();
      if (c.sqnr[i]) out.key("sqnr_db").number(rounded(*c.sqnr[i], 2));
      out.end_object();
    }
    out.end_object();
    if (!c.weights.empty()) out.key("weights").string(c.weights);
    if (!c.record.channel_scales.empty()) {
      out.key("channel_scales").begin_object();
      for (const auto& [name, scales] : c.record.channel_scales) {
        out.key(name).begin_array(JsonLayout::Line);
        for (double s : scales) out.number(s);
        out.end_array();
      }
      out.end_object();
    }
    if (c.accuracy) out.key("cosine").number(rounded(*c.accuracy, 6));
    out.key("layers").begin_array();
    for (const CalibratedLayer& l : c.layers) {
      out.begin_object(JsonLayout::Line).key("name").string(l.name).key("tensors").begin_array(JsonLayout::Line);
      for (const std::string& t : l.tensors) out.string(t);
      out.end_array();
      if (l.cosine) out.key("cosine").number(rounded(*l.cosine, 6));
      out.key("float").boolean(l.is_float).end_object();
    }
    out.end_array().end_object().finish();
  }
  return text;
}

std::string calibration_text(const Calibrated& c) {
  const auto harm = [](const CalibratedLayer& l) {  // the lower, the worse
    double least = 1e9;
    for (const auto& sqnr : l.sqnr) least = std::min(least, sqnr.value_or(least));
    return l.cosine.value_or(least);
  };
  std::vector<const CalibratedLayer*> worst;
  size_t floats = 0;
  for (const CalibratedLayer& l : c.layers) {
    worst.push_back(&l);
    floats += l.is_float;
  }
  std::ranges::stable_sort(worst, {}, [&](const CalibratedLayer* l) { return std::pair(!l->is_float, harm(*l)); });
  std::string out = std::to_string(c.layers.size() - floats) + " of " + std::to_string(c.layers.size()) + " layers quantised" +
                    (c.weights.empty() ? "" : ", weights in " + c.weights);
  if (c.accuracy) out += "; least cosine of the outputs " + report::fixed(*c.accuracy, 6);
  out += "\n";
  report::Table table({"layer", "dB of the operands", "cosine alone", "type"});
  for (size_t i = 0; i < worst.size() && (i < kWorst || worst[i]->is_float); ++i) {
    const CalibratedLayer& l = *worst[i];
    std::string both;
    for (const auto& sqnr : l.sqnr) both += (both.empty() ? "" : " ") + (sqnr ? report::fixed(*sqnr, 1) : "exact");
    table.add({ForeignText(l.name).line(), both, l.cosine ? report::fixed(*l.cosine, 6) : "-",
               l.is_float          ? "float"
               : c.weights.empty() ? "i8"
                                   : c.weights});
  }
  table.print(&out);
  if (worst.size() > std::max(kWorst, floats))
    out += "the " + std::to_string(std::max(kWorst, floats)) + " worst; the file has all\n";
  return out;
}

}  // namespace rlxc
