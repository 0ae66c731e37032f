#include "eval/weight_value.h"

namespace rlxc::eval {

std::optional<TensorData> weight_value(const Module& m, const Graph& g, ValueId v, const Options& options) {
  const NodeId n = g.def(v);
  if (is_weight(g.op(n))) {
    const DataId data = g.attrs<DataAttrs>(n).data;
    return data.valid() ? std::optional(m.data[data]) : std::nullopt;
  }
  if (has_trait(g.op(n), kLeaf | kImpure | kBody | kSequenceOp) || g.operands(n).empty() || !has_evaluator(g.op(n)))
    return std::nullopt;
  std::vector<HostValue> values(g.operands(n).size()), results;
  std::vector<const HostValue*> operands;
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueId o = g.operand(n, i);
    operands.push_back(o.valid() ? &values[i] : nullptr);
    if (!o.valid()) continue;
    auto data = weight_value(m, g, o, options);
    if (!data) return std::nullopt;
    values[i].tensor = std::move(*data);
  }
  std::string message;
  if (!evaluate_node(m, g, n, operands, &results, &message, options)) return std::nullopt;
  for (size_t r = 0; r < results.size(); ++r)
    if (g.result(n, r) == v) return std::move(results[r].tensor);
  return std::nullopt;
}

}  // namespace rlxc::eval
