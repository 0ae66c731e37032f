#include "analysis/value_range.h"

#include <algorithm>

namespace rlxc {
namespace {

constexpr int64_t kMaxElements = 64;  // of a constant that is read

bool is_counted(const Type& t) { return t.kind == TypeKind::Tensor && is_integer(t.dtype); }

DimRange of_constant(DimTable& dims, const TensorData& d) {
  const int64_t n = d.splat ? 1 : d.elements();
  if (n < 1 || n > kMaxElements || bits(d.dtype) % 8 != 0) return {};
  int64_t low = element_as_int(d, 0), high = low;
  for (int64_t i = 1; i < n; ++i) {
    low = std::min(low, element_as_int(d, i));
    high = std::max(high, element_as_int(d, i));
  }
  return {dims.constant(low), dims.constant(high)};
}

}  // namespace

ValueRanges::ValueRanges(Module& m) : module_(m), dims_(m.dims), ranges_(m.graph_count()) {
  std::vector<GraphId> work{m.main().id()};
  while (!work.empty()) {
    const Graph& g = m.graph(work.back());
    work.pop_back();
    for (NodeId n : g.nodes()) {
      if (!g.bodies(n).empty()) {
        enter_bodies(g, n);
        work.insert(work.end(), g.bodies(n).begin(), g.bodies(n).end());
      } else if (g.result_count(n) == 1 && g.op(n) != OpKind::Input && is_counted(g.type(g.result(n)))) {
        const DimRange r = of_node(g, n);
        if (r.low || r.high) ranges_[g.id().raw][g.result(n).raw] = r;
      }
    }
  }
}

DimRange ValueRanges::operator()(const Graph& g, ValueId v) const {
  if (!v.valid()) return {};
  const auto it = ranges_[g.id().raw].find(v.raw);
  return it == ranges_[g.id().raw].end() ? DimRange() : it->second;
}

// Sets the ranges of body inputs: the iteration number and captured values. Carried values have no range.
void ValueRanges::enter_bodies(const Graph& g, NodeId n) {
  size_t first = 1, offset = 1;  // operand i >= first is body input i - offset
  if (g.op(n) == OpKind::Loop) {
    first = 2 + static_cast<size_t>(g.attrs<LoopAttrs>(n).carries);
    offset = 0;
  } else if (g.op(n) == OpKind::Scan) {
    first = static_cast<size_t>(g.attrs<ScanAttrs>(n).states + g.attrs<ScanAttrs>(n).scan_inputs);
    offset = 0;
  } else if (g.op(n) != OpKind::If) return;
  for (GraphId id : g.bodies(n)) {
    const Graph& body = module_.graph(id);
    auto& to = ranges_[id.raw];
    const auto input = [&](size_t i) { return body.result(body.inputs()[i]).raw; };
    if (g.op(n) == OpKind::Loop) to[input(0)] = {Dim(0), subtract(dims_, (*this)(g, g.operand(n, 0)), exactly(Dim(1))).high};
    for (size_t i = first; i < g.operands(n).size(); ++i) to[input(i - offset)] = (*this)(g, g.operand(n, i));
  }
}

DimRange ValueRanges::of_step(OpKind op, const DimRange& a, const DimRange& b, const DimRange& c) const {
  switch (op) {
    case OpKind::Add: return add(dims_, a, b);
    case OpKind::Sub: return subtract(dims_, a, b);
    case OpKind::Mul: return multiply(dims_, a, b);
    case OpKind::Min: return minimum(dims_, a, b);
    case OpKind::Max: return maximum(dims_, a, b);
    case OpKind::Div:  // rounds toward zero
      return a.low && dims_.at_least(*a.low, 0) ? floor_divide(dims_, a, b) : DimRange();
    case OpKind::Where: return join(dims_, b, c);
    case OpKind::Cast: return a;
    default: return {};
  }
}

DimRange ValueRanges::of_node(const Graph& g, NodeId n) const {
  const auto of = [&](size_t i) { return (*this)(g, g.operand(n, i)); };
  switch (g.op(n)) {
    case OpKind::Constant: return of_constant(dims_, module_.data[g.attrs<DataAttrs>(n).data]);
    case OpKind::DimValue: {
      const auto& sizes = g.attrs<DimsAttrs>(n).dims;
      if (sizes.empty()) return {};
      DimRange r = exactly(sizes[0]);
      for (Dim d : sizes) r = join(dims_, r, exactly(d));
      return r;
    }
    case OpKind::Reshape:
    case OpKind::Narrow:
    case OpKind::Slice:
    case OpKind::Expand:
    case OpKind::Transpose:
    case OpKind::Gather: return of(0);
    case OpKind::Concat: {
      DimRange r = of(0);
      for (size_t i = 1; i < g.operands(n).size(); ++i) r = join(dims_, r, of(i));
      return r;
    }
    case OpKind::Iota: return {Dim(0), subtract(dims_, of(0), exactly(Dim(1))).high};
    case OpKind::ElementwiseRegion: {
      std::vector<DimRange> values;
      for (const RegionStep& step : g.attrs<FusionAttrs>(n).steps) {
        const auto arg = [&](size_t i) {
          const uint16_t a = step.args[i];
          return a == RegionStep::kNone ? DimRange() : a & RegionStep::kStep ? values[a & ~RegionStep::kStep] : of(a);
        };
        values.push_back(is_integer(step.dtype) ? of_step(step.op, arg(0), arg(1), arg(2)) : DimRange());
      }
      return values.back();
    }
    default: return of_step(g.op(n), of(0), of(1), of(2));
  }
}

}  // namespace rlxc
