// Rewrites small patterns into cheaper equal ones to a fixed point: neutral elements, repeated ops, chains of views, constant
// conditions. The rules are tables (rules_*.cpp). `fast` rules change rounding or the treatment of NaN and infinity, and require
// options.fast_math. The others preserve all values except the sign of zero. Worklist algorithm: O(nodes + rewrites).
#include <algorithm>
#include <array>

#include "ir/graphs.h"
#include "passes/passes.h"
#include "passes/simplify/rules.h"

namespace rlxc {
namespace simplify {
namespace {

// Rule numbers by trigger.
const std::array<std::vector<uint16_t>, kOpCount>& rules_of_op() {
  static const auto table = [] {
    std::array<std::vector<uint16_t>, kOpCount> t;
    const auto& rules = Simplifier::rules();
    for (size_t i = 0; i < rules.size(); ++i) t[static_cast<size_t>(rules[i].trigger)].push_back(static_cast<uint16_t>(i));
    return t;
  }();
  return table;
}

}  // namespace

bool same_dims(DimTable& t, std::span<const Dim> a, std::span<const Dim> b) {
  return std::ranges::equal(a, b, [&](Dim x, Dim y) { return x == y || t.equal(x, y); });
}

std::optional<std::vector<Dim>> broadcast_exact(std::span<const std::span<const Dim>> shapes) {
  std::vector<Dim> out;
  for (const auto& s : shapes) {
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), Dim(1));
    for (size_t k = 1; k <= s.size(); ++k) {
      Dim& d = out[out.size() - k];
      const Dim e = s[s.size() - k];
      if (d == Dim(1)) d = e;
      else if (e != Dim(1) && e != d) return std::nullopt;
    }
  }
  return out;
}

Simplifier::Simplifier(Graph& g, const PassContext& context) : graph_(g), context_(context), builder_(g) {}

const std::vector<Rule>& Simplifier::rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> r(arithmetic_rules().begin(), arithmetic_rules().end());
    r.insert(r.end(), movement_rules().begin(), movement_rules().end());
    r.insert(r.end(), scatter_rules().begin(), scatter_rules().end());
    r.insert(r.end(), rounding_rules().begin(), rounding_rules().end());
    return r;
  }();
  return all;
}

void Simplifier::run(std::vector<int64_t>* hits) {
  for (NodeId n : graph_.nodes()) push(n);
  // Every rule shrinks the graph or simplifies a node; the budget only guards against rules that undo each other.
  int64_t budget = 20 * static_cast<int64_t>(queue_.size()) + 1000;
  for (size_t head = 0; head < queue_.size() && budget > 0; ++head) {
    const NodeId n = queue_[head];
    queued_[n.raw] = false;
    if (!graph_.alive(n)) continue;
    for (uint16_t r : rules_of_op()[static_cast<size_t>(graph_.op(n))]) {
      if ((rules()[r].fast && !fast_math()) || !context_.rewrite([&] { return apply(n, rules()[r]); })) continue;
      ++(*hits)[r];
      --budget;
      if (graph_.alive(n)) push(n);
      break;
    }
  }
}

bool Simplifier::apply(NodeId n, const Rule& rule) {
  const size_t before = graph_.node_capacity();
  const bool done = rule.apply(*this, n);
  for (size_t i = graph_.node_capacity(); i-- > before;) {
    const NodeId made(i);
    if (!graph_.alive(made)) continue;
    if (graph_.use_count(graph_.result(made)) == 0) graph_.erase(made);
    else push(made);
  }
  return done;
}

NodeId Simplifier::def(ValueId v, OpKind op) const {
  if (!v.valid()) return {};
  const NodeId n = graph_.def(v);
  return graph_.op(n) == op ? n : NodeId();
}

std::optional<double> Simplifier::uniform(ValueId v) {
  const NodeId n = def(v, OpKind::Constant);
  if (!n.valid()) return std::nullopt;
  const DataId id = graph_.attrs<DataAttrs>(n).data;
  const TensorData& d = graph_.module().data[id];
  if (is_complex(d.dtype) || d.dtype == DType::String) return std::nullopt;
  if (id.raw >= uniform_.size()) uniform_.resize(graph_.module().data.size());
  Known& known = uniform_[id.raw];
  if (!known.seen) {
    known.seen = true;
    if (d.elements() > 0 && (d.elements() == 1 || is_uniform(d))) known.value = element_as_double(d, 0);
  }
  return known.value;
}

ValueId Simplifier::filled(NodeId before, ValueId v, double value) {
  const Type& t = graph_.type(v);
  const std::vector<std::byte> element = element_bytes(t.dtype, value);
  if (element.empty()) return {};
  if (!t.is_static()) {
    const std::vector<Dim> sizes = t.dims;
    return at(before).expand(at(before).constant(make_data(t.dtype, {}, element)), sizes);
  }
  std::vector<int64_t> sizes;
  for (Dim d : t.dims) sizes.push_back(d.size());
  return at(before).constant(make_splat(t.dtype, sizes, element));
}

bool Simplifier::replace(NodeId n, ValueId v) {
  if (!v.valid()) return false;
  const ValueId old = graph_.result(n);
  if (v == old) return false;
  if (graph_.type_id(v) != graph_.type_id(old)) {
    const Type &a = graph_.type(v), &b = graph_.type(old);
    if (a.kind != b.kind || a.dtype != b.dtype || a.ranked != b.ranked || !same_dims(dims(), a.dims, b.dims)) return false;
  }
  push_users(old);
  graph_.replace_all_uses(old, v);
  erase_if_dead(n);
  return true;
}

bool Simplifier::set_operand(NodeId n, size_t i, ValueId v) {
  const NodeId old = graph_.def(graph_.operand(n, i));
  graph_.set_operand(n, i, v);
  erase_if_dead(old);
  push_users(graph_.result(n));
  return true;
}

void Simplifier::push(NodeId n) {
  if (n == graph_.terminator()) return;
  if (n.raw >= queued_.size()) queued_.resize(std::max(graph_.node_capacity(), 2 * queued_.size()));
  if (queued_[n.raw]) return;
  queued_[n.raw] = true;
  queue_.push_back(n);
}

void Simplifier::push_users(ValueId v) {
  for (Graph::Use use : graph_.uses(v)) push(use.user);
}

// Erases n if it has no users, then nodes used by n alone. Queues remaining users, since rules that need a single use may apply
// now.
void Simplifier::erase_if_dead(NodeId first) {
  stack_.push_back(first);
  while (!stack_.empty()) {
    const NodeId n = stack_.back();
    stack_.pop_back();
    if (!graph_.alive(n) || graph_.op(n) == OpKind::Input || graph_.op(n) == OpKind::Param) continue;
    bool used = false;
    for (size_t r = 0; r < graph_.result_count(n); ++r) {
      used |= graph_.use_count(graph_.result(n, r)) > 0;
      if (const NodeId user = graph_.only_user(graph_.result(n, r)); user.valid()) push(user);
    }
    if (used) continue;
    for (ValueId v : graph_.operands(n))
      if (v.valid()) stack_.push_back(graph_.def(v));
    graph_.erase(n);
  }
}

}  // namespace simplify

PassResult algebraic_simplify(Module& m, PassContext& context) {
  const auto& rules = simplify::Simplifier::rules();
  std::vector<int64_t> hits(rules.size());
  for (GraphId id : graphs_in_use(m)) simplify::Simplifier(m.graph(id), context).run(&hits);
  PassResult result;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!hits[i]) continue;
    result.changed = true;
    const auto known = std::ranges::find(result.counts, rules[i].name, &std::pair<std::string_view, int64_t>::first);
    if (known != result.counts.end()) known->second += hits[i];
    else result.counts.emplace_back(rules[i].name, hits[i]);
  }
  return result;
}

}  // namespace rlxc
