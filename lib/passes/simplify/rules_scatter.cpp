// Rules on scatters. Exporters write slice assignment as a scatter whose indices enumerate a box in order: inside the box are the
// updates, outside the original values.
#include <algorithm>

#include "passes/counted.h"
#include "passes/simplify/rules.h"

namespace rlxc::simplify {
namespace {

using enum OpKind;

// The box [start, start + size) of every axis, updated in order.
struct Box {
  std::vector<Dim> start, size;
};

std::optional<Box> box_of_elements(const Graph& g, NodeId n) {
  const auto part = index_part(g, g.operand(n, 1));
  const auto d = g.dims(g.operand(n, 1));
  const auto k = static_cast<size_t>(g.attrs<ScatterAttrs>(n).axis);
  const int axis = static_cast<int>(d.size() - 1 - k);
  if (!part || (part->axis ? *part->axis != axis : d[k] != Dim(1))) return std::nullopt;
  Box box{std::vector<Dim>(d.size(), Dim(0)), {d.begin(), d.end()}};
  box.start[k] = part->start;
  return box;
}

std::optional<Box> box_of_slices(const Graph& g, NodeId n) {
  const ValueId index = g.operand(n, 1);
  const auto d = g.dims(index).first(g.dims(index).size() - 1), x = g.dims(g.operand(n, 0));
  Box box;
  size_t next = 0;  // next axis of the index that may count
  const auto pass = [&](size_t end) {
    for (; next < end; ++next)
      if (d[next] != Dim(1)) return false;  // written more than once
    return true;
  };
  for (const IndexPart& p : index_parts(g, index)) {
    const size_t axis = p.axis ? d.size() - 1 - static_cast<size_t>(*p.axis) : next;
    if (p.axis && (axis < next || !pass(axis))) return std::nullopt;
    box.start.push_back(p.start);
    box.size.push_back(p.axis ? d[next++] : Dim(1));
  }
  if (Dim(static_cast<int64_t>(box.start.size())) != g.dims(index).back() || !pass(d.size())) return std::nullopt;
  for (size_t k = box.start.size(); k < x.size(); ++k) box.start.push_back(Dim(0)), box.size.push_back(x[k]);
  return box;
}

std::optional<Box> box(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  if (g.attrs<ScatterAttrs>(n).reduction != Reduction::None) return std::nullopt;
  auto b = g.op(n) == ScatterElements ? box_of_elements(g, n) : box_of_slices(g, n);
  if (b && !std::ranges::all_of(b->start, [&](Dim d) { return s.dims().at_least(d, 0); })) return std::nullopt;
  return b;
}

bool covers(Simplifier& s, const Box& b, std::span<const Dim> x, size_t axis) {
  return b.start[axis] == Dim(0) && s.dims().equal(b.size[axis], x[axis]);
}

// A scatter to the whole tensor is its updates.
bool scatter_all(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  const auto x = g.dims(g.result(n));
  const auto b = box(s, n);
  for (size_t k = 0; b && k < x.size(); ++k)
    if (!covers(s, *b, x, k)) return false;
  return b && s.replace(n, s.at(n).reshape(g.operand(n, 2), {x.begin(), x.end()}));
}

// A slice outside of the box along an axis reads the operand. A slice inside reads the updates if the box covers all other axes.
bool narrow_scatter(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  DimTable& t = s.dims();
  const NodeId scatter = g.def(g.operand(n, 0));
  if (g.op(scatter) != ScatterNd && g.op(scatter) != ScatterElements) return false;
  const auto a = g.attrs<NarrowAttrs>(n);
  const auto k = static_cast<size_t>(a.axis);
  const auto x = g.dims(g.result(scatter));
  const auto b = box(s, scatter);
  if (!b) return false;
  const auto up_to = [&](Dim low, Dim high) { return t.at_least(t.sub(high, low), 0); };
  const Dim end = t.add(a.start, a.len), written = t.add(b->start[k], b->size[k]);
  if (up_to(end, b->start[k]) || up_to(written, a.start))
    return s.replace(n, s.at(n).narrow(g.operand(scatter, 0), a.axis, a.start, a.len));
  if (!up_to(b->start[k], a.start) || !up_to(end, written)) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (i != k && !covers(s, *b, x, i)) return false;
  const ValueId updates = s.at(n).reshape(g.operand(scatter, 2), b->size);
  return s.replace(n, s.at(n).narrow(updates, a.axis, t.sub(a.start, b->start[k]), a.len));
}

constexpr Rule kScatterRules[] = {
    {ScatterNd, "scatter_all", false, scatter_all},
    {ScatterElements, "scatter_all", false, scatter_all},
    {Narrow, "narrow_scatter", false, narrow_scatter},
};

}  // namespace

std::span<const Rule> scatter_rules() { return kScatterRules; }

}  // namespace rlxc::simplify
