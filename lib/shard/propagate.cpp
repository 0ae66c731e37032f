#include "shard/propagate.h"

#include <algorithm>
#include <map>

namespace rlxc::shard {
Shardings::Shardings(const Graph& g, Mesh mesh)
    : g_(g),
      mesh_(std::move(mesh)),
      of_(g.value_capacity()),
      fixed_(g.value_capacity()),
      rules_(g.node_capacity()),
      has_rule_(g.node_capacity()),
      queued_(g.node_capacity()),
      conflicting_(g.node_capacity()) {
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) of_[g.result(n, r).raw] = whole(g.rank(g.result(n, r)));
}

const Rule& Shardings::rule(NodeId n) const {
  if (!has_rule_[n.raw]) rules_[n.raw] = rule_of(g_, n);
  has_rule_[n.raw] = true;
  return rules_[n.raw];
}

std::string Shardings::describe(ValueId v) const {
  const Symbol name = g_.value_name(v);
  return (name.valid() ? g_.module().text(name).quoted() : "the result of " + g_.label(g_.def(v)).quoted()) + " " +
         rlxc::text(g_.type(v), g_.module().dims);
}

// Padding makes up for what a dim of one block lacks, if it has two rows at least.
DimSharding Shardings::asked(const Request::Part& part, Dim size) const {
  const bool pads = part.blocks == 1 && size.is_static() && size.size() > 1 && size.size() % part.rows == 0;
  return {part.axes, part.blocks, pads ? part.rows * padding_of(size.size() / part.rows, mesh_.group_size(part.axes)) : 0};
}

bool Shardings::apply(const Request& r, Diagnostics& d) {
  std::vector<std::string> names;
  std::vector<ValueId> values;
  for (NodeId n : g_.nodes())
    for (size_t i = 0; i < g_.result_count(n); ++i)
      if (const ValueId v = g_.result(n, i); g_.value_name(v).valid()) {
        values.push_back(v);
        names.emplace_back(g_.module().bytes(g_.value_name(v)));
      }
  const std::vector<bool> chosen = matches(r.pattern, names);
  if (std::ranges::find(chosen, true) == chosen.end()) {
    d.error(Code::BadSharding, "no value of the model has the name " + ForeignText(r.pattern).quoted(),
            "--shard " + ForeignText(r.text).quoted(), "`rlxc inspect MODEL --stage mir` shows the names");
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < values.size(); ++i)
    if (chosen[i]) ok &= decide(values[i], r, d);
  return ok;
}

void Shardings::apply_hints(std::span<const Request> requests, Diagnostics& d) {
  std::map<std::string_view, const Request*> by_name;
  for (const Request& r : requests)
    if (r.hint) by_name.emplace(r.pattern, &r);
  if (by_name.empty()) return;
  std::vector<ValueId> named;
  for (NodeId n : g_.nodes())
    for (size_t i = 0; i < g_.result_count(n); ++i) {
      const Symbol name = g_.value_name(g_.result(n, i));
      const auto r = name.valid() ? by_name.find(g_.module().bytes(name)) : by_name.end();
      if (r == by_name.end()) continue;
      decide(g_.result(n, i), *r->second, d);
      named.push_back(g_.result(n, i));
    }
  // Values without a name follow weights, where activations would split them otherwise.
  for (const bool weights : {true, false}) {
    for (ValueId v : named)
      if (is_weight(g_.op(g_.def(v))) == weights) push_neighbours(v);
    propagate(d);
  }
}

bool Shardings::decide(ValueId v, const Request& r, Diagnostics& d) {
  if (fixed_[v.raw]) return true;
  fixed_[v.raw] = true;
  bool ok = true;
  for (const Request::Part& part : r.parts) {
    const int64_t dim = part.dim < 0 ? part.dim + g_.rank(v) : part.dim;
    const auto at = static_cast<size_t>(dim);
    Sharding s = whole(g_.rank(v));
    const bool exists = dim >= 0 && dim < g_.rank(v);
    if (exists) s[at] = asked(part, g_.dims(v)[at]);
    if (exists && local_type(g_.type(v), s, mesh_)) {
      of_[v.raw][at] = s[at];
      continue;
    }
    const std::string why = describe(v) + (exists ? " does not divide into " + std::to_string(mesh_.group_size(part.axes)) +
                                                        " parts along dim " + std::to_string(dim)
                                                  : " has no dim " + std::to_string(part.dim));
    const std::string help = exists ? "symbolic dims need --bind NAME=SIZE" : "";
    if (r.hint) d.warning(Code::ShardingConflict, why, "the device configuration of the model", help);
    else d.error(Code::BadSharding, why, "--shard " + ForeignText(r.text).quoted(), help);
    ok = false;
  }
  if (!r.hint) push_neighbours(v);
  return ok;
}

bool Shardings::split(ValueId v, size_t dim, const DimSharding& s) {
  Sharding& all = of_[v.raw];
  if (all[dim] == s) return true;
  if (fixed_[v.raw] || all[dim].split()) return false;
  for (size_t a : s.axes)
    if (uses_axis(all, a)) return false;
  Sharding wanted = all;
  wanted[dim] = s;
  if (!local_type(g_.type(v), wanted, mesh_)) return false;
  all = std::move(wanted);
  push_neighbours(v);
  return true;
}

void Shardings::push(NodeId n) {
  if (n == g_.terminator() || queued_[n.raw]) return;
  queued_[n.raw] = true;
  work_.push_back(n);
}

void Shardings::push_neighbours(ValueId v) {
  push(g_.def(v));
  for (Graph::Use use : g_.uses(v)) push(use.user);
}

void Shardings::propagate(Diagnostics& d) {
  for (size_t head = 0; head < work_.size(); ++head) {
    const NodeId n = work_[head];
    queued_[n.raw] = false;
    visit(n, d);
  }
  work_.clear();
}

void Shardings::visit(NodeId n, Diagnostics& d) {
  const Rule& rule = this->rule(n);
  if (rule.factors.empty()) return;
  struct Chosen {
    DimSharding sharding;
    ValueId by;
  };
  std::vector<Chosen> chosen(rule.factors.size());
  const auto each_dim = [&](auto f) {
    for (size_t i = 0; i < rule.operands.size(); ++i)
      for (size_t k = 0; k < rule.operands[i].size(); ++k) f(g_.operand(n, i), k, rule.operands[i][k]);
    for (size_t r = 0; r < rule.results.size(); ++r)
      for (size_t k = 0; k < rule.results[r].size(); ++k) f(g_.result(n, r), k, rule.results[r][k]);
  };
  each_dim([&](ValueId v, size_t dim, const std::vector<DimFactor>& factors) {
    DimSharding of_factor;
    const DimFactor* f = split_factor(rule, factors, g_.dims(v)[dim], of_[v.raw][dim], &of_factor);
    if (!f || !rule.factors[f->factor].divides(mesh_.group_size(of_factor.axes), of_factor)) return;
    Chosen& c = chosen[f->factor];
    if (!c.sharding.split()) c = {of_factor, v};
    else if (!(c.sharding == of_factor)) report_conflict(n, c.by, v, d);
  });
  // Sums come first: their result can be scattered as it is wanted.
  for (const bool sums : {true, false})
    each_dim([&](ValueId v, size_t dim, const std::vector<DimFactor>& factors) {
      for (const DimFactor& f : factors)
        if (const Chosen& c = chosen[f.factor];
            c.sharding.split() && v != c.by && sums == (rule.factors[f.factor].kind != Factor::Kind::Map))
          split(v, dim, split_dim(rule, f, g_.dims(v)[dim], c.sharding));
    });
}

void Shardings::report_conflict(NodeId n, ValueId a, ValueId b, Diagnostics& d) {
  if (conflicting_[n.raw]) return;
  conflicting_[n.raw] = true;
  d.warning(Code::ShardingConflict,
            describe(a) + " is split as " + text(of_[a.raw], mesh_) + ", " + describe(b) + " as " + text(of_[b.raw], mesh_),
            "node " + g_.label(n).quoted() + " (" + std::string(name(g_.op(n))) + ")",
            "--shard NAME=... of one of them decides otherwise");
}

}  // namespace rlxc::shard
