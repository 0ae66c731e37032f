// Evaluates values that depend on constants only: pads, axes, scales and conditions that exporters leave as ops. Uses the
// reference evaluator, and therefore supports all of its ops.
#include <algorithm>

#include "eval/eval.h"
#include "import/onnx/importer.h"
#include "ir/dim_postfix.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kMaxElements = 1 << 20;   // of every tensor involved
constexpr uint64_t kMaxSteps = 1ULL << 22;  // element operations of a node

bool is_small(const TensorData& d) { return d.elements() <= kMaxElements; }

bool is_small(const eval::HostValue& v) {
  return is_small(v.tensor) && std::ranges::all_of(v.items, [](const auto& i) { return is_small(i); });
}

bool can_evaluate(const Module& m, const Graph& g, NodeId n) {
  if (is_weight(g.op(n))) {
    const DataId data = g.attrs<DataAttrs>(n).data;
    return data.valid() && is_small(m.data[data]);
  }
  return !has_trait(g.op(n), kLeaf | kImpure) && eval::has_evaluator(g.op(n));
}

bool bodies_can_be_evaluated(const Module& m, const Graph& g, NodeId n) {
  std::vector<GraphId> bodies(g.bodies(n).begin(), g.bodies(n).end());
  while (!bodies.empty()) {
    const Graph& body = m.graph(bodies.back());
    bodies.pop_back();
    for (NodeId inner : body.nodes()) {
      if (body.op(inner) != OpKind::Input && !can_evaluate(m, body, inner)) return false;
      bodies.insert(bodies.end(), body.bodies(inner).begin(), body.bodies(inner).end());
    }
  }
  return true;
}

}  // namespace

// Returns whether the value depends on constants only. Caches the answer for every value of a frame.
bool Importer::is_constant(Frame& f, ValueId v) {
  enum : uint8_t { kUnknown, kOpen, kConstant, kVariable };
  const Graph& g = *f.graph;
  std::vector<uint8_t>& states = f.constness;
  const auto state = [&](ValueId x) -> uint8_t& {
    if (states.size() <= x.raw) states.resize(std::max<size_t>(x.raw + 1, states.size() * 2));
    return states[x.raw];
  };
  std::vector<ValueId> stack{v};
  while (!stack.empty()) {
    const ValueId x = stack.back();
    const NodeId n = g.def(x);
    if (state(x) == kUnknown) {
      state(x) = kOpen;
      if (g.op(n) == OpKind::Input) {
        state(x) = given_constant(f, n) ? kConstant : kVariable;
      } else if (!can_evaluate(module_, g, n) || !bodies_can_be_evaluated(module_, g, n)) {
        state(x) = kVariable;
      } else {
        for (ValueId o : g.operands(n))
          if (o.valid() && state(o) == kUnknown) stack.push_back(o);
      }
    }
    if (stack.back() != x) continue;
    if (state(x) == kOpen) {
      state(x) = kConstant;
      for (ValueId o : g.operands(n))
        if (o.valid() && state(o) != kConstant) state(x) = kVariable;
    }
    stack.pop_back();
  }
  return state(v) == kConstant;
}

// Returns the promised contents of a model input if all short vectors are constants, or the contents of a captured constant; else
// null.
const TensorData* Importer::given_constant(const Frame& f, NodeId n) {
  const auto capture = std::ranges::find(f.captures, f.graph->result(n), &Frame::Capture::inner);
  if (capture != f.captures.end()) {
    const TensorData* outer = tensor(capture->outer);
    return outer && is_small(*outer) ? outer : nullptr;
  }
  const auto it = &f == frames_[0].get() ? input_values_.find(n.raw) : input_values_.end();
  if (it == input_values_.end() || (!options_.constant_contents && !stated_value(it->second)) ||
      !can_be_known(type(it->second).dtype) || type(it->second).rank() > 1)
    return nullptr;
  return given(it->second);
}

// Returns null if the value depends on more than constants, or is too large or too expensive.
const TensorData* Importer::computed(Frame& f, ValueId v) {
  if (!is_constant(f, v)) return nullptr;
  const Graph& g = *f.graph;
  std::vector<NodeId> needed, stack{g.def(v)};
  std::unordered_set<uint32_t> seen;
  while (!stack.empty()) {
    const NodeId n = stack.back();
    stack.pop_back();
    if (f.contents.contains(g.result(n).raw) || !seen.insert(n.raw).second) continue;
    needed.push_back(n);
    for (ValueId o : g.operands(n))
      if (o.valid()) stack.push_back(g.def(o));
  }
  std::ranges::sort(needed, {}, &NodeId::raw);  // as they were created: a data-dependent dim has its size before it is used
  eval::Options options;
  options.max_steps = kMaxSteps;
  options.steps = &operations_;
  options.max_bytes = kMaxElements * 64;
  options.bindings = sizes_of_computed_;
  for (NodeId n : needed) {
    const ValueId x = g.result(n);
    if (is_weight(g.op(n)) || g.op(n) == OpKind::Input) {
      eval::HostValue v;
      v.tensor = is_weight(g.op(n)) ? module_.data[g.attrs<DataAttrs>(n).data] : *given_constant(f, n);
      f.contents.emplace(x.raw, std::move(v));
      continue;
    }
    std::vector<eval::HostValue> values(g.operands(n).size()), results;
    std::vector<const eval::HostValue*> operands;
    bool known = true;
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId o = g.operand(n, i);
      operands.push_back(o.valid() ? &values[i] : nullptr);
      if (!o.valid()) continue;
      const auto& have = f.contents.at(o.raw);
      known &= have.has_value();
      if (have) values[i] = *have;
    }
    if (operations_ > options_.max_operations) {
      too_much("the values that are computed from constants take more than " + std::to_string(options_.max_operations) +
                   " operations on elements",
               "node " + g.label(n).quoted(), "--max-operations N allows more");
      return nullptr;
    }
    std::string message;
    known = known && eval::evaluate_node(module_, g, n, operands, &results, &message, options);
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const Type& t = g.type(g.result(n, r));
      for (size_t k = 0; known && t.kind == TypeKind::Tensor && k < t.dims.size(); ++k)
        if (const auto symbol = symbol_name(module_.dims, t.dims[k]))
          options.bindings.emplace(*symbol, results[r].tensor.dims[k]);
      f.contents.emplace(g.result(n, r).raw, known && is_small(results[r]) ? std::optional(std::move(results[r])) : std::nullopt);
    }
  }
  sizes_of_computed_ = std::move(options.bindings);
  const auto& result = f.contents.at(v.raw);
  return result && result->kind == TypeKind::Tensor ? &result->tensor : nullptr;
}

}  // namespace rlxc::onnx_import
