// Inserts Quantize and Dequantize (i8, one scale per tensor or per coordinate of an axis) after the tensors of the calibration
// record (options.calibration, names of each_tensor). Users read the dequantized value, outputs of graphs and bodies too; the
// matmuls and convolutions that the record keeps float read the original. Skips quantized tensors, and those that nothing else
// reads. If an entry does not fit, nothing changes (Code::BadCalibration); one warning lists tensors that became part of other
// ops. Each pair is a PrecisionNote. O(values + entries).
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/quantize/tensor_names.h"

namespace rlxc {
namespace {

struct Tap {
  GraphId graph;
  ValueId value;
  const std::string* name;
  const CalibrationEntry* entry;
};

TensorData vector_of(DType t, const std::vector<double>& numbers, bool scalar) {
  std::vector<std::byte> bytes;
  for (double x : numbers) {
    const auto element = element_bytes(t, x);
    bytes.insert(bytes.end(), element.begin(), element.end());
  }
  return make_data(t, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(numbers.size())}, bytes);
}

// Reason why the entry does not fit the tensor, or empty.
std::string misfit(const Graph& g, ValueId v, const CalibrationEntry& e) {
  const Type& t = g.type(v);
  if (t.kind != TypeKind::Tensor || !is_float(t.dtype)) return "is not a tensor of floats";
  if (e.scales.empty() || (!e.zero_points.empty() && e.zero_points.size() != e.scales.size()))
    return "needs as many zero points as scales";
  if (!e.axis) {
    if (e.scales.size() != 1) return "has " + std::to_string(e.scales.size()) + " scales, but no axis";
  } else {
    if (*e.axis < 0 || *e.axis >= t.rank())
      return "has rank " + std::to_string(t.rank()) + ", the axis of the entry is " + std::to_string(*e.axis);
    const auto n = g.module().dims.constant_value(t.dims[static_cast<size_t>(*e.axis)]);
    if (!n || *n != static_cast<int64_t>(e.scales.size()))
      return "has " + (n ? std::to_string(*n) : "a symbolic number of") + " coordinates on axis " + std::to_string(*e.axis) +
             ", the entry has " + std::to_string(e.scales.size()) + " scales";
  }
  const TensorData scales = vector_of(t.dtype, e.scales, false);
  for (size_t i = 0; i < e.scales.size(); ++i)
    if (const double s = element_as_double(scales, static_cast<int64_t>(i)); !(s > 0) || !std::isfinite(s))
      return "has a scale that is not positive and finite as " + std::string(name(t.dtype)) + ": " + std::to_string(e.scales[i]);
  if (!std::ranges::all_of(e.zero_points, [](int64_t z) { return z >= -128 && z <= 127; }))
    return "has a zero point outside -128..127";
  return {};
}

bool is_layer(const Graph& g, NodeId n) { return g.op(n) == OpKind::MatMul || g.op(n) == OpKind::Conv; }

bool is_quantized(const Graph& g, ValueId v) {
  if (g.op(g.def(v)) == OpKind::Dequantize) return true;
  return std::ranges::any_of(g.uses(v), [&](Graph::Use u) { return g.op(u.user) == OpKind::Quantize && u.index == 0; });
}

uint64_t key(GraphId g, NodeId n) { return uint64_t{g.raw} << 32 | n.raw; }

// `float_layers`: keys of the layers that read the original. Returns whether there are other users.
bool insert(Module& m, const Tap& tap, const std::unordered_set<uint64_t>& float_layers, std::vector<PrecisionNote>& notes) {
  Graph& g = m.graph(tap.graph);
  std::vector<Graph::Use> readers;
  for (Graph::Use u : g.uses(tap.value))
    if (!float_layers.contains(key(tap.graph, u.user))) readers.push_back(u);
  if (readers.empty()) return false;
  const DType t = g.dtype(tap.value);
  const NodeId d = g.def(tap.value);
  Builder b(g, nullptr, g.next(d));
  const CalibrationEntry& e = *tap.entry;
  const ValueId scale = b.constant(vector_of(t, e.scales, !e.axis));
  ValueId zero;
  if (std::ranges::any_of(e.zero_points, [](int64_t z) { return z != 0; }))
    zero = b.constant(vector_of(DType::I8, {e.zero_points.begin(), e.zero_points.end()}, !e.axis));
  const ValueId q = b.create(OpKind::Quantize, {tap.value, scale, zero}, QuantAttrs{e.axis.value_or(0), 0, DType::I8, true});
  const ValueId back = b.create(OpKind::Dequantize, {q, scale, zero}, QuantAttrs{e.axis.value_or(0), 0, t, true});
  Origin o;
  if (g.node_name(d).valid()) o.sources.push_back(g.node_name(d));
  if (m.current_pass.valid()) o.passes.push_back(m.current_pass);
  const OriginId origin = m.add_origin(std::move(o));
  for (ValueId v : {scale, zero, q, back})
    if (v.valid()) g.set_origin(g.def(v), origin);
  for (Graph::Use u : readers) g.set_operand(u.user, u.index, back);
  notes.push_back({*tap.name, std::string(name(t)), "i8",
                   e.axis
                       ? "calibration record, " + std::to_string(e.scales.size()) + " scales on axis " + std::to_string(*e.axis)
                       : "calibration record"});
  return true;
}

}  // namespace

PassResult insert_q_dq(Module& m, PassContext& context) {
  PassResult result{false, {{"pairs_inserted", 0}}};
  if (!context.options.calibration) return result;
  const size_t errors = context.diagnostics.errors();
  std::unordered_map<std::string_view, size_t> entry_of;  // tensor name -> index in the record
  const auto& entries = context.options.calibration->entries;
  for (size_t i = 0; i < entries.size(); ++i)
    if (!entry_of.emplace(entries[i].first, i).second)
      context.diagnostics.error(Code::BadCalibration, "has two entries", "tensor \"" + entries[i].first + "\"");
  std::vector<Tap> taps;
  std::vector<bool> found(entries.size());
  const auto& kept = context.options.calibration->float_layers;
  const std::unordered_set<std::string_view> kept_names(kept.begin(), kept.end());
  std::unordered_set<uint64_t> float_layers;
  each_tensor(m, [&](GraphId id, ValueId v, const std::string& name) {
    const Graph& g = m.graph(id);
    if (const NodeId n = g.def(v); is_layer(g, n) && kept_names.contains(layer_name(g, n, name))) float_layers.insert(key(id, n));
    const auto it = entry_of.find(name);
    if (it == entry_of.end()) return;
    const auto& [tensor, entry] = entries[it->second];
    found[it->second] = true;
    if (is_quantized(g, v)) return;
    const std::string reason = misfit(g, v, entry);
    if (reason.empty()) taps.push_back({id, v, &tensor, &entry});
    else context.diagnostics.error(Code::BadCalibration, reason, "tensor \"" + tensor + "\"");
  });
  for (size_t i = 0; i < entries.size(); ++i)
    if (!found[i] && !m.strings.find(entries[i].first).valid())
      context.diagnostics.error(Code::BadCalibration, "the model has no tensor of this name",
                                "tensor \"" + entries[i].first + "\"");
  if (context.diagnostics.errors() > errors) return result;
  std::string absent;
  for (size_t i = 0; i < entries.size(); ++i)
    if (!found[i]) absent += (absent.empty() ? "\"" : ", \"") + entries[i].first + "\"";
  if (!absent.empty())
    context.diagnostics.warning(Code::BadCalibration, "not quantized, for they became part of other operations: " + absent);
  for (const Tap& t : taps)
    result.counts[0].second += context.rewrite([&] { return insert(m, t, float_layers, context.precision); });
  result.changed = result.counts[0].second > 0;
  return result;
}

}  // namespace rlxc
