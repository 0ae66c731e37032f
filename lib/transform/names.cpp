#include "transform/names.h"

#include <algorithm>

#include "support/text.h"

namespace rlxc::transform {

Names::Names(const Module& m) {
  const Graph& g = m.main();
  for (size_t i = 0; i < g.outputs().size(); ++i) values_.try_emplace(std::string(m.bytes(g.output_name(i))), g.outputs()[i]);
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (const ValueId v = g.result(n, r); g.value_name(v).valid())
        values_.try_emplace(std::string(m.bytes(g.value_name(v))), v);
  for (NodeId n : g.nodes())
    if (g.node_name(n).valid() && g.result_count(n) == 1) values_.try_emplace(std::string(m.bytes(g.node_name(n))), g.result(n));
}

ValueId Names::find(const std::string& name, std::string_view flag, Diagnostics& d) const {
  const auto at = values_.find(name);
  if (at != values_.end()) return at->second;
  std::vector<std::string_view> known;
  for (const auto& [each, value] : values_) known.push_back(each);
  std::ranges::sort(known);
  const auto close = closest(name, known);
  d.error(Code::UnknownName, std::string(flag) + " names " + quote(name) + ", which the model does not have", {},
          close ? "did you mean " + quote(*close) + "?" : "`rlxc inspect --stage hir` prints their names");
  return {};
}

std::string fresh_name(const Module& m, const std::string& prefix, const std::string& name) {
  const Graph& g = m.main();
  const auto taken = [&](const std::string& s) {
    for (size_t i = 0; i < g.outputs().size(); ++i)
      if (m.text(g.output_name(i)) == s) return true;
    return std::ranges::any_of(g.inputs(), [&](NodeId n) { return m.text(g.value_name(g.result(n))) == s; });
  };
  std::string out = prefix + ":" + name;
  for (int k = 2; taken(out); ++k) out = prefix + std::to_string(k) + ":" + name;
  return out;
}

std::string name_of(const Graph& g, ValueId v) {
  if (g.value_name(v).valid()) return std::string(g.module().bytes(g.value_name(v)));
  return g.label(g.def(v)).bytes();
}

}  // namespace rlxc::transform
