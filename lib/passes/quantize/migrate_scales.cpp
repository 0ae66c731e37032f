// Divides channels of norms by the scales of the calibration record (options.calibration, names of each_tensor) and multiplies
// the rows of the weights that read them, which leaves the products as they are and makes the channels alike (Xiao et al.,
// "SmoothQuant", 2022). Scale and shift of the norm take the division. An entry that fits no norm whose readers are all matmuls
// with constant weights is Code::BadCalibration. O(nodes + entries).
#include <cmath>
#include <unordered_map>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/scalable_norms.h"
#include "passes/quantize/tensor_names.h"

namespace rlxc {
namespace {

using namespace match;

// Returns whether the scale of the norm is already divided by these numbers.
bool is_divided(const Graph& g, NodeId norm, const std::vector<double>& scales) {
  const NodeId n = g.operand(norm, 1).valid() ? defining_op(g, g.operand(norm, 1), OpKind::Div) : NodeId();
  if (!n.valid()) return false;
  const auto found = elements(g, g.operand(n, 1), static_cast<int64_t>(scales.size()));
  for (size_t i = 0; i < found.size(); ++i)
    if (!near(g, g.operand(n, 1), found[i], scales[i])) return false;
  return found.size() == scales.size();
}

bool migrate(Graph& g, const ScalableNorm& s, const std::vector<double>& scales) {
  const NodeId norm = s.norm;
  const auto channels = static_cast<int64_t>(scales.size());
  const auto vector = [&](Builder& b, DType t, const std::vector<int64_t>& dims) {
    std::vector<std::byte> bytes;
    for (double x : scales) {
      const auto element = element_bytes(t, x);
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
    return b.constant(make_data(t, dims, bytes));
  };
  Builder b(g, nullptr, norm);
  const auto divided = [&](ValueId v) { return v.valid() ? b.div(v, vector(b, g.dtype(v), {channels})) : v; };
  ValueId gamma = g.operand(norm, 1);
  if (!gamma.valid()) {
    const DType t = g.dtype(g.operand(norm, 0));
    gamma = b.constant(make_splat(t, {channels}, element_bytes(t, 1)));
  }
  const ValueId y =
      b.create(g.op(norm), {g.operand(norm, 0), divided(gamma), divided(g.operand(norm, 2))}, g.module().attrs[g.attr_id(norm)]);
  for (NodeId m : s.matmuls) {
    Builder at(g, nullptr, m);
    const ValueId w = g.operand(m, 1);
    const bool rows_of_k = g.attrs<MatMulAttrs>(m).trans_b;
    const std::vector<int64_t> dims{rows_of_k ? 1 : channels, rows_of_k ? channels : 1};
    const ValueId scaled = at.mul(w, vector(at, g.dtype(w), dims));
    const NodeId members[] = {g.def(w)};
    merge_origins(g, g.def(scaled), members);
    g.set_operand(m, 1, scaled);
  }
  const NodeId members[] = {norm};
  replace_group(g, members, g.result(norm), y);
  return true;
}

}  // namespace

PassResult migrate_scales(Module& m, PassContext& context) {
  if (!context.options.calibration || context.options.calibration->channel_scales.empty()) return {};
  std::unordered_map<std::string_view, const std::vector<double>*> wanted;
  for (const auto& [name, scales] : context.options.calibration->channel_scales) wanted.emplace(name, &scales);
  std::unordered_map<uint64_t, std::string> names;  // of tensors with an entry
  const auto key = [](GraphId g, ValueId v) { return uint64_t{g.raw} << 32 | v.raw; };
  each_tensor(m, [&](GraphId g, ValueId v, const std::string& name) {
    if (wanted.contains(name)) names.emplace(key(g, v), name);
  });
  int64_t made = 0;
  each_graph(m, [&](Graph& g) {
    for (const ScalableNorm& s : scalable_norms(g)) {
      const auto name = names.find(key(g.id(), g.result(s.norm)));
      if (name == names.end()) continue;
      const auto entry = wanted.find(name->second);
      const std::vector<double>& scales = *entry->second;
      if (size_at(g, g.result(s.norm), -1) != static_cast<int64_t>(scales.size())) continue;
      if (!is_divided(g, s.norm, scales)) made += context.rewrite([&] { return migrate(g, s, scales); });
      wanted.erase(entry);
    }
  });
  for (const auto& [name, scales] : context.options.calibration->channel_scales)
    if (wanted.contains(name))
      context.diagnostics.error(
          Code::BadCalibration,
          "is no norm of " + std::to_string(scales.size()) + " channels whose readers are all matmuls with constant weights",
          "tensor \"" + name + "\"");
  return {made > 0, {{"norms", made}}};
}

}  // namespace rlxc
