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

bool verify_states(const Graph& g, const GraphPlan& plan, std::span<const State> states, Diagnostics& d) {
  struct Content {
    ValueId value;
    int64_t written, read;  // steps: made, and read for the last time, by views too
  };
  const auto content = [&](ValueId v) {
    while (plan.slot[v.raw].view) v = g.operand(g.def(v), 0);
    return v;
  };
  std::vector<int64_t> last(g.value_capacity(), -1);
  for (NodeId n : plan.schedule) {
    if (g.result_count(n) > 0 && plan.slot[g.result(n).raw].view) continue;
    for (ValueId v : g.operands(n))
      if (v.valid()) last[content(v).raw] = std::max<int64_t>(last[content(v).raw], plan.step[n.raw]);
  }
  const auto overlap = [&](ValueId a, ValueId b) {
    const Slot &x = plan.slot[a.raw], &y = plan.slot[b.raw];
    if (!x.offset.is_static() || !y.offset.is_static() || !x.size.is_static() || !y.size.is_static()) return true;
    return x.offset.size() < y.offset.size() + y.size.size() && y.offset.size() < x.offset.size() + x.size.size();
  };
  for (const State& s : states) {
    std::vector<Content> in_buffer;
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const ValueId v = g.result(n, r);
        const Slot& slot = plan.slot[v.raw];
        if (slot.view || slot.region != Region::State || slot.index != s.output) continue;
        in_buffer.push_back({v, g.op(n) == OpKind::Input ? -1 : int64_t{plan.step[n.raw]}, last[v.raw]});
      }
    std::ranges::stable_sort(in_buffer, {}, &Content::written);
    for (size_t i = 0; i < in_buffer.size(); ++i)
      for (size_t k = i + 1; k < in_buffer.size(); ++k) {
        const Content &before = in_buffer[i], &after = in_buffer[k];
        const bool may_overwrite = plan.slot[after.value.raw].in_place || plan.slot[before.value.raw].part;
        if (!overlap(before.value, after.value) || before.read < after.written + (may_overwrite ? 1 : 0)) continue;
        d.error(Code::PlanInvalid, "a state is read after it was overwritten by " + g.label(g.def(after.value)).quoted(),
                "output " + ForeignText(g.module().text(g.output_name(s.output))).quoted());
      }
  }
  return d.ok();
}

}  // namespace rlxc
