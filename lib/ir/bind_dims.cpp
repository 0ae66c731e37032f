#include "ir/bind_dims.h"

#include <functional>
#include <unordered_map>

namespace rlxc {
namespace {

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
      Attrs a = m.attrs[id];
      FieldBinder binder{replace};
      std::visit([&](auto& fields) { fields.reflect(fields, binder); }, a);
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

void bind_dims(Module& m, const DimBindings& bindings) {
  replace_dims(m, [&](Dim d) { return m.dims.bind(d, bindings); });
}

void substitute_dims(Module& m, const SymbolValues& values) {
  replace_dims(m, [&](Dim d) { return substitute(m.dims, d, values); });
}

}  // namespace rlxc
