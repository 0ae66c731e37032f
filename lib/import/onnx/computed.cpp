// Evaluates values that depend on constants only: pads, axes, scales and conditions that exporters leave as ops. Uses the
// reference evaluator, and therefore supports all of its ops.
#include "eval/eval.h"
#include "import/onnx/importer.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kMaxElements = 1 << 16;   // of every tensor involved
constexpr uint64_t kMaxSteps = 1ULL << 22;  // element operations of a node

bool is_small(const TensorData& d) { return d.elements() <= kMaxElements; }

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
      if (is_weight(g.op(n))) {
        const DataId data = g.attrs<DataAttrs>(n).data;
        state(x) = data.valid() && is_small(module_.data[data]) ? kConstant : kVariable;
      } else if (g.op(n) == OpKind::Input) {
        state(x) = given_constant(f, n) ? kConstant : kVariable;
      } else if (has_trait(g.op(n), kLeaf | kImpure | kBody | kSequenceOp) || !eval::has_evaluator(g.op(n))) {
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

// Returns the promised contents of a model input if all short vectors are constants; else null.
const TensorData* Importer::given_constant(const Frame& f, NodeId n) {
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
  std::vector<ValueId> stack{v};
  while (!stack.empty()) {
    const ValueId x = stack.back();
    const NodeId n = g.def(x);
    if (f.contents.contains(x.raw)) {
      stack.pop_back();
      continue;
    }
    for (ValueId o : g.operands(n))
      if (o.valid() && !f.contents.contains(o.raw)) stack.push_back(o);
    if (stack.back() != x) continue;
    stack.pop_back();
    if (is_weight(g.op(n))) {
      f.contents.emplace(x.raw, module_.data[g.attrs<DataAttrs>(n).data]);
      continue;
    }
    if (g.op(n) == OpKind::Input) {
      f.contents.emplace(x.raw, *given_constant(f, n));
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
      if (have) values[i].tensor = *have;
    }
    std::string message;
    eval::Options options;
    options.max_steps = kMaxSteps;
    options.steps = &operations_;
    options.max_bytes = kMaxElements * 16;
    if (operations_ > options_.max_operations) {
      too_much("the values that are computed from constants take more than " + std::to_string(options_.max_operations) +
                   " operations on elements",
               "node " + g.label(n).quoted(), "--max-operations N allows more");
      return nullptr;
    }
    known = known && eval::evaluate_node(module_, g, n, operands, &results, &message, options);
    for (size_t r = 0; r < g.result_count(n); ++r)
      f.contents.emplace(g.result(n, r).raw,
                         known && is_small(results[r].tensor) ? std::optional(std::move(results[r].tensor)) : std::nullopt);
  }
  const auto& result = f.contents.at(v.raw);
  return result ? &*result : nullptr;
}

}  // namespace rlxc::onnx_import
