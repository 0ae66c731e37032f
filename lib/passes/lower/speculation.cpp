#include "passes/lower/speculation.h"

#include <algorithm>
#include <set>
#include <string>

namespace rlxc {

bool makes_sizes(const Graph& body) {
  std::set<std::string> given;
  for (NodeId n : body.nodes())
    for (size_t r = 0; r < body.result_count(n); ++r)
      for (Dim d : body.dims(body.result(n, r))) {
        if (d.is_static()) continue;
        for (std::string& s : body.module().dims.symbols_of(d)) {
          if (body.op(n) == OpKind::Input) given.insert(std::move(s));
          else if (!given.contains(s)) return true;
        }
      }
  return false;
}

bool can_speculate(const Graph& body) {
  constexpr OpKind kIndexed[] = {OpKind::Gather, OpKind::GatherElements, OpKind::GatherNd, OpKind::ScatterElements,
                                 OpKind::ScatterNd};
  constexpr OpKind kDivisions[] = {OpKind::Div, OpKind::Mod, OpKind::Fmod};
  for (NodeId n : body.nodes()) {
    const OpKind op = body.op(n);
    if (has_trait(op, kBody)) return false;
    for (size_t r = 0; r < body.result_count(n); ++r)
      if (body.type(body.result(n, r)).kind != TypeKind::Tensor) return false;
    if (std::ranges::find(kIndexed, op) != std::end(kIndexed) && body.op(body.def(body.operand(n, 1))) != OpKind::Constant)
      return false;
    if (std::ranges::find(kDivisions, op) != std::end(kDivisions) && !is_float(body.dtype(body.result(n)))) return false;
  }
  return !makes_sizes(body);
}

}  // namespace rlxc
