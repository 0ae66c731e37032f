#include "memory/states.h"

#include <algorithm>

#include "ir/text.h"
#include "support/text.h"

namespace rlxc {
namespace {

std::optional<uint32_t> find(const std::vector<std::string_view>& names, const std::string& wanted, std::string_view kind,
                             Diagnostics& d) {
  const auto it = std::ranges::find(names, wanted);
  if (it != names.end()) return static_cast<uint32_t>(it - names.begin());
  const auto close = closest(wanted, names);
  d.error(Code::BadFlag, "--state names \"" + wanted + "\", which is no " + std::string(kind) + " of the model", {},
          close ? "did you mean " + std::string(*close) + "?" : "");
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<State>> find_states(const Module& m, std::span<const std::pair<std::string, std::string>> names,
                                              Diagnostics& d) {
  const Graph& g = m.main();
  std::vector<std::string_view> inputs, outputs;
  for (NodeId n : g.inputs()) inputs.push_back(m.bytes(g.value_name(g.result(n))));
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const Symbol own = g.output_name(i);
    outputs.push_back(m.bytes(own.valid() ? own : g.value_name(g.outputs()[i])));
  }
  std::vector<State> states;
  for (const auto& [from, to] : names) {
    const auto input = find(inputs, from, "input", d), output = find(outputs, to, "output", d);
    if (!input || !output) continue;
    const Type &before = g.type(g.result(g.inputs()[*input])), &after = g.type(g.outputs()[*output]);
    const std::string pair = from + "=" + to;
    if (std::ranges::any_of(states, [&](const State& s) { return s.input == *input || s.output == *output; }))
      d.error(Code::BadFlag, "--state " + pair + ": one of them is part of another state");
    else if (before != after || before.kind != TypeKind::Tensor)
      d.error(Code::BadFlag, "--state " + pair + ": the types " + text(before, m.dims) + " and " + text(after, m.dims) +
                                 " must be one type of tensor");
    states.push_back({*input, *output});
  }
  return d.ok() ? std::optional(std::move(states)) : std::nullopt;
}

void split_states(Module& m, std::vector<State>* states) {
  Graph& g = m.main();
  for (State& s : *states) {
    const ValueId in = g.result(g.inputs()[s.input]), out = g.outputs()[s.output];
    const NodeId gather = g.def(out);
    if (g.op(gather) != OpKind::AllGather || g.use_count(in) == 0 || bits(g.dtype(in)) < 8) continue;
    const AttrId attrs = g.attr_id(gather);
    bool sliced = true;
    for (Graph::Use use : g.uses(in)) sliced &= g.op(use.user) == OpKind::DeviceSlice && g.attr_id(use.user) == attrs;
    if (!sliced) continue;
    s.part = g.attrs<CollectiveAttrs>(gather);
    std::vector<NodeId> slices;
    for (Graph::Use use : g.uses(in)) slices.push_back(use.user);
    g.set_type(in, g.type_id(g.operand(gather, 0)));
    for (NodeId n : slices) {
      g.replace_all_uses(g.result(n), in);
      g.erase(n);
    }
    g.set_operand(g.terminator(), s.output, g.operand(gather, 0));
    if (g.use_count(out) == 0) g.erase(gather);
  }
}

}  // namespace rlxc
