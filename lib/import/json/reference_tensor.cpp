// Ops of the reference vocabulary with a close IR counterpart: layout, selection, 3-D convolution.
#include <algorithm>
#include <array>

#include "import/compose/solve.h"
#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

int64_t axis_of(Node& n) { return n.axis(n.integer("axis", -1), n.rank(0)); }

// The IR op with attributes from kAttrs.
template <OpKind kOp, auto kAttrs>
ValueId same(Node& n) {
  auto a = kAttrs(n);
  return n.good ? n.b.create(kOp, n.in, std::move(a)) : ValueId();
}
NoAttrs none(Node&) { return {}; }
AxisAttrs axis_attrs(Node& n) { return {axis_of(n)}; }
NormAttrs last_norm(Node& n) { return {n.rank(0) - 1, n.number("eps", 1e-5)}; }
TriluAttrs triangle(Node& n) { return {n.flag("upper"), n.integer("diagonal", 0)}; }
CumAttrs cumulative(Node& n) { return {axis_of(n), n.flag("exclusive"), false}; }
BatchDimsAttrs batch_dims(Node& n) { return {n.integer("batch_dims", 0)}; }
ConvAttrs conv_attrs(Node& n) { return reference_conv_attrs(n); }
ClampAttrs limits(Node& n) {
  ClampAttrs a;
  a.min = n.number("min", a.min);
  a.max = n.number("max", a.max);
  return a;
}
SliceAttrs slice_attrs(Node& n) {
  DimTable& t = n.b.dims();
  const SliceAttrs a{axis_of(n), t.constant(n.integer("start")), t.constant(n.integer("len")), n.integer("step", 1)};
  if (n.good && a.step == 0) n.fail(Code::BadAttribute, "\"step\" is 0");
  return a;
}
AxesAttrs reversed_axes(Node& n) {
  AxesAttrs a;
  for (int64_t axis : n.integers("axes")) a.axes.push_back(n.axis(axis, n.rank(0)));
  std::sort(a.axes.begin(), a.axes.end());
  return a;
}
DimsAttrs repeats(Node& n) {
  DimsAttrs a;
  for (int64_t r : n.integers("reps")) a.dims.push_back(n.b.dims().constant(r));
  return a;
}
ScatterAttrs scatter(Node& n) {
  ScatterAttrs a;
  static constexpr std::pair<std::string_view, Reduction> kNames[] = {{"None", Reduction::None},
                                                                      {"Add", Reduction::Add},
                                                                      {"Mul", Reduction::Mul},
                                                                      {"Max", Reduction::Max},
                                                                      {"Min", Reduction::Min}};
  const std::string word = n.find("reduction") ? n.word("reduction") : "None";
  const auto row = std::ranges::find(kNames, word, [](const auto& r) { return r.first; });
  if (row == std::end(kNames)) n.fail(Code::BadAttribute, "the reduction \"" + word + "\" is unknown");
  else a.reduction = row->second;
  if (n.op == "ScatterElements") a.axis = axis_of(n);
  return a;
}
// Pads are pairs [before, after] per axis.
PadAttrs pad_attrs(Node& n) {
  PadAttrs a;
  const Field* f = n.find("pads");
  if (!f) {
    n.fail(Code::BadAttribute, "\"pads\" is missing");
    return a;
  }
  JsonReader r(f->value);
  for (r.begin_array(); r.next_item();) {
    std::vector<int64_t> pair;
    for (r.begin_array(); r.next_item();) r.integer(&pair.emplace_back());
    pair.resize(2);
    a.before.push_back(n.b.dims().constant(pair[0]));
    a.after.push_back(n.b.dims().constant(pair[1]));
  }
  if (!r.ok()) n.fail(Code::BadJson, "\"pads\": " + r.error());
  static constexpr std::pair<std::string_view, PadMode> kNames[] = {
      {"Reflect", PadMode::Reflect}, {"Replicate", PadMode::Edge}, {"Circular", PadMode::Wrap}};
  const std::string word = n.word("mode");
  for (const auto& [name, mode] : kNames)
    if (name == word) a.mode = mode;
  return a;
}
ValueId pad(Node& n) {
  PadAttrs a = pad_attrs(n);
  double fill = 0;
  if (const Field* f = n.find("mode")) {  // {"Constant": v}
    JsonReader r(f->value);
    std::string_view key;
    if (r.peek() == JsonReader::Kind::Object && r.begin_object() && r.next_key(&key)) r.number(&fill);
  }
  if (!n.good || !n.count(1, 1)) return {};
  return n.b.create(OpKind::Pad, {n.in[0], n.b.scalar(n.type.dtype, fill)}, std::move(a));
}

// Rotates: the last `shift` elements become the first.
ValueId roll(Node& n) {
  const auto shifts = n.integers("shifts"), axes = n.integers("dims");
  if (!n.count(1, 1) || shifts.size() != axes.size()) {
    n.fail(Code::BadAttribute, "needs a shift for each axis");
    return ValueId();
  }
  ValueId x = n.in[0];
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], n.rank(0));
    const auto size = n.good ? n.b.dims().constant_value(sizes(n, n.in[0])[static_cast<size_t>(axis)]) : std::nullopt;
    if (!size) return n.good ? (n.fail(Code::UnsupportedAttribute, "needs known sizes"), ValueId()) : ValueId();
    const int64_t by = *size == 0 ? 0 : (shifts[i] % *size + *size) % *size;
    if (by == 0) continue;
    x = n.b.concat(std::array{n.b.narrow(x, axis, Dim(*size - by), Dim(by)), n.b.narrow(x, axis, Dim(0), Dim(*size - by))}, axis);
  }
  return x;
}

template <bool kLargest>
ValueId arg_reduce(Node& n) {
  const ArgAttrs a{axis_of(n), kLargest, n.flag("keep_dim"), false};
  return n.good && n.count(1, 1) ? n.b.cast(n.b.create(OpKind::ArgReduce, n.in, a), n.type.dtype) : ValueId();
}

template <size_t kResult>
ValueId sorted(Node& n) {
  const int64_t axis = axis_of(n);
  if (!n.good || !n.count(1, 1)) return {};
  const NodeId made = n.b.create_node(OpKind::TopK, n.in,
                                      TopKAttrs{sizes(n, n.in[0])[static_cast<size_t>(axis)], axis, n.flag("descending"), true});
  return made.valid() ? n.b.cast(n.b.graph().result(made, kResult), n.type.dtype) : ValueId();
}

ValueId matmul_residual(Node& n) {
  return n.count(3, 3) ? n.b.create(OpKind::FusedMatMulBiasAct, {n.in[0], n.in[1], ValueId(), n.in[2]}, FusedMatMulAttrs{})
                       : ValueId();
}
ValueId conv_bias_act(Node& n) {
  FusedConvAttrs a;
  a.conv = reference_conv_attrs(n);
  return n.count(2, 4) && reference_epilogue(n, &a.act) && n.good ? n.b.create(OpKind::FusedConvBiasAct, n.in, std::move(a))
                                                                  : ValueId();
}

ValueId dense_cross_entropy(Node& n) {  // logits, targets [N,C] -> [N]
  if (!n.count(2, 2) || n.rank(0) != 2) return {};
  const ValueId logs = n.b.create(OpKind::LogSoftmax, {n.in[0]}, AxisAttrs{1});
  return n.b.unary(OpKind::Neg, n.b.reduce(ReduceOp::Sum, n.b.mul(logs, n.in[1]), {1}, false));
}

ValueId log_det(Node& n) {
  return n.count(1, 1) ? n.b.unary(OpKind::Log, n.b.unary(OpKind::Abs, n.b.create(OpKind::Det, n.in, NoAttrs{}))) : ValueId();
}
ValueId triangular_solve(Node& n) {  // ignores the other triangle
  if (!n.count(2, 2)) return {};
  ValueId a = n.b.create(OpKind::Trilu, {n.in[0]}, TriluAttrs{!n.flag("lower"), 0});
  if (n.flag("transpose")) {
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < n.rank(0); ++i) perm.push_back(i);
    if (perm.size() >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    a = n.b.transpose(a, perm);
  }
  return compose::solve(n.b, a, n.in[1]);
}

// Counts elements in `bins` equal bins from min to max. The last bin includes its end.
ValueId histogram(Node& n) {
  const int64_t bins = n.integer("bins");
  const double low = n.number("min", 0), high = n.number("max", 1);
  if (!n.good || !n.count(1, 1)) return {};
  if (bins < 1 || bins > 1 << 20 || !(high > low)) {
    n.fail(Code::BadAttribute, "bins, min or max are out of range");
    return ValueId();
  }
  Builder& b = n.b;
  const DType t = b.graph().dtype(n.in[0]);
  const Dim count = b.dims().product(sizes(n, n.in[0]));
  const ValueId x = b.reshape(n.in[0], {count});
  const ValueId inside =
      b.create(OpKind::And, {b.create(OpKind::Ge, {x, b.scalar(t, low)}), b.create(OpKind::Le, {x, b.scalar(t, high)})});
  const ValueId place =
      b.unary(OpKind::Floor, b.mul(b.sub(x, b.scalar(t, low)), b.scalar(t, static_cast<double>(bins) / (high - low))));
  const ValueId bin = b.cast(b.create(OpKind::Clamp, {place}, ClampAttrs{0, static_cast<double>(bins - 1)}), DType::I64);
  const ValueId zeros = b.expand(b.scalar(DType::F32, 0), {Dim(bins)});
  return b.create(OpKind::ScatterElements, {zeros, bin, b.cast(inside, DType::F32)}, ScatterAttrs{0, Reduction::Add});
}

}  // namespace

std::span<const ReferenceRow> reference_tensor_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"StopGradient", same<OpKind::StopGradient, none>},
      {"Fma", same<OpKind::Fma, none>},
      {"Clamp", same<OpKind::Clamp, limits>},
      {"Pad", pad},
      {"Slice", same<OpKind::Slice, slice_attrs>},
      {"Reverse", same<OpKind::Reverse, reversed_axes>},
      {"Roll", roll},
      {"Tile", same<OpKind::Tile, repeats>},
      {"Trilu", same<OpKind::Trilu, triangle>},
      {"ArgMax", arg_reduce<true>},
      {"ArgMin", arg_reduce<false>},
      {"Sort", sorted<0>},
      {"ArgSort", sorted<1>},
      {"CumProd", same<OpKind::Cumprod, cumulative>},
      {"Histogram", histogram},
      {"GatherElements", same<OpKind::GatherElements, axis_attrs>},
      {"GatherNd", same<OpKind::GatherNd, batch_dims>},
      {"ScatterElements", same<OpKind::ScatterElements, scatter>},
      {"ScatterNd", same<OpKind::ScatterNd, scatter>},
      {"BatchNormInference", same<OpKind::BatchNormInference, last_norm>},
      {"Conv3d", same<OpKind::Conv, conv_attrs>},
      {"ConvTranspose3d", same<OpKind::ConvTranspose, conv_attrs>},
      {"FusedMatMulResidual", matmul_residual},
      {"FusedConvBiasAct", conv_bias_act},
      {"SoftmaxCrossEntropy", dense_cross_entropy},
      {"Det", same<OpKind::Det, none>},
      {"LogDet", log_det},
      {"TriangularSolve", triangular_solve},
  };
  return kRows;
}

}  // namespace rlxc::import_json
