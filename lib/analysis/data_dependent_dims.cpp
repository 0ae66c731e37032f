#include "analysis/data_dependent_dims.h"

#include <algorithm>
#include <set>

#include "analysis/value_range.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"

namespace rlxc {
namespace {

class DataDependentDimFinder {
 public:
  explicit DataDependentDimFinder(Module& m) : m_(m), dims_(m.dims) {}

  std::vector<DataDependentDim> run(const DimBindings& given) {
    const Graph& main = m_.main();
    for (NodeId n : main.inputs())
      for (Dim d : main.dims(main.result(n)))
        for (std::string& s : dims_.symbols_of(d)) known_.insert(std::move(s));
    graphs_.push_back(main.id());
    for (size_t i = 0; i < graphs_.size(); ++i) {
      const Graph& g = m_.graph(graphs_[i]);
      for (NodeId n : g.nodes()) {
        graphs_.insert(graphs_.end(), g.bodies(n).begin(), g.bodies(n).end());
        define_by_data(g, n);
        if (g.op(n) == OpKind::Loop) define_carried(g, n);
      }
    }
    for (const bool all : {false, true})
      for (GraphId id : graphs_) {
        const Graph& g = m_.graph(id);
        for (NodeId n : g.nodes())
          if (!g.bodies(n).empty()) all ? define_by_control(g, n) : define_trips(g, n);
      }
    replace_equal_symbols();
    if (!extents_.empty()) bound(given);
    return std::move(extents_);
  }

 private:
  struct Carried {
    size_t extent;
    Dim first, last;  // dim of the initial operand, and of the result of one iteration
  };

  // The name of `d` if it is a symbol without a definition.
  std::optional<std::string> undefined(Dim d) const {
    const auto symbol = symbol_name(dims_, d);
    return symbol && !known_.contains(*symbol) ? symbol : std::nullopt;
  }

  bool define(const Graph& g, NodeId n, Dim d) {
    const auto name = undefined(d);
    if (!name) return false;
    known_.insert(*name);
    defined_.insert(*name);
    extents_.push_back({ForeignText(*name), g.id(), n, std::nullopt});
    return true;
  }

  void define_by_data(const Graph& g, NodeId n) {
    struct Row {
      OpKind op;
      size_t result, axis;
    };
    constexpr Row kRows[] = {
        {OpKind::NonZero, 0, 1}, {OpKind::Unique, 1, 0}, {OpKind::NonMaxSuppression, 0, 0}, {OpKind::Iota, 0, 0}};
    for (const Row& row : kRows)
      if (row.op == g.op(n)) define(g, n, g.dims(g.result(n, row.result))[row.axis]);
    if (g.op(n) == OpKind::ReshapeTo)
      for (Dim d : g.dims(g.result(n))) define(g, n, d);
  }

  void define_carried(const Graph& g, NodeId n) {
    const Graph& body = m_.graph(g.bodies(n)[0]);
    for (size_t i = 0; i < static_cast<size_t>(g.attrs<LoopAttrs>(n).carries); ++i) {
      const auto in = body.dims(body.result(body.inputs()[i + 2])), out = body.dims(body.outputs()[i + 1]),
                 first = g.dims(g.operand(n, i + 2));
      for (size_t k = 0; k < in.size() && k < out.size() && k < first.size(); ++k)
        if (in[k] != first[k] && define(g, n, in[k])) {
          carried_[{g.id().raw, n.raw}].push_back({extents_.size() - 1, first[k], out[k]});
          carried_extents_.insert(extents_.size() - 1);
        }
    }
  }

  // The trips of a loop. Further dims of what it stacks are those of its body, where an inner loop may define them.
  void define_trips(const Graph& g, NodeId n) {
    if (g.op(n) != OpKind::Loop) return;
    for (auto r = static_cast<size_t>(g.attrs<LoopAttrs>(n).carries); r < g.result_count(n); ++r)
      if (g.rank(g.result(n, r)) > 0) define(g, n, g.dims(g.result(n, r))[0]);
  }

  void define_by_control(const Graph& g, NodeId n) {
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (g.type(g.result(n, r)).kind == TypeKind::Tensor)
        for (Dim d : g.dims(g.result(n, r))) define(g, n, d);
  }

  void replace_equal_symbols() {
    SymbolValues equal;
    const auto is_known = [&](Dim d) {
      const auto used = dims_.symbols_of(d);
      return std::all_of(used.begin(), used.end(), [&](const std::string& s) { return known_.contains(s); });
    };
    for (bool found = true; found;) {
      found = false;
      for (const auto& [a, b] : dims_.equalities())
        for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}})
          if (const auto name = undefined(from); name && is_known(to)) {
            equal.emplace(*name, substitute(dims_, to, equal));
            known_.insert(*name);
            found = true;
          }
    }
    if (!equal.empty()) substitute_dims(m_, equal);
  }

  std::optional<Dim> resolved(Dim d) {
    for (size_t i = 0; i <= extents_.size(); ++i) {
      const auto high = range_of(dims_, d, ranges_).high;
      if (!high || *high == d) return high;
      d = *high;
    }
    return std::nullopt;
  }

  // A dim that the model requires to be equal to the symbol.
  std::optional<Dim> required_size(const std::string& symbol) {
    const Dim own = dims_.symbol(symbol);
    for (const auto& [a, b] : dims_.equalities())
      if (a == own || b == own) return a == own ? b : a;
    return std::nullopt;
  }

  bool uses(Dim d, const std::vector<Carried>& symbols) const {
    const auto used = dims_.symbols_of(d);
    return std::any_of(symbols.begin(), symbols.end(), [&](const Carried& c) {
      return std::find(used.begin(), used.end(), extents_[c.extent].symbol.bytes()) != used.end();
    });
  }

  void set(size_t extent, std::optional<Dim> high) {
    if (!high) return;
    if (!dims_.at_least(*high, 0)) high = dims_.max(*high, Dim(0));
    extents_[extent].bound = high;
    ranges_[extents_[extent].symbol.bytes()] = {Dim(0), high};
  }

  void bound(const DimBindings& given) {
    const ValueRanges values(m_);
    for (size_t i = 0; i < extents_.size(); ++i) {
      // The result of a branch exists before its dim is checked against a bound, so bounds given by the user don't apply.
      const bool branches = m_.graph(extents_[i].graph).op(extents_[i].node) == OpKind::If;
      const auto it = branches ? given.end() : given.find(extents_[i].symbol.bytes());
      const auto derived = it != given.end()              ? std::optional(Dim(it->second))
                           : carried_extents_.contains(i) ? std::nullopt
                                                          : bound_of(extents_[i], values);
      set(i, derived ? derived : required_size(extents_[i].symbol.bytes()));
    }
    for (size_t g = graphs_.size(); g-- > 0;)
      for (NodeId n : m_.graph(graphs_[g]).nodes())
        if (const auto it = carried_.find({graphs_[g].raw, n.raw}); it != carried_.end()) {
          const auto trips = values(m_.graph(graphs_[g]), m_.graph(graphs_[g]).operand(n, 0)).high;
          for (const Carried& c : it->second)
            if (!extents_[c.extent].bound) set(c.extent, carried_bound(c, it->second, trips));
        }
    for (DataDependentDim& e : extents_) {
      if (e.bound) e.bound = resolved(*e.bound);
      const auto used = e.bound ? dims_.symbols_of(*e.bound) : std::vector<std::string>();
      if (std::any_of(used.begin(), used.end(), [&](const std::string& s) { return defined_.contains(s); })) e.bound.reset();
    }
  }

  // An upper bound from the node that defines the dim. It may contain other symbols.
  std::optional<Dim> bound_of(const DataDependentDim& e, const ValueRanges& values) {
    const Graph& g = m_.graph(e.graph);
    const NodeId n = e.node;
    switch (g.op(n)) {
      case OpKind::NonZero: return dims_.product(g.dims(g.operand(n, 0)));
      case OpKind::ReshapeTo:
        if (g.rank(g.result(n)) > 1) return std::nullopt;  // the product of the bounds of all dims would be far too large
        return dims_.product(g.dims(g.operand(n, 0)));
      case OpKind::Unique: return g.dims(g.result(n, 2))[0];
      case OpKind::NonMaxSuppression: {
        const auto scores = g.dims(g.operand(n, 1));
        const DimRange most = g.operand(n, 2).valid() ? values(g, g.operand(n, 2)) : exactly(Dim(0));
        const DimRange kept = minimum(dims_, most, exactly(scores[2]));
        return dims_.product(std::vector<Dim>{scores[0], scores[1], dims_.max(*kept.high, Dim(0))});
      }
      case OpKind::Iota:
      case OpKind::Loop: return values(g, g.operand(n, 0)).high;
      case OpKind::If: return of_branches(e);
      default: return std::nullopt;
    }
  }

  std::optional<Dim> of_branches(const DataDependentDim& e) {
    const Graph& g = m_.graph(e.graph);
    const Graph &a = m_.graph(g.bodies(e.node)[0]), &b = m_.graph(g.bodies(e.node)[1]);
    for (size_t r = 0; r < g.result_count(e.node); ++r) {
      const auto d = g.dims(g.result(e.node, r));
      for (size_t k = 0; k < d.size(); ++k)
        if (d[k] == dims_.symbol(e.symbol.bytes())) return dims_.max(a.dims(a.outputs()[r])[k], b.dims(b.outputs()[r])[k]);
    }
    return std::nullopt;
  }

  // Bounded if each iteration adds an amount independent of the carried dims, or if the result has a bound independent of them.
  std::optional<Dim> carried_bound(const Carried& c, const std::vector<Carried>& all, std::optional<Dim> trips) {
    const auto out = resolved(c.last);
    if (!out) return std::nullopt;
    const Dim growth = dims_.sub(*out, dims_.symbol(extents_[c.extent].symbol.bytes()));
    if (!uses(growth, all)) {
      if (dims_.at_least(dims_.sub(Dim(0), growth), 0)) return c.first;
      if (!trips) return std::nullopt;
      return dims_.add(c.first, dims_.mul(dims_.max(*trips, Dim(0)), growth));
    }
    SymbolRanges open;
    for (const Carried& other : all) open[extents_[other.extent].symbol.bytes()] = {Dim(0), std::nullopt};
    const auto high = range_of(dims_, *out, open).high;
    return high ? std::optional(dims_.max(c.first, *high)) : std::nullopt;
  }

  Module& m_;
  DimTable& dims_;
  std::vector<GraphId> graphs_;    // parents before their bodies
  std::set<std::string> known_;    // symbols of inputs, and symbols with a definition
  std::set<std::string> defined_;  // symbols defined by a node
  std::vector<DataDependentDim> extents_;
  std::set<size_t> carried_extents_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Carried>> carried_;  // keyed by graph and node
  SymbolRanges ranges_;
};

}  // namespace

std::vector<DataDependentDim> find_data_dependent_dims(Module& m, const DimBindings& given) {
  return DataDependentDimFinder(m).run(given);
}

SymbolRanges data_dependent_ranges(const std::vector<DataDependentDim>& extents) {
  SymbolRanges ranges;
  for (const DataDependentDim& e : extents)
    if (e.bound) ranges[e.symbol.bytes()] = {Dim(0), e.bound};
  return ranges;
}

Dim dense_bytes(DimTable& dims, const Type& t) {
  const int width = bits(t.dtype);
  if (t.kind != TypeKind::Tensor || width == 0) return Dim(0);
  const Dim n = dims.product(t.dims);
  return width % 8 == 0 ? dims.mul(n, Dim(width / 8)) : dims.ceil_div(dims.mul(n, Dim(width)), Dim(8));
}

Dim largest(DimTable& dims, Dim d, const SymbolRanges& ranges) { return range_of(dims, d, ranges).high.value_or(d); }

}  // namespace rlxc
