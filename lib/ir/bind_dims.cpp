#include "ir/bind_dims.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/dim_postfix.h"
#include "support/checked.h"

namespace rlxc {
namespace {

// The value of `symbol` at which the expression equals the known size, or nullopt if the expression is not linear in it.
std::optional<int64_t> solution(const DimTable& dims, const KnownSize& known, const std::string& symbol, DimBindings bindings) {
  const auto at = [&](int64_t v) {
    bindings[symbol] = v;
    return dims.evaluate(known.dim, bindings);
  };
  const auto zero = at(0), one = at(1);
  if (!zero || !one) return std::nullopt;
  const auto step = checked_sub(*one, *zero), rest = checked_sub(known.size, *zero);
  if (!step || !rest || *step == 0 || *rest == INT64_MIN || *rest % *step != 0) return std::nullopt;
  const int64_t value = *rest / *step;
  return value >= 0 && at(value) == known.size ? std::optional(value) : std::nullopt;
}

// Whether the expression is linear in its only symbol: mod(n, 2) == 1 and min(n, 5) == 5 have more than one solution.
bool is_linear(DimTable& dims, Dim d, const std::string& symbol) {
  const auto zero = dims.evaluate(d, {{symbol, 0}}), one = dims.evaluate(d, {{symbol, 1}});
  const auto step = zero && one ? checked_sub(*one, *zero) : std::nullopt;
  return step && d == dims.add(dims.mul(dims.constant(*step), dims.symbol(symbol)), dims.constant(*zero));
}

using Replace = std::function<Dim(Dim)>;

struct FieldBinder {
  const Replace& replace;
  bool changed = false;

  void bind(Dim& d) {
    const Dim bound = d.is_static() ? d : replace(d);
    changed |= bound != d;
    d = bound;
  }
  template <class T>
  void operator()(const char*, T&) {}
  void operator()(const char*, Dim& d) { bind(d); }
  void operator()(const char*, std::vector<Dim>& list) {
    for (Dim& d : list) bind(d);
  }
};

struct DimsOfFields {
  const std::function<void(Dim)>& read;

  template <class T>
  void operator()(const char*, const T&) {}
  void operator()(const char*, const Dim& d) { read(d); }
  void operator()(const char*, const std::vector<Dim>& list) {
    for (Dim d : list) read(d);
  }
};

Attrs bound(Attrs a, FieldBinder& binder) {
  std::visit([&](auto& fields) { fields.reflect(fields, binder); }, a);
  return a;
}

void replace_dims(Module& m, const Replace& replace) {
  std::unordered_map<uint32_t, TypeId> types;
  std::unordered_map<uint32_t, AttrId> attrs;
  const auto type = [&](TypeId id) {
    const auto [it, fresh] = types.try_emplace(id.raw, id);
    if (fresh && !m.types[id].is_static()) {
      Type t = m.types[id];
      FieldBinder{replace}("dims", t.dims);
      it->second = m.types.intern(t);
    }
    return it->second;
  };
  const auto attr = [&](AttrId id) {
    const auto [it, fresh] = attrs.try_emplace(id.raw, id);
    if (fresh) {
      FieldBinder binder{replace};
      Attrs a = bound(m.attrs[id], binder);
      if (binder.changed) it->second = m.attrs.intern(std::move(a));
    }
    return it->second;
  };
  for (size_t i = 0; i < m.graph_count(); ++i) {
    Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes()) {
      g.set_attrs(n, attr(g.attr_id(n)));
      for (size_t r = 0; r < g.result_count(n); ++r) g.set_type(g.result(n, r), type(g.type_id(g.result(n, r))));
    }
  }
}

}  // namespace

Attrs with_dims(Attrs a, const Replace& replace) {
  FieldBinder binder{replace};
  return bound(std::move(a), binder);
}

void each_dim(const Attrs& a, const std::function<void(Dim)>& read) {
  std::visit([&](const auto& fields) { std::decay_t<decltype(fields)>::reflect(fields, DimsOfFields{read}); }, a);
}

std::vector<Dim> dims_of(const Module& m) {
  std::set<int64_t> seen;
  std::vector<Dim> out;
  const auto add = [&](Dim d) {
    if (!d.is_static() && seen.insert(d.raw()).second) out.push_back(d);
  };
  for (const auto& [a, b] : m.dims.equalities()) add(a), add(b);
  std::set<uint32_t> types, attrs;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes()) {
      if (const AttrId a = g.attr_id(n); attrs.insert(a.raw).second) each_dim(m.attrs[a], add);
      for (size_t r = 0; r < g.result_count(n); ++r)
        if (const TypeId t = g.type_id(g.result(n, r)); types.insert(t.raw).second)
          for (Dim d : m.types[t].dims) add(d);
    }
  }
  return out;
}

void bind_dims(Module& m, const DimBindings& bindings) {
  replace_dims(m, [&](Dim d) { return m.dims.bind(d, bindings); });
}

void substitute_dims(Module& m, const SymbolValues& values) {
  replace_dims(m, [&](Dim d) { return substitute(m.dims, d, values); });
}

void add_sizes(const Type& t, std::span<const int64_t> actual, std::vector<KnownSize>* sizes) {
  for (size_t k = 0; k < std::min(t.dims.size(), actual.size()); ++k) sizes->push_back({t.dims[k], actual[k]});
}

void solve_dims(const DimTable& dims, std::span<const KnownSize> sizes, DimBindings* bindings) {
  for (const KnownSize& s : sizes)
    if (const auto symbol = symbol_name(dims, s.dim)) bindings->try_emplace(*symbol, s.size);
  for (bool found = true; found;) {
    found = false;
    for (const KnownSize& s : sizes) {
      std::vector<std::string> open = dims.symbols_of(s.dim);
      std::erase_if(open, [&](const std::string& symbol) { return bindings->contains(symbol); });
      if (open.size() != 1) continue;
      const auto value = solution(dims, s, open[0], *bindings);
      if (value) found = bindings->emplace(open[0], *value).second;
    }
  }
}

DimBindings determined_sizes(Module& m) {
  std::set<std::string> of_inputs;
  for (NodeId n : m.main().inputs())
    for (Dim d : m.main().type(m.main().result(n)).dims)
      if (const auto symbol = symbol_name(m.dims, d)) of_inputs.insert(*symbol);
  DimBindings bindings;
  for (const auto& [a, b] : m.dims.equalities())
    for (const auto& [open, known] : {std::pair(a, b), std::pair(b, a)}) {
      const auto size = m.dims.evaluate(known, bindings);
      const Dim rest = m.dims.bind(open, bindings);
      const auto symbols = m.dims.symbols_of(rest);
      if (!size || symbols.size() != 1 || !of_inputs.contains(symbols[0]) || !is_linear(m.dims, rest, symbols[0])) continue;
      if (const auto value = solution(m.dims, {rest, *size}, symbols[0], {})) bindings.try_emplace(symbols[0], *value);
    }
  return bindings;
}

}  // namespace rlxc
