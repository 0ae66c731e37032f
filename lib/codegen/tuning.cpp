#include "codegen/tuning.h"

namespace rlxc::codegen {

std::string tuning_key(const Graph& g, NodeId n) {
  const DimTable& dims = g.module().dims;
  std::string key(kind_name(g.op(n)));
  key += '(';
  for (size_t i = 0; i < g.operands(n).size(); ++i) {
    const ValueId v = g.operand(n, i);
    key += (i ? ", " : "") + (v.valid() ? text(g.type(v), dims) : "none");
  }
  key += ") -> ";
  for (size_t i = 0; i < g.result_count(n); ++i) key += (i ? ", " : "") + text(g.type(g.result(n, i)), dims);
  return key;
}

}  // namespace rlxc::codegen
