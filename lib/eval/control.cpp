// Control flow: runs bodies on their operands. Dims come from the values, so trip counts and dims that differ between iterations
// need no symbol.
#include <algorithm>

#include "eval/join.h"

namespace rlxc::eval {
namespace {

HostValue i64_value(int64_t v, const Type& like) {
  return {TypeKind::Tensor, make_data(DType::I64, std::vector<int64_t>(like.dims.size(), 1), std::vector<int64_t>{v}), {}};
}

HostValue bool_value(bool v, const Type& like) {
  return {TypeKind::Tensor, make_data(DType::Bool, std::vector<int64_t>(like.dims.size(), 1), std::vector<uint8_t>{v}), {}};
}

HostValue operand(const Context& c, size_t i) { return c.has(i) ? *c.in[i] : HostValue(); }

bool one_element(Context& c, const HostValue& v, std::string_view what) {
  if (v.kind == TypeKind::Tensor && v.tensor.elements() == 1) return true;
  return c.fail(std::string(what) + " must have one element");
}

const Type& input_type(const Graph& g, size_t i) { return g.type(g.result(g.inputs()[i])); }

// Stacks the slices of a scan output. Without slices, an empty tensor of the declared shape.
bool stack(Context& c, std::vector<HostValue>& slices, const Type& type, int64_t axis, bool reversed) {
  TensorData d;
  if (slices.empty()) {
    std::vector<int64_t> dims;
    for (Dim n : type.dims)
      dims.push_back(n.is_static() ? n.size() : std::max<int64_t>(0, c.run.module.dims.evaluate(n, c.run.bindings).value_or(0)));
    if (static_cast<size_t>(axis) < dims.size()) dims[static_cast<size_t>(axis)] = 0;
    return c.make(type.dtype, std::move(dims), &d) && c.put(std::move(d));
  }
  if (reversed) std::reverse(slices.begin(), slices.end());
  std::vector<const TensorData*> parts;
  for (const HostValue& v : slices) {
    if (v.kind != TypeKind::Tensor) return c.fail("only tensors can be stacked");
    parts.push_back(&v.tensor);
  }
  return join(c, parts, axis, true, &d) && c.put(std::move(d));
}

bool eval_if(Context& c) {
  if (!one_element(c, *c.in[0], "the condition")) return false;
  const bool taken = load_int(c.t(0)) != 0;
  const Graph& body = c.run.module.graph(c.graph.bodies(c.node)[taken ? 0 : 1]);
  const std::vector<Dim>& equal = taken ? c.a<IfAttrs>().then_equal : c.a<IfAttrs>().else_equal;
  for (size_t i = 0; i < equal.size(); i += 2)
    if (!sizes_agree(c.run, equal[i], equal[i + 1])) return false;
  std::vector<HostValue> inputs;
  for (size_t i = 1; i < c.in.size(); ++i) inputs.push_back(operand(c, i));
  return run_graph(c.run, body, std::move(inputs), &c.out);
}

bool eval_custom_op(Context& c) {
  std::vector<HostValue> inputs;
  for (size_t i = 0; i < c.in.size(); ++i) inputs.push_back(operand(c, i));
  return run_graph(c.run, c.run.module.graph(c.graph.bodies(c.node)[0]), std::move(inputs), &c.out);
}

bool eval_loop(Context& c) {
  const auto carries = static_cast<size_t>(c.a<LoopAttrs>().carries);
  const Graph& body = c.run.module.graph(c.graph.bodies(c.node)[0]);
  if (c.has(0) && !one_element(c, *c.in[0], "the trip count")) return false;
  if (c.has(1) && !one_element(c, *c.in[1], "the condition")) return false;
  const int64_t trips = c.has(0) ? load_int(c.t(0)) : std::numeric_limits<int64_t>::max();
  bool going = !c.has(1) || load_int(c.t(1)) != 0;
  std::vector<HostValue> state;
  for (size_t i = 0; i < carries; ++i) state.push_back(operand(c, 2 + i));
  std::vector<std::vector<HostValue>> scans(c.graph.result_count(c.node) - carries);
  for (int64_t t = 0; going && t < trips; ++t) {
    if (!c.charge_iteration(body)) return false;
    std::vector<HostValue> inputs{i64_value(t, input_type(body, 0)), bool_value(going, input_type(body, 1))};
    for (auto& v : state) inputs.push_back(std::move(v));
    for (size_t i = 2 + carries; i < c.in.size(); ++i) inputs.push_back(operand(c, i));
    std::vector<HostValue> results;
    if (!run_graph(c.run, body, std::move(inputs), &results)) return false;
    if (results.size() != 1 + carries + scans.size() || !one_element(c, results[0], "the condition"))
      return c.fail("the body gives the wrong number of results");
    going = load_int(results[0].tensor) != 0;
    for (size_t i = 0; i < carries; ++i) state[i] = std::move(results[1 + i]);
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(std::move(results[1 + carries + i]));
  }
  for (auto& v : state) c.out.push_back(std::move(v));
  for (size_t i = 0; i < scans.size(); ++i)
    if (!stack(c, scans[i], c.graph.type(c.graph.result(c.node, carries + i)), 0, false)) return false;
  return true;
}

bool eval_scan(Context& c) {
  const auto& a = c.a<ScanAttrs>();
  const auto states = static_cast<size_t>(a.states), count = static_cast<size_t>(a.scan_inputs);
  const Graph& body = c.run.module.graph(c.graph.bodies(c.node)[0]);
  auto flag = [](const std::vector<int64_t>& list, size_t i) { return i < list.size() && list[i] != 0; };
  std::vector<HostValue> state;
  for (size_t i = 0; i < states; ++i) state.push_back(operand(c, i));
  std::vector<std::vector<HostValue>> scans(c.graph.result_count(c.node) - states);
  int64_t length = -1;
  for (size_t i = 0; i < count; ++i) {
    const auto& dims = c.dims(states + i);
    if (a.input_axes[i] < 0 || a.input_axes[i] >= static_cast<int64_t>(dims.size()))
      return c.fail("axis of a scan input is out of range");
    const int64_t n = dims[static_cast<size_t>(a.input_axes[i])];
    if (length >= 0 && n != length) return c.fail("lengths of scan inputs differ");
    length = n;
  }
  for (int64_t t = 0; t < length; ++t) {
    if (!c.charge_iteration(body)) return false;
    std::vector<HostValue> inputs;
    for (auto& v : state) inputs.push_back(std::move(v));
    for (size_t i = 0; i < count; ++i) {
      TensorData slice;
      if (!take(c, c.t(states + i), a.input_axes[i], flag(a.input_reverse, i) ? length - 1 - t : t, 1, &slice)) return false;
      slice.dims.erase(slice.dims.begin() + a.input_axes[i]);
      inputs.push_back({TypeKind::Tensor, std::move(slice), {}});
    }
    for (size_t i = states + count; i < c.in.size(); ++i) inputs.push_back(operand(c, i));
    std::vector<HostValue> results;
    if (!run_graph(c.run, body, std::move(inputs), &results)) return false;
    if (results.size() != states + scans.size()) return c.fail("the body gives the wrong number of results");
    for (size_t i = 0; i < states; ++i) state[i] = std::move(results[i]);
    for (size_t i = 0; i < scans.size(); ++i) scans[i].push_back(std::move(results[states + i]));
  }
  for (auto& v : state) c.out.push_back(std::move(v));
  for (size_t i = 0; i < scans.size(); ++i)
    if (!stack(c, scans[i], c.graph.type(c.graph.result(c.node, states + i)), a.output_axes[i], flag(a.output_reverse, i)))
      return false;
  return true;
}

}  // namespace

std::span<const Entry> control_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::If, eval_if}, {OpKind::Loop, eval_loop}, {OpKind::Scan, eval_scan}, {OpKind::CustomOp, eval_custom_op}};
  return kTable;
}

}  // namespace rlxc::eval
