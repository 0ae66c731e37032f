#include "passes/quantize/tensor_names.h"

#include <unordered_map>

#include "ir/graphs.h"

namespace rlxc {
namespace {

// The label of a node without a name: its number, which depends on the passes that ran.
bool is_number(const Graph& g, NodeId n, const std::string& label) { return label == "%" + std::to_string(g.result(n).raw); }

}  // namespace

std::string layer_name(const Graph& g, NodeId n, const std::string& result) {
  std::string label = g.label(n).bytes();
  return is_number(g, n, label) ? result : label;
}

void each_tensor(const Module& m, const std::function<void(GraphId, ValueId, const std::string&)>& f) {
  std::unordered_map<std::string, int64_t> taken;
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const ValueId v = g.result(n, r);
        const Symbol own = g.value_name(v);
        std::string name = own.valid() ? std::string(m.bytes(own)) : g.label(n).bytes();
        if (is_number(g, n, name)) name = rlxc::name(g.op(n));
        if (const int64_t count = ++taken[name]; count > 1) name += "~" + std::to_string(count);
        f(id, v, name);
      }
  }
}

}  // namespace rlxc
