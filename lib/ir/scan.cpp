#include "ir/scan.h"

#include <array>

namespace rlxc::transform {

std::vector<Term> scan(Builder& b, std::span<const Term> states, std::span<const Term> sliced, std::span<const Term> captured,
                       int64_t axis, bool reverse, const ScanStep& step) {
  Module& m = b.module();
  Graph& body = m.graph(m.make_graph("step" + std::to_string(m.graph_count())));
  Builder in(body);
  std::vector<ValueId> operands, results;
  const auto inputs = [&](std::span<const Term> all, bool slices) {
    std::vector<Term> made;
    for (const Term& t : all) {
      Type type = b.graph().type(t.v);
      if (slices) type.dims.erase(type.dims.begin() + axis);
      operands.push_back(t.v);
      made.push_back({&in, in.input("v" + std::to_string(operands.size()), std::move(type))});
    }
    return made;
  };
  for (std::span<const Term> all : {states, sliced, captured})
    for (const Term& t : all)
      if (!t.valid()) return {};
  const std::vector<Term> s = inputs(states, false), x = inputs(sliced, true), c = inputs(captured, false);
  for (const Term& t : step(s, x, c)) {
    if (!t.valid()) return {};
    results.push_back(t.v);
  }
  if (results.size() < states.size()) return {};
  body.set_outputs(results);
  const size_t stacks = results.size() - states.size();
  ScanAttrs a;
  a.states = static_cast<int64_t>(states.size()), a.scan_inputs = static_cast<int64_t>(sliced.size());
  a.input_axes.assign(sliced.size(), axis), a.input_reverse.assign(sliced.size(), reverse);
  a.output_axes.assign(stacks, axis), a.output_reverse.assign(stacks, reverse);
  const NodeId n = b.create_node(OpKind::Scan, operands, a, std::array{body.id()});
  std::vector<Term> out;
  for (size_t r = 0; n.valid() && r < b.graph().result_count(n); ++r) out.push_back({&b, b.graph().result(n, r)});
  return out;
}

}  // namespace rlxc::transform
