// Makes the rewrites of --rules, in the order of the file, until none applies. A rule that would change the type of a value, or
// that applies without end, is an error. O(nodes * rules of their kind), with a bound on the work per attempt.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graphs.h"
#include "passes/passes.h"
#include "passes/simplify/rule_set.h"

namespace rlxc {
namespace {

constexpr int kMostMatchSteps = 10'000;  // of one attempt: patterns with commutative nodes are tried both ways round
constexpr int kMostRounds = 100;         // and rewrites of each node of the model, on average

const TensorData* known_data(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  if (!is_weight(g.op(n))) return nullptr;
  const DataId id = g.attrs<DataAttrs>(n).data;
  if (!id.valid()) return nullptr;
  const TensorData& d = g.module().data[id];
  return d.bytes.empty() || is_complex(d.dtype) || d.dtype == DType::String ? nullptr : &d;
}

bool within(const TensorData& d, std::optional<double> low, std::optional<double> high) {
  constexpr int64_t kMostRead = 1 << 20;
  const int64_t count = d.splat ? 1 : d.elements();
  if (count > kMostRead) return false;
  for (int64_t i = 0; i < count; ++i) {
    const double x = element_as_double(d, i);
    if ((low && !(x >= *low)) || (high && !(x <= *high))) return false;
  }
  return true;
}

class RuleMatch {
 public:
  RuleMatch(const Graph& g, const RewriteRule& r) : g_(g), m_(g.module()), rule_(r) {}

  // Finds the pattern above the node.
  bool find(NodeId root) {
    for (size_t r = 0; r < rule_.pattern.back().out.size(); ++r)
      if (rule_.pattern.back().out[r] == rule_.result && r < g_.result_count(root)) result_ = g_.result(root, r);
    if (!result_.valid() || !node(rule_.pattern.size() - 1, root)) return false;
    return has_no_other_readers() && conditions();
  }
  ValueId result() const { return result_; }
  FragmentValues& given() { return state_.given; }

 private:
  struct State {
    FragmentValues given;
    std::unordered_map<size_t, NodeId> nodes;  // of the pattern
  };

  bool node(size_t index, NodeId n) {
    if (++steps_ > kMostMatchSteps) return false;
    const FragmentNode& p = rule_.pattern[index];
    if (const auto at = state_.nodes.find(index); at != state_.nodes.end()) return at->second == n;
    if (g_.op(n) != p.op || g_.operands(n).size() != p.in.size() || g_.result_count(n) < p.out.size()) return false;
    const State before = state_;
    state_.nodes[index] = n;
    for (size_t r = 0; r < p.out.size(); ++r) state_.given.values[p.out[r]] = g_.result(n, r);
    if (attributes(p, n)) {
      const State here = state_;
      if (operands(p, n, false)) return true;
      state_ = here;
      if (p.in.size() == 2 && has_trait(p.op, kCommutative) && operands(p, n, true)) return true;
    }
    state_ = before;
    return false;
  }

  bool operands(const FragmentNode& p, NodeId n, bool turned) {
    for (size_t i = 0; i < p.in.size(); ++i) {
      const ValueId v = g_.operand(n, turned ? p.in.size() - 1 - i : i);
      if (!v.valid() || !operand(p.in[i], v)) return false;
    }
    return true;
  }

  bool operand(const FragmentOperand& o, ValueId v) {
    if (o.name.empty()) {
      const TensorData* d = o.number ? known_data(g_, v) : nullptr;
      if (!d) return false;
      const double number = element_as_double(make_data(d->dtype, {}, element_bytes(d->dtype, *o.number)), 0);
      return within(*d, number, number);
    }
    for (size_t k = 0; k < rule_.pattern.size(); ++k)
      for (size_t r = 0; r < rule_.pattern[k].out.size(); ++r)
        if (rule_.pattern[k].out[r] == o.name) return g_.result_index(v) == r && node(k, g_.def(v));
    const auto [at, is_new] = state_.given.values.try_emplace(o.name, v);
    return at->second == v;
  }

  bool attributes(const FragmentNode& p, NodeId n) {
    const Attrs& own = m_.attrs[g_.attr_id(n)];
    const AttrFields fields = attr_fields(own, m_.dims, true, p.op);
    for (const auto& [key, wanted] : p.attrs) {
      const auto at = std::ranges::find(fields, key, &AttrFields::value_type::first);
      if (at == fields.end()) return false;
      if (const auto parameter = parameter_name(wanted)) {
        const auto [bound, is_new] = state_.given.parameters.try_emplace(*parameter, at->second);
        if (bound->second != at->second) return false;
        continue;
      }
      Attrs as_wanted = own;  // compares numbers and sizes as the attribute holds them
      std::string ignored;
      const auto* integer = std::get_if<int64_t>(&wanted);
      const bool is_set =
          set_attr_field(as_wanted, key, wanted, m_.dims, &ignored) ||
          (integer && set_attr_field(as_wanted, key, AttrValue(static_cast<double>(*integer)), m_.dims, &ignored));
      if (!is_set || m_.attrs.intern(as_wanted) != g_.attr_id(n)) return false;
    }
    return true;
  }

  bool has_no_other_readers() const {
    std::unordered_set<uint32_t> matched;
    for (const auto& [index, n] : state_.nodes) matched.insert(n.raw);
    for (const auto& [index, n] : state_.nodes)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        if (g_.result(n, r) == result_) continue;
        for (const auto use : g_.uses(g_.result(n, r)))
          if (!matched.contains(use.user.raw)) return false;
      }
    return true;
  }

  bool conditions() {
    BoundShapes shapes;
    for (const ValueCondition& c : rule_.values) {
      const ValueId v = state_.given.values.at(c.value);
      const Type& t = g_.type(v);
      if (t.kind != TypeKind::Tensor) return false;
      if (!c.dtypes.empty() && std::ranges::find(c.dtypes, t.dtype) == c.dtypes.end()) return false;
      if (c.shape && !bind_shape(m_.dims, *c.shape, t.dims, &shapes)) return false;
      const bool reads = c.constant || c.low || c.high;
      const TensorData* d = reads ? known_data(g_, v) : nullptr;
      if (reads && (!d || !within(*d, c.low, c.high))) return false;
    }
    state_.given.sizes = shapes.sizes;
    for (const SizeCondition& c : rule_.sizes) {
      const auto size = shape_of(m_.dims, {false, {c.size}}, shapes);
      const auto known = size ? m_.dims.constant_value((*size)[0]) : std::nullopt;
      if (!known || (c.multiple_of && *known % *c.multiple_of != 0) || (c.low && *known < *c.low) || (c.high && *known > *c.high))
        return false;
    }
    return true;
  }

  const Graph& g_;
  Module& m_;
  const RewriteRule& rule_;
  ValueId result_;
  State state_;
  int steps_ = 0;
};

class UserRules {
 public:
  UserRules(Module& m, PassContext& context) : m_(m), context_(context), rules_(context.options.user_rules->rules) {
    for (size_t i = 0; i < rules_.size(); ++i) by_kind_[rules_[i].pattern.back().op].push_back(i);
    counts_.resize(rules_.size());
  }

  PassResult run() {
    for (GraphId id : graphs_in_use(m_)) left_ += kMostRounds * m_.graph(id).live_nodes();
    bool more = true;
    for (int round = 0; more && context_.diagnostics.ok(); ++round) {
      more = false;
      for (GraphId id : graphs_in_use(m_)) more |= pass_over(m_.graph(id), round);
    }
    PassResult result;
    for (size_t i = 0; i < rules_.size(); ++i)
      if (counts_[i]) result.counts.emplace_back(rules_[i].name, counts_[i]);
    result.changed = !result.counts.empty();
    return result;
  }

 private:
  // Each node that is there once; new ones come in the next round.
  bool pass_over(Graph& g, int round) {
    std::vector<NodeId> nodes;
    for (NodeId n : g.nodes()) nodes.push_back(n);
    bool any = false;
    for (NodeId n : nodes) {
      if (!g.alive(n) || !context_.diagnostics.ok()) continue;
      const auto rules = by_kind_.find(g.op(n));
      if (rules == by_kind_.end()) continue;
      for (size_t i : rules->second) {
        if (!context_.rewrite([&] { return apply(g, n, rules_[i]); })) continue;
        ++counts_[i];
        any = true;
        // Rules that give more than they take grow a graph without bounds long before the last round.
        if (left_-- == 0 || round == kMostRounds)
          context_.diagnostics.error(Code::BadGraph,
                                     "the rules of --rules come to no end: \"" + rules_[i].name + "\" applies again", {},
                                     "a rule should make its pattern rarer");
        break;
      }
    }
    return any;
  }

  bool apply(Graph& g, NodeId n, const RewriteRule& rule) {
    RuleMatch match(g, rule);
    if (!match.find(n)) return false;
    const size_t before = g.node_capacity();
    Builder b(g, nullptr, n);
    std::string why;
    if (!build_fragment(b, rule.replacement, &match.given(), &why)) {
      erase_made(g, before);
      return fail(g, n, rule, why);
    }
    const ValueId old = match.result(), made = match.given().values.at(rule.with);
    if (made == old) return false;
    if (g.type_id(made) != g.type_id(old)) {
      why = "gives " + text(g.type(made), m_.dims) + " in place of " + text(g.type(old), m_.dims);
      erase_made(g, before);
      return fail(g, n, rule, why);
    }
    g.replace_all_uses(old, made);
    std::vector<NodeId> dead{n};
    while (!dead.empty()) {  // what only the pattern used
      const NodeId d = dead.back();
      dead.pop_back();
      if (!g.alive(d) || has_trait(g.op(d), kImpure) || g.op(d) == OpKind::Input) continue;
      bool used = false;
      for (size_t r = 0; r < g.result_count(d); ++r) used |= g.use_count(g.result(d, r)) > 0;
      if (used) continue;
      std::vector<NodeId> operands;
      for (ValueId v : g.operands(d))
        if (v.valid()) operands.push_back(g.def(v));
      g.erase(d);
      dead.insert(dead.end(), operands.begin(), operands.end());
    }
    return true;
  }

  static void erase_made(Graph& g, size_t before) {
    for (size_t k = g.node_capacity(); k-- > before;)
      if (g.alive(NodeId(k))) g.erase(NodeId(k));
  }

  bool fail(const Graph& g, NodeId n, const RewriteRule& rule, const std::string& why) {
    context_.diagnostics.error(Code::BadGraph,
                               "rule \"" + rule.name + "\" at " + g.label(n).quoted() + ": the replacement " + why, {},
                               "a condition on types or shapes keeps the rule from such nodes");
    return false;
  }

  Module& m_;
  PassContext& context_;
  const std::vector<RewriteRule>& rules_;
  std::unordered_map<OpKind, std::vector<size_t>> by_kind_;  // of the last node of the pattern
  std::vector<int64_t> counts_;
  uint64_t left_ = 0;  // rewrites
};

bool defines(const std::vector<FragmentNode>& nodes, const std::string& name) {
  return std::ranges::any_of(nodes, [&](const FragmentNode& n) { return std::ranges::find(n.out, name) != n.out.end(); });
}
bool reads(const std::vector<FragmentNode>& nodes, const std::string& name) {
  return std::ranges::any_of(
      nodes, [&](const FragmentNode& n) { return std::ranges::find(n.in, name, &FragmentOperand::name) != n.in.end(); });
}

}  // namespace

std::string fault_of(const RewriteRule& r) {
  if (r.pattern.empty()) return "the pattern has no nodes";
  const std::vector<std::string>& last = r.pattern.back().out;
  if (std::ranges::find(last, r.result) == last.end()) return "\"result\" is no result of the last node of the pattern";
  for (size_t k = 0; k < r.pattern.size(); ++k) {
    const FragmentNode& n = r.pattern[k];
    const std::vector<FragmentNode> before(r.pattern.begin(), r.pattern.begin() + static_cast<std::ptrdiff_t>(k)),
        after(r.pattern.begin() + static_cast<std::ptrdiff_t>(k) + 1, r.pattern.end());
    if (n.out.empty()) return "a node of the pattern has no result";
    for (const std::string& out : n.out)
      if (defines(before, out) || reads(before, out))
        return "the pattern names \"" + out + "\" twice, or reads it before it is there";
    if (!after.empty() && std::ranges::none_of(n.out, [&](const std::string& out) { return reads(after, out); }))
      return "\"" + n.out[0] + "\" does not lead to the result";
    for (const FragmentOperand& o : n.in)
      if (!o.parameter.empty()) return "numbers of a pattern are given, not \"$" + o.parameter + "\"";
  }
  const auto bound = [&](const std::string& name) { return defines(r.pattern, name) || reads(r.pattern, name); };
  for (const ValueCondition& c : r.values)
    if (!bound(c.value)) return "there is a condition on \"" + c.value + "\", which the pattern does not have";
  for (const FragmentNode& n : r.replacement)
    for (const std::string& out : n.out)
      if (bound(out)) return "the replacement names \"" + out + "\", which is a name of the pattern";
  const bool from_outside = reads(r.pattern, r.with) && !defines(r.pattern, r.with);
  return defines(r.replacement, r.with) || from_outside ? "" : "\"with\" names no value of the replacement and no operand";
}

PassResult user_rules(Module& m, PassContext& context) {
  if (!context.options.user_rules) return {};
  return UserRules(m, context).run();
}

}  // namespace rlxc
