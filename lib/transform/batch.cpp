#include "transform/batch.h"

#include <algorithm>
#include <array>

#include "transform/batch_rules.h"
#include "transform/copy.h"
#include "transform/expansion.h"

namespace rlxc::transform {

BatchRule find_batch_rule(OpKind op) {
  static const auto table = [] {
    std::vector<BatchRule> rules(kOpCount);
    for (std::span<const BatchEntry> entries : {movement_batches(), linear_batches(), control_batches()})
      for (const BatchEntry& e : entries) rules[static_cast<size_t>(e.op)] = e.rule;
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

bool has_own_sizes(OpKind op) {
  return op == OpKind::NonZero || op == OpKind::Unique || op == OpKind::NonMaxSuppression || op == OpKind::Iota ||
         op == OpKind::ImageDecode || has_trait(op, kSequenceOp);
}

bool Batch::batched_from(size_t first) const {
  for (size_t i = first; i < operands_.size(); ++i)
    if (batched(i)) return true;
  return false;
}

std::vector<Dim> Batch::dims(size_t i) const {
  const ValueId v = graph.operand(node, i);
  return {graph.dims(v).begin(), graph.dims(v).end()};
}
std::vector<Dim> Batch::result_dims(size_t r) const {
  const ValueId v = graph.result(node, r);
  return {graph.dims(v).begin(), graph.dims(v).end()};
}

Term Batch::lifted(size_t i) const { return batched(i) || !has(i) ? in(i) : transform::expand(in(i), with_axis(in(i).dims())); }

Term Batch::aligned(size_t i, int sample_rank) const {
  if (!batched(i) || rank(i) >= sample_rank) return in(i);
  std::vector<Dim> d{size};
  d.resize(1 + static_cast<size_t>(sample_rank - rank(i)), Dim(1));
  const std::vector<Dim> own = in(i).dims();
  d.insert(d.end(), own.begin() + 1, own.end());
  return reshape(in(i), d);
}

namespace {

// Samples one after another: the operation in a loop over them.
bool batch_by_scan(Batch& t) {
  if (!t.graph.bodies(t.node).empty() || has_own_sizes(t.op())) return false;
  Module& m = t.b.module();
  Graph& body = m.graph(m.make_graph(std::string(name(t.op())) + "_sample" + std::to_string(m.graph_count())));
  Builder in(body);
  std::vector<ValueId> operands, inner(t.count());
  for (const bool sliced : {true, false})
    for (size_t i = 0; i < t.count(); ++i) {
      if (!t.has(i) || t.batched(i) != sliced) continue;
      operands.push_back(t.in(i).v);
      inner[i] = in.input("v" + std::to_string(i), t.graph.type(t.graph.operand(t.node, i)));
    }
  const NodeId again = repeated(in, t.graph, t.node, inner);
  if (!again.valid()) return false;
  ScanAttrs s;
  for (size_t r = 0; r < body.result_count(again); ++r) {
    body.add_output(body.result(again, r), m.symbol("y" + std::to_string(r)));
    s.output_axes.push_back(0);
    s.output_reverse.push_back(0);
  }
  for (size_t i = 0; i < t.count(); ++i)
    if (t.batched(i)) {
      s.input_axes.push_back(0);
      s.input_reverse.push_back(0);
    }
  s.scan_inputs = static_cast<int64_t>(s.input_axes.size());
  const NodeId n = t.b.create_node(OpKind::Scan, operands, s, std::array{body.id()});
  for (size_t r = 0; n.valid() && r < t.results.size(); ++r) t.give({&t.b, t.b.graph().result(n, r)}, r);
  return n.valid();
}

// A graph that computes one sample, node by node, into one that computes all.
class Batcher {
 public:
  Batcher(Builder& b, const Graph& from, Dim size, Expand expand, Diagnostics& d)
      : b_(b), from_(from), same_(&b.graph() == &from), size_(size), expand_(expand), d_(d) {}

  // Of a value of `from`. Values of the same graph that are not known are themselves.
  Batched of(ValueId v) const {
    if (!v.valid()) return {};
    if (v.raw < known_.size() && known_[v.raw].v.valid()) return known_[v.raw];
    return {same_ ? v : ValueId(), false};
  }
  void set(ValueId v, Batched is) {
    if (v.raw >= known_.size()) known_.resize(std::max<size_t>(from_.value_capacity(), v.raw + 1));
    known_[v.raw] = is;
  }

  bool node(NodeId n) {
    std::vector<Batched> operands;
    bool any = false;
    for (ValueId v : from_.operands(n)) {
      operands.push_back(of(v));
      any |= operands.back().has_axis;
    }
    if (!any) {
      if (same_) return true;
      std::vector<ValueId> plain;
      for (const Batched& o : operands) plain.push_back(o.v);
      const NodeId copy = repeated(b_, from_, n, plain);
      for (size_t r = 0; copy.valid() && r < from_.result_count(n); ++r)
        set(from_.result(n, r), {b_.graph().result(copy, r), false});
      return copy.valid();
    }
    Batch t(b_, from_, n, operands, size_, expand_, d_);
    const OpKind op = from_.op(n);
    const BatchRule rule =
        has_trait(op, kElementwise) && op != OpKind::ElementwiseRegion ? elementwise_batch : find_batch_rule(op);
    const bool made = (rule && attempt(t, rule)) || by_expansion(t) || attempt(t, batch_by_scan);
    if (!made) {
      if (t.why.empty())
        t.why = has_own_sizes(op) ? "samples would have different sizes" : "there is no rule for its attributes or sizes";
      d_.error(Code::UnsupportedOp, from_.label(n).quoted() + " (" + std::string(name(op)) + ") cannot be batched: " + t.why);
      for (size_t r = 0; r < t.results.size(); ++r) {  // so that those after it that lack a rule are named as well
        const Type& type = from_.type(from_.result(n, r));
        if (type.kind != TypeKind::Tensor || type.dtype == DType::String) return false;
        t.give(zeros(b_, type.dtype, t.with_axis(type.dims)), r);
      }
    }
    for (size_t r = 0; r < t.results.size(); ++r) {
      set(from_.result(n, r), t.results[r]);
      if (const Symbol s = from_.value_name(from_.result(n, r)); same_ && s.valid()) b_.graph().set_value_name(t.results[r].v, s);
    }
    return true;
  }

 private:
  static bool attempt(Batch& t, BatchRule rule) {
    if (!rule(t)) return false;
    for (size_t r = 0; r < t.results.size(); ++r) {
      const Batched& made = t.results[r];
      const ValueId one = t.graph.result(t.node, r);
      if (!made.v.valid() || t.b.graph().rank(made.v) != t.graph.rank(one) + made.has_axis) return false;
    }
    return true;
  }

  // What the node consists of, written for one sample in a graph of its own.
  bool by_expansion(Batch& t) {
    if (!expand_ || !from_.bodies(t.node).empty()) return false;
    Module& m = b_.module();
    Graph& alone = m.graph(m.make_graph(std::string(name(t.op())) + "_alone" + std::to_string(m.graph_count())));
    Builder in(alone);
    std::vector<ValueId> inner;
    std::vector<Batched> inputs;
    for (size_t i = 0; i < t.count(); ++i) {
      if (t.has(i)) inputs.push_back(t.operands()[i]);
      inner.push_back(t.has(i) ? in.input("v" + std::to_string(i), from_.type(from_.operand(t.node, i))) : ValueId());
    }
    const std::vector<ValueId> out = expanded(in, from_, t.node, inner, expand_);
    if (out.empty()) return false;
    alone.set_outputs(out);
    Diagnostics errors;
    const auto made = batched_body(b_, alone.id(), inputs, size_, expand_, errors);
    alone.clear();
    if (made.empty()) {
      t.why = errors.items().empty() ? "" : errors.items()[0].message;
      return false;
    }
    t.results = made;
    return true;
  }

  Builder& b_;
  const Graph& from_;
  bool same_;
  Dim size_;
  Expand expand_;
  Diagnostics& d_;
  std::vector<Batched> known_;
};

}  // namespace

std::vector<Batched> batched_body(Builder& b, GraphId body, std::span<const Batched> inputs, Dim size, Expand expand,
                                  Diagnostics& d) {
  const Graph& g = b.module().graph(body);
  const size_t errors = d.errors();
  Batcher batcher(b, g, size, expand, d);
  for (size_t i = 0; i < inputs.size(); ++i) batcher.set(g.result(g.inputs()[i]), inputs[i]);
  for (NodeId n : g.nodes())
    if (g.op(n) != OpKind::Input && !batcher.node(n)) return {};
  std::vector<Batched> out;
  for (ValueId v : g.outputs()) out.push_back(batcher.of(v));
  return d.errors() == errors ? out : std::vector<Batched>();
}

bool batch_main(Module& m, std::span<const BatchAxis> axes, Dim size, Expand expand, Diagnostics& d) {
  Graph& g = m.main();
  Builder b(g, &d);
  std::vector<NodeId> nodes, old;
  for (NodeId n : g.nodes()) nodes.push_back(n);
  for (NodeId n : g.inputs()) old.push_back(n);
  Batcher batcher(b, g, size, expand, d);
  const NodeId first = g.first();
  for (size_t i = 0; i < old.size(); ++i) {
    const ValueId v = g.result(old[i]);
    Type type = g.type(v);
    if (axes[i]) type.dims.insert(type.dims.begin() + *axes[i], size);
    const ValueId made = b.input(std::string(m.bytes(g.value_name(v))), std::move(type));
    g.move_before(g.def(made), first);
    if (!axes[i]) {
      g.replace_all_uses(v, made);
      continue;
    }
    std::vector<int64_t> order{*axes[i]};
    for (int64_t k = 0; k <= g.rank(v); ++k)
      if (k != *axes[i]) order.push_back(k);
    batcher.set(v, {b.transpose(made, order), true});
  }
  for (NodeId n : nodes)
    if (g.op(n) != OpKind::Input) {
      b.set_node_name(g.node_name(n));
      if (!batcher.node(n)) return false;
    }
  b.set_node_name({});
  std::vector<ValueId> outputs;
  for (ValueId v : g.outputs()) {
    const Batched is = batcher.of(v);
    if (g.type(v).kind != TypeKind::Tensor) {
      d.error(Code::UnsupportedOp, "an output of type " + text(g.type(v), m.dims) + " cannot be batched");
      return false;
    }
    std::vector<Dim> dims(g.dims(is.v).begin(), g.dims(is.v).end());
    dims.insert(dims.begin(), size);
    outputs.push_back(is.has_axis ? is.v : b.expand(is.v, dims));
  }
  if (!d.ok()) return false;
  g.set_outputs(outputs);
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    bool used = g.op(*n) == OpKind::Param;
    for (size_t r = 0; r < g.result_count(*n); ++r) used |= g.use_count(g.result(*n, r)) > 0;
    if (used) continue;
    if (g.op(*n) == OpKind::Input) g.remove_input(*n);
    g.erase(*n);
  }
  return true;
}

}  // namespace rlxc::transform
