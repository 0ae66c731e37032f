// Runs parts of an f32 graph in f16 or bf16 (options.precision). Changes f32 values only; inputs and outputs of graphs and bodies
// keep their types. Each cast and each clamped constant is a PrecisionNote. Runs after lower_hir and quantization, and before
// mark_elementwise_regions, since steps are typed. O(nodes + uses).
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "analysis/phases.h"
#include "ir/graphs.h"
#include "ir/op_rules.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantize/tensor_names.h"
#include "support/number.h"

namespace rlxc {
namespace {

constexpr double kLargestF16 = 65504;
constexpr double kAsInfinity = 1e30;
constexpr double kMask = -1e9;              // and below: a constant of masks, which stands for minus infinity
constexpr int64_t kMaxConverted = 1 << 20;  // elements; larger constants are cast at load time

bool is_low(DType t) { return t == DType::F16 || t == DType::BF16; }

// Contractions go low, sensitive ops stay in f32. Norms and other ops take the widest type of their operands, ignoring weights,
// so a low value stays low up to the first op that needs f32. Ops stay in f32 whose calibrated results exceed f16, and those that
// read such values or, in the automixed policies, constants beyond f16 and what is computed from them.
//   f16                     all ops low, including sensitive ones
//   automixed, -bf16        as above; a norm reads and writes low and computes in f32
//   automixed-conservative  norms in f32, and only values derived from a contraction are low
//   custom                  by op name, else by class name; others stay in f32
// The automixed policies keep in f32 what an index or a decision is computed from, back to the contraction.
class Policy {
 public:
  Policy(const PassOptions& o, Diagnostics& d) : policy_(o.precision) {
    if (policy_ != PrecisionPolicy::Custom) return;
    for (const auto& [rule, dtype] : o.custom_precision.rules) {
      if (dtype != DType::F32 && !is_low(dtype)) {
        d.error(Code::BadFlag, "a precision must be f32, f16 or bf16, is " + std::string(name(dtype)), "rule \"" + rule + "\"");
      } else if (const auto op = op_from_name(rule)) {
        by_op_.emplace_back(*op, dtype);
      } else if (const auto cls = precision_class_from_name(rule)) {
        by_class_.emplace_back(*cls, dtype);
      } else {
        d.error(Code::BadFlag, "no operation or precision class has this name", "rule \"" + rule + "\"",
                "classes: contraction, norm, sensitive, elementwise, movement; `rlxc list ops` shows the operations");
      }
    }
  }

  bool off() const { return policy_ == PrecisionPolicy::F32; }
  DType low() const { return policy_ == PrecisionPolicy::AutoMixedBf16 ? DType::BF16 : DType::F16; }
  bool mixed() const { return policy_ != PrecisionPolicy::F16 && policy_ != PrecisionPolicy::Custom; }
  bool conservative() const { return policy_ == PrecisionPolicy::AutoMixedConservative; }

  // The type required by the policy; nullopt: follow the operands.
  std::optional<DType> demanded(OpKind op, PrecisionClass c) const {
    if (policy_ == PrecisionPolicy::Custom) {
      for (const auto& [kind, t] : by_op_)
        if (kind == op) return t;
      for (const auto& [cls, t] : by_class_)
        if (cls == c) return t;
      return DType::F32;
    }
    if (policy_ == PrecisionPolicy::F16 || c == PrecisionClass::Contraction) return low();
    if (c == PrecisionClass::Sensitive || (c == PrecisionClass::Norm && conservative())) return DType::F32;
    return std::nullopt;
  }

 private:
  PrecisionPolicy policy_;
  std::vector<std::pair<OpKind, DType>> by_op_;
  std::vector<std::pair<PrecisionClass, DType>> by_class_;
};

// Values whose calibrated range exceeds f16, with their largest magnitude.
using Overflows = std::unordered_map<uint64_t, double>;

uint64_t value_key(GraphId g, ValueId v) { return uint64_t{g.raw} << 32 | v.raw; }

Overflows overflows_of(const Module& m, const PassOptions& o) {
  Overflows out;
  if (!o.calibration) return out;
  std::unordered_map<std::string_view, double> by_name;
  for (const auto& [tensor, entry] : o.calibration->entries) {
    double most = 0;
    for (size_t i = 0; i < entry.scales.size(); ++i) {
      const auto zero = i < entry.zero_points.size() ? static_cast<double>(entry.zero_points[i]) : 0;
      most = std::max(most, entry.scales[i] * std::max(127 - zero, 128 + zero));
    }
    if (most > kLargestF16) by_name.emplace(tensor, most);
  }
  if (by_name.empty()) return out;
  each_tensor(m, [&](GraphId g, ValueId v, const std::string& name) {
    if (const auto it = by_name.find(name); it != by_name.end()) out.emplace(value_key(g, v), it->second);
  });
  return out;
}

// The largest magnitude of the finite elements, without constants of masks. Large weights are not read: a compile maps them only.
double largest_magnitude(const TensorData& d) {
  constexpr size_t kMostBytes = 1 << 20;
  if (d.dtype != DType::F32 || d.bytes.empty() || d.bytes.size() > kMostBytes) return 0;
  const std::span values(reinterpret_cast<const float*>(d.bytes.data()), d.bytes.size() / sizeof(float));
  float most = 0;
  for (const float x : values)
    if (const float size = std::fabs(x); size > most && size < kAsInfinity && x > kMask) most = size;
  return most;
}

// Whether a result may be as large as the operand, whatever the others are.
bool keeps_magnitude(OpKind op, size_t operand) {
  switch (op) {
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Relu:
    case OpKind::Max:
    case OpKind::Where: return true;
    case OpKind::Div: return operand == 0;
    default: return precision_rule(op).cls == PrecisionClass::Movement;
  }
}

class Rewriter {
 public:
  Rewriter(Graph& g, const Policy& policy, const Overflows& overflows, PassContext& context)
      : graph_(g), module_(g.module()), policy_(policy), overflows_(overflows), context_(context), notes_(context.precision) {}

  void run() {
    grow();
    if (policy_.mixed()) {
      mark_exact();
      mark_wide();
    }
    for (NodeId n : graph_.nodes()) {
      grow();
      load_time_[n.raw] = is_load_time(graph_, n, [&](ValueId v) { return load_time_[graph_.def(v).raw]; });
      note_magnitudes(n);
      if (has_trait(graph_.op(n), kLeaf)) continue;
      DType t = choose(n);
      if (t == DType::F16 && overflows(n)) t = DType::F32;
      if (is_low(t) && !context_.rewrite([] { return true; })) t = DType::F32;
      for (size_t i = 0; i < graph_.operands(n).size(); ++i) {
        const ValueId v = graph_.operand(n, i);
        if (!v.valid() || !candidate(v)) continue;
        convert(n, i, has_slot(n, i) ? t : DType::F32);
      }
      if (!is_low(t)) continue;
      ++lowered;
      for (size_t r = 0; r < graph_.result_count(n); ++r) {
        const ValueId v = graph_.result(n, r);
        if (graph_.dtype(v) != DType::F32) continue;
        retype(v, t);
        changed_[v.raw] = true;
      }
    }
    grow();
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      if (candidate(graph_.outputs()[i])) convert(graph_.terminator(), i, DType::F32);
    drop_casts();
  }

  int64_t casts = 0, constants = 0, lowered = 0;

 private:
  // Drops casts of the model to the type that their operand has after the pass.
  void drop_casts() {
    for (NodeId n : graph_.nodes())
      if (graph_.op(n) == OpKind::Cast && graph_.dtype(graph_.operand(n, 0)) == graph_.dtype(graph_.result(n)))
        match::replace(graph_, graph_.result(n), graph_.operand(n, 0));
  }

  void grow() {
    load_time_.resize(graph_.node_capacity());
    exact_.resize(graph_.node_capacity());
    wide_.resize(graph_.node_capacity());
    changed_.resize(graph_.value_capacity());
    versions_.resize(graph_.value_capacity());
    magnitudes_.resize(graph_.value_capacity());
  }

  // Records what is known of the results: their calibrated range, and that they have, or follow from, constants beyond f16.
  void note_magnitudes(NodeId n) {
    double most = 0;
    if (policy_.mixed())
      for (size_t i = 0; i < graph_.operands(n).size(); ++i)
        if (const ValueId v = graph_.operand(n, i); v.valid() && keeps_magnitude(graph_.op(n), i))
          most = std::max(most, magnitudes_[v.raw]);
    if (const TensorData* d =
            policy_.mixed() && has_trait(graph_.op(n), kLeaf) ? match::data_of(graph_, graph_.result(n)) : nullptr)
      most = largest_magnitude(*d);
    for (size_t r = 0; r < graph_.result_count(n); ++r) {
      const ValueId v = graph_.result(n, r);
      const auto calibrated = overflows_.find(value_key(graph_.id(), v));
      magnitudes_[v.raw] = calibrated != overflows_.end() ? calibrated->second : most > kLargestF16 ? most : 0;
    }
  }

  void retype(ValueId v, DType t) {
    Type type = graph_.type(v);
    type.dtype = t;
    graph_.set_type(v, module_.types.intern(type));
  }

  bool is_zero(ValueId v) const {
    const NodeId d = graph_.def(v);
    if (graph_.op(d) != OpKind::Constant) return false;
    const TensorData& data = module_.data[graph_.attrs<DataAttrs>(d).data];
    return (data.splat || data.elements() == 1) && element_as_double(data, 0) == 0;
  }

  // Returns whether a small change of an operand may change the result altogether. Rounding does not change a sign.
  bool decides(NodeId n) const {
    switch (graph_.op(n)) {
      case OpKind::TopK:
      case OpKind::ArgReduce:
      case OpKind::NonMaxSuppression:
      case OpKind::NonZero:
      case OpKind::Unique:
      case OpKind::Floor:
      case OpKind::Ceil:
      case OpKind::Round: return true;
      case OpKind::Cast: return !is_float(graph_.dtype(graph_.result(n)));
      case OpKind::Eq:
      case OpKind::Ne: return false;  // of marks, such as padding
      default:
        return has_trait(graph_.op(n), kCompare) &&
               std::ranges::none_of(graph_.operands(n), [&](ValueId v) { return is_zero(v); });
    }
  }

  void mark_exact() {
    std::vector<NodeId> order;
    for (NodeId n : graph_.nodes()) order.push_back(n);
    std::ranges::reverse(order);
    for (NodeId n : order) {
      if (has_trait(graph_.op(n), kLeaf)) continue;
      const bool passes = exact_[n.raw] && !is_contraction(n);
      if (!passes && !decides(n)) continue;
      for (ValueId v : graph_.operands(n))
        if (v.valid() && graph_.type(v).kind == TypeKind::Tensor && graph_.dtype(v) == DType::F32)
          exact_[graph_.def(v).raw] = graph_.op(graph_.def(v)) != OpKind::Attention;
    }
  }

  // Returns whether the value was f32 originally.
  bool candidate(ValueId v) const {
    return graph_.type(v).kind == TypeKind::Tensor && (graph_.dtype(v) == DType::F32 || changed_[v.raw]);
  }

  // The low type in which the value exists without a conversion from f32, if any.
  std::optional<DType> low_type(ValueId v) const {
    if (changed_[v.raw]) return graph_.dtype(v);
    const NodeId d = graph_.def(v);
    if (graph_.op(d) != OpKind::Cast || !is_low(graph_.dtype(graph_.operand(d, 0)))) return std::nullopt;
    return graph_.dtype(graph_.operand(d, 0));
  }

  // Returns whether the node sums in its result, which rounds every partial sum, or reshapes such a sum.
  bool adds_in_place(NodeId n) const {
    while (graph_.op(n) == OpKind::Reshape) n = graph_.def(graph_.operand(n, 0));
    const OpKind op = graph_.op(n);
    const bool scatters = op == OpKind::ScatterElements || op == OpKind::ScatterNd;
    return scatters && graph_.attrs<ScatterAttrs>(n).reduction == Reduction::Add;
  }

  DType choose(NodeId n) const {
    const PrecisionRule row = precision_rule(graph_.op(n));
    if (row.cls == PrecisionClass::Fixed || load_time_[n.raw] || exact_[n.raw] || adds_in_place(n)) return DType::F32;
    if (match::has_narrow_type(graph_, graph_.operand(n, 0))) return DType::F32;  // a matmul of 8-bit floats
    bool any = false, wide = false;
    std::optional<DType> low;
    for (size_t i = 0; i < graph_.operands(n).size(); ++i) {
      const ValueId v = graph_.operand(n, i);
      if (!v.valid() || !has_slot(n, i) || !candidate(v)) continue;
      any = true;
      if (load_time_[graph_.def(v).raw]) continue;
      if (const auto t = low_type(v)) {
        if (!low) low = t;
      } else {
        wide = true;
      }
    }
    if (!any) return DType::F32;
    if (has_trait(graph_.op(n), kCompare)) return low && !wide && both_low(n) ? *low : DType::F32;
    if (const auto t = policy_.demanded(graph_.op(n), row.cls)) return wide_[n.raw] ? DType::F32 : *t;
    if (wide || wide_[n.raw]) return DType::F32;
    if (low) return *low;
    return policy_.conservative() ? DType::F32 : policy_.low();  // reads weights only: an embedding, a mask
  }

  // Multiply-adds for each element of an operand; 0: many, or not known.
  int64_t uses_of_element(NodeId n, size_t i) const {
    const auto constant = [&](Dim d) { return module_.dims.constant_value(d).value_or(0); };
    if (graph_.op(n) == OpKind::MatMul && i == 1) {
      const auto a = graph_.dims(graph_.operand(n, 0));
      const bool one_matrix = graph_.dims(graph_.operand(n, 1)).size() == 2;
      return a.size() < 2 ? 1 : constant(one_matrix ? module_.dims.product(a.first(a.size() - 1)) : a[a.size() - 2]);
    }
    if (graph_.op(n) != OpKind::Attention || (i != 1 && i != 2)) return 0;
    const auto& a = graph_.attrs<AttentionAttrs>(n);
    const auto q = graph_.dims(graph_.operand(n, 0)), k = graph_.dims(graph_.operand(n, i));
    const bool packed = a.layout == AttentionLayout::Packed;
    const size_t heads = a.layout == AttentionLayout::BHSD ? 1 : 2;
    const int64_t kv_heads = packed ? a.kv_heads() : constant(k[heads]);
    if (kv_heads == 0) return 0;
    return constant(q[heads == 1 ? 2 : 1]) * ((packed ? a.num_heads : constant(q[heads])) / kv_heads);
  }

  bool is_contraction(NodeId n) const { return precision_rule(graph_.op(n)).cls == PrecisionClass::Contraction; }

  // Whether the precision of this operand follows that of the node.
  bool has_slot(NodeId n, size_t i) const { return i >= 32 || (precision_rule(graph_.op(n)).operands >> i & 1); }

  // Returns whether an operand, such as a cache, would be cast in each run for so few multiply-adds that reading it in f32 is
  // faster: a cast moves 8 bytes of an element, f32 moves 4.
  bool costs_more_to_cast(NodeId n) const {
    constexpr int64_t kFewUses = 16, kLarge = 1 << 12;
    for (size_t i = 0; i < graph_.operands(n).size(); ++i) {
      const ValueId v = graph_.operand(n, i);
      if (!v.valid() || !wide_[graph_.def(v).raw] || graph_.dtype(v) != DType::F32) continue;
      const int64_t uses = uses_of_element(n, i);
      const int64_t elements = module_.dims.constant_value(module_.dims.product(graph_.dims(v))).value_or(kLarge);
      if (uses > 0 && uses <= kFewUses && elements >= kLarge) return true;
    }
    return false;
  }

  // Marks nodes that stay in f32: what reads f32 inputs of the graph, contractions of such values that are not worth a cast, and
  // what only they read.
  void mark_wide() {
    std::vector<NodeId> order;
    for (NodeId n : graph_.nodes()) {
      order.push_back(n);
      const OpKind op = graph_.op(n);
      if (op == OpKind::Input) {
        wide_[n.raw] = graph_.type(graph_.result(n)).kind == TypeKind::Tensor && graph_.dtype(graph_.result(n)) == DType::F32;
      } else if (is_contraction(n)) {
        wide_[n.raw] = costs_more_to_cast(n);
      } else if (!has_trait(op, kLeaf) && precision_rule(op).cls != PrecisionClass::Fixed) {
        for (size_t i = 0; i < graph_.operands(n).size() && !wide_[n.raw]; ++i) {
          const ValueId v = graph_.operand(n, i);
          wide_[n.raw] = v.valid() && has_slot(n, i) && wide_[graph_.def(v).raw] && graph_.dtype(v) == DType::F32;
        }
      }
    }
    std::vector<bool> fixed = wide_;  // nodes whose operands are better computed in f32 than cast
    for (NodeId n : order)
      fixed[n.raw] = fixed[n.raw] && (is_contraction(n) || precision_rule(graph_.op(n)).cls == PrecisionClass::Movement);
    std::ranges::reverse(order);
    for (NodeId n : order) {
      if (wide_[n.raw] || has_trait(graph_.op(n), kLeaf) || is_contraction(n)) continue;
      bool read = false, wide = true;
      for (size_t r = 0; r < graph_.result_count(n) && wide; ++r)
        for (const Graph::Use& u : graph_.uses(graph_.result(n, r))) {
          read = true;
          wide = wide && fixed[u.user.raw] && has_slot(u.user, u.index);
        }
      wide_[n.raw] = fixed[n.raw] = read && wide;
    }
  }

  // Returns whether a result or an operand that would be f16 is known to exceed it.
  bool overflows(NodeId n) {
    const auto exceeds = [&](ValueId v, std::string_view what) {
      if (!v.valid() || magnitudes_[v.raw] == 0 || !candidate(v)) return false;
      notes_.push_back({value_label(graph_.result(n)), "f32", "f32",
                        "kept: " + std::string(what) + shortest(static_cast<float>(magnitudes_[v.raw])) + ", beyond f16"});
      return true;
    };
    for (size_t r = 0; r < graph_.result_count(n); ++r)
      if (exceeds(graph_.result(n, r), "values reach ")) return true;
    for (size_t i = 0; i < graph_.operands(n).size(); ++i)
      if (has_slot(n, i) && exceeds(graph_.operand(n, i), "it reads values that reach ")) return true;
    return false;
  }

  // Comparisons need all operands low, because a constant would be rounded.
  bool both_low(NodeId n) const {
    return std::ranges::all_of(graph_.operands(n), [&](ValueId v) { return low_type(v).has_value(); });
  }

  void convert(NodeId user, size_t i, DType t) {
    const ValueId v = graph_.operand(user, i);
    // A Cast accepts any type.
    if (graph_.dtype(v) == t || graph_.op(user) == OpKind::Cast) return;
    const ValueId w = version(user, v, t);
    if (w != v) graph_.set_operand(user, i, w);
  }

  ValueId version(NodeId user, ValueId v, DType t) {
    if (graph_.dtype(v) == t) return v;
    const NodeId d = graph_.def(v);
    if (graph_.op(d) == OpKind::Cast && !changed_[v.raw] && graph_.dtype(graph_.operand(d, 0)) == t) return graph_.operand(d, 0);
    const size_t k = t == DType::F32 ? 0 : t == DType::F16 ? 1 : 2;
    if (versions_[v.raw][k].valid()) return versions_[v.raw][k];
    ValueId w = graph_.op(d) == OpKind::Constant && is_low(t) ? converted(user, v, t) : ValueId();
    if (!w.valid()) w = cast(user, v, t);
    return versions_[v.raw][k] = w;
  }

  // Inserts a Cast at its first user; later users share it. What only leaves the graph is converted at once: as the two types of
  // a value stay until then, a gradient whose outputs are converted last keeps both of all weights' gradients.
  ValueId cast(NodeId user, ValueId v, DType t) {
    Type type = graph_.type(v);
    const DType from = type.dtype;
    type.dtype = t;
    const TypeId id = module_.types.intern(type);
    const NodeId d = graph_.def(v);
    // Casts of weights follow the weight, so that load-time nodes come first.
    const bool weight = load_time_[d.raw];
    const NodeId n = graph_.make_node(OpKind::Cast, {&v, 1}, module_.attrs.intern(CastAttrs{t, true}), {&id, 1}, {},
                                      weight || user == graph_.terminator() ? graph_.next(d) : user);
    grow();
    load_time_[n.raw] = weight;
    Origin o;
    if (graph_.node_name(d).valid()) o.sources.push_back(graph_.node_name(d));
    if (module_.current_pass.valid()) o.passes.push_back(module_.current_pass);
    graph_.set_origin(n, module_.add_origin(std::move(o)));
    ++casts;
    std::string reason = weight ? "weight, cast once at load time" : user == graph_.terminator() ? "output keeps its type" : "";
    if (reason.empty())
      reason = (t == DType::F32 ? "needed in f32 by " : "input of ") + std::string(name(graph_.op(user))) + " " +
               graph_.label(user).line();
    notes_.push_back({value_label(v), std::string(name(from)), std::string(name(t)), std::move(reason)});
    return graph_.result(n);
  }

  std::string value_label(ValueId v) const {
    return graph_.value_name(v).valid() ? std::string(module_.bytes(graph_.value_name(v))) : graph_.label(graph_.def(v)).bytes();
  }

  // Notes a constant that changes its value. Magnitudes from kAsInfinity stand for infinity, as in masks: no warning.
  void lossy(NodeId user, ValueId v, DType t, double value, const std::string& what) {
    const std::string text = "constant " + shortest(static_cast<float>(value)) + " " + what;
    notes_.push_back({value_label(v), "f32", std::string(name(t)), text});
    if (std::fabs(value) < kAsInfinity)
      context_.diagnostics.warning(Code::NumericHazard, text + " in " + std::string(name(t)),
                                   std::string(name(graph_.op(user))) + " " + graph_.label(user).quoted(),
                                   policy_.mixed() ? "keep its op in f32: --precision custom:FILE"
                                                   : "keep its op in f32: --precision custom:FILE, or automixed");
  }

  // The constant in a low type, with finite values clamped. Invalid if it is too large to convert here.
  ValueId converted(NodeId user, ValueId v, DType t) {
    const NodeId d = graph_.def(v);
    const TensorData data = module_.data[graph_.attrs<DataAttrs>(d).data];
    const int64_t count = data.splat ? 1 : data.elements();
    if (count > kMaxConverted) return {};
    const double largest = t == DType::F16 ? kLargestF16 : 3.3895313892515355e38;
    std::vector<std::byte> bytes;
    bytes.reserve(static_cast<size_t>(count) * 2);
    double clamped = 0, vanished = 0;
    for (int64_t i = 0; i < count; ++i) {
      double x = element_as_double(data, i);
      if (std::isfinite(x) && std::fabs(x) > largest) {
        clamped = x;
        x = std::copysign(largest, x);
      }
      const auto element = element_bytes(t, x);
      const bool zero = element[0] == std::byte{0} && (element[1] & std::byte{0x7F}) == std::byte{0};
      if (x != 0 && zero) vanished = x;
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
    TensorData narrow = make_data(t, data.dims, bytes);
    narrow.splat = data.splat;
    Type type = graph_.type(v);
    type.dtype = t;
    const TypeId id = module_.types.intern(type);
    const AttrId attrs = module_.attrs.intern(DataAttrs{module_.data.add(std::move(narrow))});
    const NodeId n = graph_.make_node(OpKind::Constant, {}, attrs, {&id, 1}, {}, user);
    graph_.set_node_name(n, graph_.node_name(d));
    graph_.set_origin(n, graph_.origin(d));
    grow();
    load_time_[n.raw] = true;
    ++constants;
    if (clamped != 0) lossy(user, v, t, clamped, "is beyond the range and was clamped to its end");
    if (vanished != 0) lossy(user, v, t, vanished, "is below the smallest number and became 0");
    return graph_.result(n);
  }

  Graph& graph_;
  Module& module_;
  const Policy& policy_;
  const Overflows& overflows_;
  PassContext& context_;
  std::vector<PrecisionNote>& notes_;
  std::vector<bool> load_time_;                   // by node, see is_load_time
  std::vector<bool> exact_;                       // by node: an index or a decision depends on it
  std::vector<bool> wide_;                        // by node: f32 because of its operands, or because all that read it are
  std::vector<bool> changed_;                     // by value: was f32, is low now
  std::vector<double> magnitudes_;                // by value: known to be reached, beyond f16; else 0
  std::vector<std::array<ValueId, 3>> versions_;  // by value: in f32, f16, bf16
};

}  // namespace

PassResult auto_mixed_precision(Module& m, PassContext& context) {
  int64_t casts = 0, constants = 0, lowered = 0;
  const size_t errors = context.diagnostics.errors();
  const Policy policy(context.options, context.diagnostics);
  const Overflows overflows = overflows_of(m, context.options);
  if (!policy.off() && context.diagnostics.errors() == errors)
    for (GraphId id : graphs_in_use(m)) {
      Rewriter r(m.graph(id), policy, overflows, context);
      r.run();
      casts += r.casts;
      constants += r.constants;
      lowered += r.lowered;
    }
  return {casts + constants + lowered > 0, {{"nodes_lowered", lowered}, {"casts", casts}, {"constants_converted", constants}}};
}

}  // namespace rlxc
