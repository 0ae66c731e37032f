#include "commands/missing_weights.h"

#include "eval/random_weights.h"

namespace rlxc {

void fill_missing_weights(Module& m, const DimBindings& sizes, uint64_t seed, Diagnostics& d) {
  const eval::NamedValues weights = eval::random_weights(m, sizes, seed, {.int_high = 1});
  size_t filled = 0;
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Param || g.attrs<DataAttrs>(n).data.valid()) continue;
      const auto it = weights.find(m.bytes(g.value_name(g.result(n))));
      if (it == weights.end() || it->second.kind != TypeKind::Tensor) continue;
      g.set_attrs(n, m.attrs.intern(DataAttrs{m.data.add(it->second.tensor)}));
      ++filled;
    }
  if (filled > 0)
    d.warning(Code::MissingWeights,
              std::to_string(filled) + (filled == 1 ? " parameter has" : " parameters have") +
                  " no values in the model: random ones take their place",
              {}, "--seed N gives others");
}

}  // namespace rlxc
