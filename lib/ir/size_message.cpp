#include "ir/size_message.h"

#include "ir/infer.h"
#include "support/foreign_text.h"

namespace rlxc {

std::string unequal_sizes(const DimTable& dims, Dim a, Dim b, int64_t x, int64_t y) {
  const std::string s = dims.text(a), t = dims.text(b);
  const auto is_limit = [](const std::string& least, const std::string& symbol, int64_t limit) {
    return least == "min(" + symbol + "," + std::to_string(limit) + ")";
  };
  const auto lacks = [](const std::string& size, const std::string& least) {
    return "the model needs " + size + " >= " + least + ", the inputs give ";
  };
  if (is_limit(s, t, x)) return t + " is " + std::to_string(y) + ", the model has room for " + std::to_string(x) + " at most";
  if (is_limit(t, s, y)) return s + " is " + std::to_string(x) + ", the model has room for " + std::to_string(y) + " at most";
  // What require_at_most records.
  const std::string needed = t == std::to_string(y) ? t : t + " = " + std::to_string(y);
  if (s.starts_with("min(" + t + ",")) return lacks(s.substr(5 + t.size(), s.size() - t.size() - 6), needed) + std::to_string(x);
  if (s.starts_with("min(") && s.ends_with("," + t + ")"))
    return lacks(s.substr(4, s.size() - t.size() - 6), needed) + std::to_string(x);
  if (s.starts_with("mod(" + t + ",") && s.ends_with("+1)"))
    return "the model needs " + s.substr(5 + t.size(), s.size() - t.size() - 8) + " >= " + needed + ", the inputs give less";
  return "the model needs " + s + " = " + t + ", the inputs give " + std::to_string(x) + " and " + std::to_string(y);
}

std::string unmet_equality(const DimTable& dims, const DimBindings& bindings) {
  for (const auto& [a, b] : dims.equalities()) {
    const auto x = dims.evaluate(a, bindings), y = dims.evaluate(b, bindings);
    if (x && y && *x != *y) return unequal_sizes(dims, a, b, *x, *y);
  }
  return {};
}

std::string undetermined_size(const DimTable& dims, std::span<const KnownSize> sizes, const DimBindings& bindings) {
  for (const KnownSize& s : sizes)
    for (const std::string& symbol : dims.symbols_of(s.dim))
      if (!bindings.contains(symbol))
        return "the inputs do not determine the size " + ForeignText(symbol).quoted() + ": " + dims.text(s.dim) + " is " +
               std::to_string(s.size);
  return {};
}

std::string refusing_node(const Module& m, const DimBindings& bindings) {
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    const auto bound = [&](Dim d) { return g.module().dims.bind(d, bindings); };
    for (NodeId n : g.nodes()) {
      const OpKind op = g.op(n);
      if (has_trait(op, kLeaf)) continue;
      std::vector<Type> types;
      for (ValueId v : g.operands(n)) {
        if (v.valid()) types.push_back(g.type(v));
        else types.emplace_back();
        for (Dim& d : types.back().dims) d = bound(d);
      }
      std::vector<const Type*> in;
      for (size_t k = 0; k < types.size(); ++k) in.push_back(g.operands(n)[k].valid() ? &types[k] : nullptr);
      while (!in.empty() && !in.back()) in.pop_back();
      std::string message;
      if (!infer(g.module(), op, with_dims(m.attrs[g.attr_id(n)], bound), in, g.bodies(n).copy(), &message))
        return "node " + g.label(n).quoted() + " (" + std::string(name(op)) + ")";
    }
  }
  return {};
}

}  // namespace rlxc
