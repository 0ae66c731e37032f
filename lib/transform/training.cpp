#include "transform/training.h"

#include <algorithm>
#include <charconv>

#include "support/text.h"
#include "transform/gradients.h"
#include "transform/names.h"
#include "transform/nn_gradients.h"
#include "transform/paths.h"

namespace rlxc::transform {
namespace {

constexpr double kFirstScale = 65536, kScaleGrowth = 2, kScaleBackoff = 0.5;
constexpr int64_t kScaleInterval = 2000;  // updates without infinities after which the scale grows

bool is_trainable(const Graph& g, NodeId n) {
  const DType t = g.dtype(g.result(n));
  return g.op(n) == OpKind::Param && g.type(g.result(n)).kind == TypeKind::Tensor &&
         (t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16);
}
// States keep parameters of 16 bits in f32: small steps would be lost.
DType master_dtype(DType t) { return t == DType::F64 ? t : DType::F32; }

TensorData master_data(const TensorData& d) {
  const DType t = master_dtype(d.dtype);
  if (t == d.dtype || d.bytes.empty()) return d;
  std::vector<std::byte> bytes;
  const int64_t count = d.splat ? 1 : d.elements();
  for (int64_t i = 0; i < count; ++i) {
    const auto element = element_bytes(t, element_as_double(d, i));
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return d.splat ? make_splat(t, d.dims, bytes) : make_data(t, d.dims, bytes);
}

TensorData filled(DType t, std::vector<int64_t> dims, double value) {
  return make_splat(t, std::move(dims), element_bytes(t, value));
}

std::vector<ValueId> stopped_values(const Names& names, std::span<const std::string> stopped, Diagnostics& d) {
  std::vector<ValueId> values;
  for (const std::string& name : stopped)
    if (const ValueId v = names.find(name, "--stop-gradient", d); v.valid()) values.push_back(v);
  return values;
}

// An input before all nodes.
ValueId add_input(Graph& g, const std::string& name, Type type) {
  const NodeId first = g.first();
  const ValueId v = Builder(g).input(name, std::move(type));
  if (g.def(v) != first) g.move_before(g.def(v), first);
  return v;
}

Term cast(Term x, DType t) { return x.valid() ? x.with(x.b->cast(x.v, t)) : x; }
std::vector<int64_t> all_axes(Term x) { return axes_between(0, x.rank()); }

// Finds what is judged and the parameters that it depends on, and makes them inputs, beside those for targets and the rate. What
// is judged is the first output then.
class Beginning {
 public:
  Beginning(Module& m, const TrainingOptions& o, std::span<const std::string> stopped, Diagnostics& d)
      : m_(m), g_(m.main()), options_(o), stopped_(stopped), d_(d), names_(m) {}

  std::optional<Training> run() {
    t_.optimizer = find_optimizer(options_.optimizer);
    if (!t_.optimizer) {
      d_.error(Code::BadFlag, "there is no optimizer " + quote(options_.optimizer));
      return std::nullopt;
    }
    t_.hyper = hyper_of(*t_.optimizer, options_, d_);
    t_.model_inputs = g_.inputs().size();
    judged_ = find_judged();
    if (!judged_.valid() || !d_.ok()) return std::nullopt;
    const std::vector<NodeId> trained = choose();
    if (!d_.ok() || !add_target()) return std::nullopt;
    if (options_.lr_input && !options_.evaluate_only) {
      add_input(g_, fresh_plain("lr"), tensor_type(DType::F32, {}));
      t_.lr_input = true;
    }
    for (NodeId n : trained) promote(n);
    set_outputs();
    return std::move(t_);
  }

 private:
  std::string fresh_plain(const std::string& name) const {
    return std::ranges::any_of(g_.inputs(), [&](NodeId n) { return m_.text(g_.value_name(g_.result(n))) == name; })
               ? fresh_name(m_, "train", name)
               : name;
  }

  bool parse_loss() {
    std::string_view kind = options_.loss;
    constexpr std::string_view kClasses = "cross-entropy";
    if (kind == "mse" || kind == kClasses) t_.loss = kind;
    else if (kind.starts_with(kClasses) && kind[kClasses.size()] == ':') {
      const std::string_view axis = kind.substr(kClasses.size() + 1);
      const auto [end, error] = std::from_chars(axis.data(), axis.data() + axis.size(), t_.axis);
      if (error != std::errc() || end != axis.data() + axis.size()) {
        d_.error(Code::BadFlag, "--loss cross-entropy:AXIS takes a whole number, got " + quote(std::string(axis)));
        return false;
      }
      t_.loss = kClasses;
    }
    return true;
  }

  ValueId find_judged() {
    if (options_.loss.empty()) {
      d_.error(Code::BadFlag, "--train needs --loss", {}, "mse, cross-entropy, or the name of a value of the model");
      return {};
    }
    if (!parse_loss()) return {};
    if (t_.loss.empty()) return checked(names_.find(options_.loss, "--loss", d_), options_.loss);
    if (!options_.loss_output.empty())
      return checked(names_.find(options_.loss_output, "--loss-output", d_), options_.loss_output);
    std::vector<ValueId> floats;
    std::string list;
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (const ValueId v = g_.outputs()[i]; is_real_float(v)) {
        floats.push_back(v);
        list += (list.empty() ? "" : ", ") + ForeignText(m_.text(g_.output_name(i))).line();
      }
    if (floats.size() == 1) return checked(floats[0], list);
    d_.error(Code::BadFlag, "--loss " + t_.loss + ": the model has " + (floats.empty() ? "no" : "several") + " float outputs", {},
             floats.empty() ? "" : "--loss-output NAME chooses one: " + list);
    return {};
  }

  bool is_real_float(ValueId v) const {
    const DType t = g_.dtype(v);
    return g_.type(v).kind == TypeKind::Tensor && g_.type(v).ranked &&
           (t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16);
  }
  ValueId checked(ValueId v, const std::string& name) {
    if (!v.valid()) return v;
    t_.judged = name;
    if (is_real_float(v)) return v;
    d_.error(Code::BadType, quote(name) + " is " + text(g_.type(v), m_.dims) + ": a loss is made of floats");
    return {};
  }

  // The parameters to train; the others, and why not.
  std::vector<NodeId> choose() {
    std::vector<NodeId> params, trained;
    std::vector<ValueId> values;
    std::vector<std::string_view> known;
    for (NodeId n : g_.nodes())
      if (g_.op(n) == OpKind::Param) {
        params.push_back(n);
        values.push_back(g_.result(n));
        known.push_back(m_.bytes(g_.value_name(g_.result(n))));
      }
    for (const std::string& name : options_.frozen)
      if (std::ranges::find(known, name) == known.end()) {
        const auto close = closest(name, known);
        d_.error(Code::UnknownName, "--freeze names " + quote(name) + ", which is no parameter of the model", {},
                 close ? "did you mean " + quote(*close) + "?" : "");
      }
    const std::vector<ValueId> fixed = stopped_values(names_, stopped_, d_);
    if (!d_.ok()) return {};
    const std::array targets{judged_};
    const std::vector<double> paths = count_paths(g_, between(g_, targets, values, fixed, Follow::Derivatives), targets);
    for (NodeId n : params) {
      const ValueId v = g_.result(n);
      const std::string name = name_of(g_, v);
      std::string why;
      if (!is_trainable(g_, n)) why = "its type is " + text(g_.type(v), m_.dims);
      else if (std::ranges::find(options_.frozen, name) != options_.frozen.end()) why = "--freeze";
      else if (is_statistic(v)) why = "a statistic of a batch normalization";
      else if (is_exponent(v)) why = "an exponent: a small change makes powers of negative numbers NaN";
      else if (!(paths[v.raw] > 0)) why = "the loss does not depend on it through floats";
      if (why.empty()) trained.push_back(n);
      else t_.frozen.push_back({name, std::move(why)});
    }
    if (trained.empty())
      d_.error(Code::BadFlag, "--train: the model has no parameter that the loss depends on and that may change");
    return trained;
  }

  // The mean or variance of a batch normalization, which is measured and not learned.
  bool is_statistic(ValueId v) const {
    const auto uses = g_.uses(v);
    return std::any_of(uses.begin(), uses.end(),
                       [&](Graph::Use u) { return g_.op(u.user) == OpKind::BatchNormInference && u.index >= 3; });
  }

  // One number, which powers take.
  bool is_exponent(ValueId v) const {
    const auto uses = g_.uses(v);
    return num_elements(g_.type(v)) == 1 && uses.begin() != uses.end() &&
           std::all_of(uses.begin(), uses.end(), [&](Graph::Use u) { return g_.op(u.user) == OpKind::Pow && u.index == 1; });
  }

  bool add_target() {
    if (t_.loss.empty()) return true;
    std::vector<Dim> dims(g_.dims(judged_).begin(), g_.dims(judged_).end());
    DType type = master_dtype(g_.dtype(judged_));
    if (t_.loss == "cross-entropy") {
      const int64_t rank = static_cast<int64_t>(dims.size());
      if (const NodeId n = g_.def(judged_); is_softmax(g_.op(n))) t_.axis = g_.attrs<AxisAttrs>(n).axis;
      if (t_.axis < 0) t_.axis += rank;
      if (t_.axis < 0 || t_.axis >= rank) {
        d_.error(Code::BadFlag, "--loss cross-entropy: " + quote(t_.judged) + " is " + text(g_.type(judged_), m_.dims) +
                                    ", which has no axis " + std::to_string(t_.axis) + " of classes");
        return false;
      }
      t_.classes = m_.dims.constant_value(dims[static_cast<size_t>(t_.axis)]).value_or(0);
      dims.erase(dims.begin() + t_.axis);
      type = DType::I64;
    }
    t_.target = fresh_name(m_, t_.loss == "mse" ? "target" : "label", t_.judged);
    add_input(g_, t_.target, tensor_type(type, std::move(dims)));
    return true;
  }
  static bool is_softmax(OpKind op) { return op == OpKind::Softmax || op == OpKind::LogSoftmax; }

  // A parameter as an input of its master type.
  void promote(NodeId n) {
    const ValueId v = g_.result(n);
    const std::string name = name_of(g_, v);
    Type type = g_.type(v);
    const DType own = type.dtype;
    type.dtype = master_dtype(own);
    const DataId data = g_.attrs<DataAttrs>(n).data;
    TensorData initial = data.valid() ? master_data(m_.data[data]) : TensorData{};
    if (!data.valid()) {
      initial.dtype = type.dtype;
      for (Dim dim : type.dims) initial.dims.push_back(m_.dims.constant_value(dim).value_or(0));
    }
    const ValueId in = add_input(g_, name, type);
    g_.set_node_name(g_.def(in), g_.node_name(n));
    g_.set_value_name(v, {});
    Builder b(g_, &d_, g_.next(n));
    const ValueId read = b.cast(in, own);
    g_.replace_all_uses(v, read);
    if (v == judged_) judged_ = read;
    g_.erase(n);
    t_.states.push_back({name, "parameter", name, std::move(initial)});
  }

  void set_outputs() {
    std::vector<ValueId> outputs{judged_};
    std::vector<Symbol> names{m_.symbol("loss")};
    for (size_t i = 0; options_.evaluate_only && i < g_.outputs().size(); ++i) {
      if (t_.loss.empty() && g_.outputs()[i] == judged_) continue;
      if (g_.output_name(i) == names[0]) names[0] = m_.symbol("train:loss");
      outputs.push_back(g_.outputs()[i]);
      names.push_back(g_.output_name(i));
    }
    g_.set_outputs(outputs);
    for (size_t i = 0; i < names.size(); ++i) g_.set_output_name(i, names[i]);
  }

  Module& m_;
  Graph& g_;
  const TrainingOptions& options_;
  std::span<const std::string> stopped_;
  Diagnostics& d_;
  Names names_;
  ValueId judged_;
  Training t_;
};

// The mean over samples, and over whatever other axes there are.
Term mean_square(Term y, Term target) { return reduce(ReduceOp::Mean, square(y - target), all_axes(y), false); }

// Of classes by logits. Labels below 0 are left out; without any other the loss is 0.
Term cross_entropy(Term logits, Term label, int64_t axis) {
  const std::vector<Dim> dims = logits.dims();
  std::vector<Dim> column = dims, row(dims.size(), Dim(1));
  column[static_cast<size_t>(axis)] = Dim(1);
  row[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
  const Term log_share = make(OpKind::LogSoftmax, {logits}, AxisAttrs{axis});
  const Term classes = reshape(count_up(*logits.b, dims[static_cast<size_t>(axis)]), row);
  const Term chosen = select(equal(classes, reshape(label, column)), log_share, 0.0);
  const Term counted = cast(label >= 0.0, logits.dtype());
  return -(sum(chosen, all_axes(chosen), false) / max(sum(counted, all_axes(counted), false), 1.0));
}

// The loss, and for a step its gradient, the updates and the other states.
class Finishing {
 public:
  Finishing(Module& m, const TrainingOptions& o, std::span<const std::string> stopped, Expand expand, Training* t, Diagnostics& d)
      : m_(m), g_(m.main()), b_(g_, &d), options_(o), stopped_(stopped), expand_(expand), t_(*t), d_(d) {}

  bool run() {
    const Term loss = make_loss();
    if (!loss.valid()) return d_.ok();
    if (options_.evaluate_only) {
      std::vector<ValueId> outputs(g_.outputs().begin(), g_.outputs().end());
      outputs[0] = loss.v;
      g_.set_outputs(outputs);
      return d_.ok();
    }
    std::vector<ValueId> parameters;
    for (size_t i = 0; i < t_.states.size(); ++i) parameters.push_back(g_.result(g_.inputs()[t_.first_state() + i]));
    const size_t count = parameters.size();
    if (t_.scales) scale_ = add_state("train:scale", "scale", "", filled(DType::F32, {}, kFirstScale));
    const std::vector<ValueId> fixed = stopped_values(Names(m_), stopped_, d_);
    if (!d_.ok() || !is_followed(loss.v, parameters, fixed)) return false;
    const ValueId seed = scale_.valid() ? cast(scale_, loss.dtype()).v : ValueId();
    const auto made = gradients(b_, loss.v, seed, parameters, fixed, d_, expand_);
    if (!made) return false;
    std::vector<Term> gradients;
    for (ValueId v : *made) gradients.push_back({&b_, v});
    if (scale_.valid())
      for (Term& g : gradients) g = g * cast(recip(scale_), g.dtype());
    next_.resize(t_.states.size());
    accumulate(&gradients);
    if (scale_.valid()) skip_infinities(gradients);
    clip(&gradients);
    update(parameters, gradients);
    for (size_t i = 0; i < count; ++i)
      if (!next_[i].valid()) return false;
    std::vector<ValueId> outputs{loss.v};
    for (const Term& n : next_) outputs.push_back(n.v);
    g_.set_outputs(outputs);
    g_.set_output_name(0, m_.symbol("loss"));
    for (size_t i = 0; i < t_.states.size(); ++i) g_.set_output_name(i + 1, m_.symbol("next:" + t_.states[i].name));
    return d_.ok();
  }

 private:
  Term input(size_t i) { return {&b_, g_.result(g_.inputs()[i])}; }

  Term make_loss() {
    Term y{&b_, g_.outputs()[0]};
    const DType type = master_dtype(y.dtype());
    if (t_.loss.empty()) return sum(cast(y, type), all_axes(y), false);
    const Term target = input(t_.model_inputs);
    if (t_.loss == "mse") return mean_square(cast(y, type), target);
    // The softmax of a model that ends in one is a part of the loss.
    ValueId v = y.v;
    while (g_.op(g_.def(v)) == OpKind::Cast && is_float(g_.dtype(g_.operand(g_.def(v), 0)))) v = g_.operand(g_.def(v), 0);
    if (const NodeId n = g_.def(v); g_.op(n) == OpKind::Softmax || g_.op(n) == OpKind::LogSoftmax) y = y.with(g_.operand(n, 0));
    return cross_entropy(cast(y, type), target, t_.axis);
  }

  // Floats that become integers on the way are an error, as in --grad.
  bool is_followed(ValueId loss, std::span<const ValueId> parameters, std::span<const ValueId> fixed) {
    const Between way = between(g_, std::array{loss}, parameters, fixed, Follow::Derivatives);
    for (const Cut& c : cuts(g_, way, fixed))
      if (c.converts) add_conversion(d_, g_, c.node);
    warn_of_steps(d_, g_, way, fixed);
    return d_.ok();
  }

  // An input with its first contents. Its next value is set later.
  Term add_state(std::string name, std::string kind, std::string parameter, TensorData initial) {
    std::vector<Dim> dims(initial.dims.begin(), initial.dims.end());
    const ValueId v = add_input(g_, name, tensor_type(initial.dtype, std::move(dims)));
    t_.states.push_back({std::move(name), std::move(kind), std::move(parameter), std::move(initial)});
    next_.push_back({});
    return {&b_, v};
  }
  Term add_state_like(const TrainingState& parameter, const std::string& prefix, std::string kind) {
    return add_state(fresh_name(m_, prefix, parameter.name), std::move(kind), parameter.name,
                     filled(parameter.initial.dtype, parameter.initial.dims, 0));
  }

  // Where the update happens in this step, and else what was.
  Term taken(Term now, Term before) { return take_.valid() ? select(take_, now, before) : now; }

  // The mean gradient of several steps; the last of them updates.
  void accumulate(std::vector<Term>* gradients) {
    if (options_.accumulate == 1) return;
    const auto share = 1 / static_cast<double>(options_.accumulate);
    const size_t at = t_.states.size();
    const Term step = add_state("train:part", "counter", "", filled(DType::I64, {}, 0)) + 1.0;
    take_ = equal(step, static_cast<double>(options_.accumulate));
    next_[at] = select(take_, 0.0, step);
    for (size_t i = 0; i < gradients->size(); ++i) {
      const size_t slot = t_.states.size();
      const TrainingState parameter = t_.states[i];
      Term& g = (*gradients)[i];
      g = add_state_like(parameter, "gradient", "gradient") + g * share;
      next_[slot] = select(take_, 0.0, g);
    }
  }

  // No update from gradients with infinities: the scale shrinks. It grows after many updates.
  void skip_infinities(const std::vector<Term>& gradients) {
    Term bad;
    for (const Term& g : gradients) {
      const Term odd = make(OpKind::Or, {make(OpKind::IsNan, {g}), make(OpKind::IsInf, {g}, AlphaBetaAttrs{1, 1})});
      const Term found = reduce(ReduceOp::Max, cast(odd, DType::F32), all_axes(odd), false);
      bad = bad.valid() ? max(bad, found) : found;
    }
    const Term finite = equal(bad, 0.0);
    const size_t at = t_.states.size();
    const Term good = add_state("train:good", "counter", "", filled(DType::I64, {}, 0));
    const Term grows = equal(good + 1.0, static_cast<double>(kScaleInterval));
    const Term next_good = select(finite, select(grows, 0.0, good + 1.0), 0.0);
    const Term next_scale = select(finite, select(grows, scale_ * kScaleGrowth, scale_), scale_ * kScaleBackoff);
    next_[at] = taken(next_good, good);
    next_[slot_of("train:scale")] = taken(next_scale, scale_);
    take_ = take_.valid() ? both(take_, finite) : finite;
  }
  size_t slot_of(std::string_view name) const {
    return static_cast<size_t>(std::ranges::find(t_.states, name, &TrainingState::name) - t_.states.begin());
  }

  // As torch.nn.utils.clip_grad_norm_.
  void clip(std::vector<Term>* gradients) {
    if (!options_.clip_norm) return;
    Term squares;
    for (const Term& g : *gradients) {
      const Term s = cast(sum(square(g), all_axes(g), false), DType::F32);
      squares = squares.valid() ? squares + s : s;
    }
    const Term factor = min(*options_.clip_norm / (sqrt(squares) + 1e-6), 1.0);
    for (Term& g : *gradients) g = g * cast(factor, g.dtype());
  }

  void update(const std::vector<ValueId>& parameters, const std::vector<Term>& gradients) {
    const Term lr = t_.lr_input ? input(t_.first_state() - 1) : Term{&b_, b_.scalar(DType::F32, t_.hyper.lr)};
    const size_t counter = t_.states.size();
    const Term before = add_state("train:step", "counter", "", filled(DType::I64, {}, 0)), step = before + 1.0;
    next_[counter] = taken(step, before);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Term p{&b_, parameters[i]};
      const TrainingState state = t_.states[i];
      const size_t slot = t_.states.size();
      std::vector<Term> moments;
      for (std::string_view name : t_.optimizer->moments)
        if (!name.empty()) moments.push_back(add_state_like(state, std::string(name), "moment"));
      const StepTerms shared{cast(lr, p.dtype()), t_.optimizer->counts_steps ? cast(step, p.dtype()) : Term{}};
      const Updated u = t_.optimizer->update(t_.hyper, shared, p, gradients[i], moments);
      next_[i] = taken(u.parameter, p);
      for (size_t k = 0; k < moments.size(); ++k) next_[slot + k] = taken(u.moments[k], moments[k]);
    }
  }

  Module& m_;
  Graph& g_;
  Builder b_;
  const TrainingOptions& options_;
  std::span<const std::string> stopped_;
  Expand expand_;
  Training& t_;
  Diagnostics& d_;
  Term scale_, take_;
  std::vector<Term> next_;  // by state
};

}  // namespace

std::optional<Training> make_training(Module& m, const TrainingOptions& o, bool scales, std::span<const std::string> stopped,
                                      Expand expand, Diagnostics& d) {
  auto t = Beginning(m, o, stopped, d).run();
  if (!t) return std::nullopt;
  t->scales = scales;
  if (!Finishing(m, o, stopped, expand, &*t, d).run()) return std::nullopt;
  return t;
}

}  // namespace rlxc::transform
