#include "passes/simplify/param_names.h"

#include <unordered_map>

#include "support/text.h"

namespace rlxc {

std::vector<NodeId> find_params(const Graph& g, const std::vector<std::string>& names, Diagnostics& d) {
  std::vector<NodeId> found;
  if (names.empty()) return found;
  std::unordered_map<std::string_view, NodeId> params;
  std::vector<std::string_view> known;
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::Param) continue;
    known.push_back(g.module().bytes(g.value_name(g.result(n))));
    params.emplace(known.back(), n);
  }
  for (const std::string& name : names) {
    const auto it = params.find(name);
    if (it != params.end()) {
      found.push_back(it->second);
      continue;
    }
    const auto near = closest(name, known);
    d.error(Code::UnknownName, "there is no parameter \"" + name + "\"", {},
            near ? "did you mean " + std::string(*near) + "?" : "");
  }
  return found;
}

}  // namespace rlxc
