// Merges regions that compute adjacent slices of one value by the same steps, such as the norms and rotations of queries and keys
// in a graph with Q/DQ pairs. What they read alike is read once; weights that differ lie side by side.
//   a = region(heads(p[..n]), s); b = region(heads(p[n..]), t)  ->  ab = region(heads(p), [s.., t..]); a = ab[..n], b = ab[n..]
// Slices reach a region through Reshape, Transpose and Narrow. The steps, and what they read besides the slices and weights, must
// be the same. O(nodes * steps).
#include <algorithm>
#include <optional>

#include "analysis/views.h"
#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kSharedRegion = "shared_region";
class SharedRegions {
 public:
  SharedRegions(Graph& g, PassContext& context) : g_(g), context_(context), order_(g) {}

  int64_t run() {
    int64_t merged = 0;
    for (NodeId n : g_.nodes()) {
      if (!is_region(g_.op(n)) || g_.result_count(n) != 1 || is_weight(g_, g_.result(n))) continue;
      NodeId last = n;
      for (size_t i = 0; i < open_.size() && last.valid(); ++i) {
        const NodeId both = context_.rewrite([&] { return (made_ = merge(open_[i], last)).valid(); }) ? made_ : NodeId();
        if (!both.valid()) continue;
        ++merged;
        open_[i] = both;
        last = {};
      }
      if (!last.valid()) continue;
      if (open_.size() == kMostOpen) open_.erase(open_.begin());
      open_.push_back(last);
    }
    return merged;
  }

 private:
  static constexpr size_t kMostMoves = 6, kMostOpen = 16;  // layout ops between; regions that later ones are compared with

  static bool is_region(OpKind op) {
    return op == OpKind::ElementwiseRegion || op == OpKind::ConcatRegion || op == OpKind::ReduceRegion ||
           op == OpKind::NormRegion;
  }

  // The layout ops from a slice of `root` to an operand. The first is the slice.
  struct Path {
    ValueId root;
    std::vector<NodeId> ops;
  };

  std::optional<Path> path_of(ValueId v) const {
    Path path;
    for (NodeId n = g_.def(v); n.valid() && path.ops.size() < kMostMoves; n = g_.def(v)) {
      if (g_.op(n) != OpKind::Reshape && g_.op(n) != OpKind::Transpose && g_.op(n) != OpKind::Narrow) break;
      path.ops.push_back(n);
      v = g_.operand(n, 0);
    }
    path.root = v;
    std::ranges::reverse(path.ops);
    if (path.ops.empty() || g_.op(path.ops[0]) != OpKind::Narrow) return std::nullopt;
    return path;
  }

  // How the axis of the slices reaches the operands: the axis after each op. Nullopt if an op does not keep the slices apart.
  std::optional<std::vector<size_t>> axes_along(const Path& a, const Path& b) const {
    if (a.root != b.root || a.ops.size() != b.ops.size()) return std::nullopt;
    const auto& first = g_.attrs<NarrowAttrs>(a.ops[0]);
    const auto& second = g_.attrs<NarrowAttrs>(b.ops[0]);
    DimTable& t = g_.module().dims;
    if (first.axis != second.axis || !t.equal(second.start, t.add(first.start, first.len))) return std::nullopt;
    auto axis = static_cast<size_t>(first.axis);
    std::vector<size_t> axes{axis};
    for (size_t i = 1; i < a.ops.size(); ++i) {
      const NodeId x = a.ops[i], y = b.ops[i];
      if (g_.op(x) != g_.op(y)) return std::nullopt;
      if (g_.op(x) == OpKind::Reshape) {
        const auto to = axis_after(x, y, axis);
        if (!to) return std::nullopt;
        axis = *to;
      } else if (g_.attr_id(x) != g_.attr_id(y)) {
        return std::nullopt;
      } else if (g_.op(x) == OpKind::Transpose) {
        const auto& perm = g_.attrs<PermAttrs>(x).perm;
        axis = static_cast<size_t>(std::ranges::find(perm, static_cast<int64_t>(axis)) - perm.begin());
      } else if (g_.attrs<NarrowAttrs>(x).axis == static_cast<int64_t>(axis)) {
        return std::nullopt;
      }
      axes.push_back(axis);
    }
    return axes;
  }

  // The axis of the results of two Reshapes in which the slices are whole: the one in which they differ, behind as many elements.
  std::optional<size_t> axis_after(NodeId x, NodeId y, size_t axis) const {
    DimTable& t = g_.module().dims;
    const auto from = g_.dims(g_.operand(x, 0)), one = g_.dims(g_.result(x)), two = g_.dims(g_.result(y));
    if (one.size() != two.size()) return std::nullopt;
    const Dim before = t.product(from.first(axis));
    Dim size(1);
    for (size_t i = 0; i < one.size(); ++i) {
      if (t.equal(size, before) && one[i] != Dim(1)) {
        const auto rest = [](std::span<const Dim> d, size_t k) { return d.subspan(k + 1); };
        return std::ranges::equal(rest(one, i), rest(two, i)) ? std::optional(i) : std::nullopt;
      }
      if (one[i] != two[i]) return std::nullopt;
      size = t.mul(size, one[i]);
    }
    return std::nullopt;
  }

  static std::vector<RegionStep>* steps_of(Attrs& a) {
    if (auto* region = std::get_if<FusionAttrs>(&a)) return region->also.empty() ? &region->steps : nullptr;
    if (auto* region = std::get_if<ConcatRegionAttrs>(&a)) return &region->steps;
    return nullptr;
  }

  // An operand of the steps of both regions: the same value, parts of a longer slice, or weights that are laid side by side.
  struct Operand {
    ValueId values[2];
    enum class Kind : uint8_t { Same, Slice, Weights } kind = Kind::Same;
    std::vector<size_t> axes = {};  // of a slice
  };
  struct Aligned {
    Attrs attrs;
    std::vector<Operand> operands;
  };

  // The program of both, with operands in the order in which the steps read them. Nullopt if they differ.
  std::optional<Aligned> aligned(NodeId x, NodeId y) const {
    Aligned out{g_.module().attrs[g_.attr_id(x)], {}};
    Attrs other = g_.module().attrs[g_.attr_id(y)];
    std::vector<RegionStep>*one = steps_of(out.attrs), *two = steps_of(other);
    if (!one || !two || one->size() != two->size()) return std::nullopt;
    for (size_t s = 0; s < one->size(); ++s)
      for (size_t k = 0; k < std::size((*one)[s].args); ++k) {
        uint16_t &a = (*one)[s].args[k], &b = (*two)[s].args[k];
        const auto is_operand = [](uint16_t arg) { return arg != RegionStep::kNone && !(arg & RegionStep::kStep); };
        if (!is_operand(a) || !is_operand(b)) continue;
        const ValueId v = g_.operand(x, a), w = g_.operand(y, b);
        auto known = std::ranges::find_if(out.operands, [&](const Operand& o) { return o.values[0] == v && o.values[1] == w; });
        if (known == out.operands.end()) known = out.operands.insert(known, Operand{{v, w}});
        a = b = static_cast<uint16_t>(known - out.operands.begin());
      }
    AttrTable& table = g_.module().attrs;
    if (table.intern(out.attrs) != table.intern(other)) return std::nullopt;
    return out;
  }

  // Whether both are one value, or the same slice of one.
  bool is_same(ValueId a, ValueId b) const {
    if (a == b || same_number(g_, a, b)) return true;
    const NodeId x = g_.def(a), y = g_.def(b);
    return g_.op(x) == OpKind::Narrow && g_.op(y) == OpKind::Narrow && g_.attr_id(x) == g_.attr_id(y) &&
           g_.operand(x, 0) == g_.operand(y, 0) && g_.type_id(a) == g_.type_id(b);
  }

  NodeId merge(NodeId x, NodeId y) {
    if (!g_.alive(x) || g_.op(x) != g_.op(y) || g_.rank(g_.result(x)) != g_.rank(g_.result(y))) return {};
    auto both = aligned(x, y);
    if (!both) return {};
    const auto rank = static_cast<size_t>(g_.rank(g_.result(x)));
    std::optional<size_t> from_end;  // the axis of the slices, counted from the last one
    bool turned = false;             // whether y computes the slice before that of x
    for (Operand& o : both->operands) {
      const auto& [a, b] = o.values;
      if (is_same(a, b)) continue;
      if (g_.dtype(a) != g_.dtype(b)) return {};
      if (is_loaded(g_, a) && is_loaded(g_, b)) {
        o.kind = Operand::Kind::Weights;
        continue;
      }
      const auto one = path_of(a), two = path_of(b);
      if (!one || !two) return {};
      auto axes = axes_along(*one, *two);
      const bool is_turned = !axes;
      if (is_turned) axes = axes_along(*two, *one);
      if (!axes) return {};
      const size_t end = static_cast<size_t>(g_.rank(a)) - axes->back();
      if (from_end && (end != *from_end || is_turned != turned)) return {};
      from_end = end;
      turned = is_turned;
      o.kind = Operand::Kind::Slice;
      o.axes = std::move(*axes);
    }
    if (!from_end || *from_end > rank || !along_other_axes(x, rank - *from_end)) return {};
    // The other operands must not vary along the axis.
    for (const Operand& o : both->operands)
      for (ValueId v : o.values)
        if (const auto d = g_.dims(v);
            o.kind != Operand::Kind::Slice && d.size() >= *from_end && d[d.size() - *from_end] != Dim(1))
          return {};
    if (turned)
      for (Operand& o : both->operands) std::swap(o.values[0], o.values[1]);
    return turned ? join(y, x, *both, *from_end, x) : join(x, y, *both, *from_end, x);
  }

  // Whether the steps treat all positions of the axis alike.
  bool along_other_axes(NodeId n, size_t axis) const {
    const auto at = static_cast<int64_t>(axis);
    if (g_.op(n) == OpKind::ConcatRegion) return g_.attrs<ConcatRegionAttrs>(n).axis != at;
    if (g_.op(n) == OpKind::NormRegion) {
      const auto& steps = g_.attrs<FusionAttrs>(n).steps;
      const RegionStep& norm = steps[last_norm_step(steps)];
      return norm.op != OpKind::GroupNorm && at < norm_axis(norm);
    }
    return g_.op(n) != OpKind::ReduceRegion || std::ranges::count(reduced_axes(g_.attrs<FusionAttrs>(n).steps), at) == 0;
  }

  // `x` computes the first slice. The merged node goes to `point`.
  NodeId join(NodeId x, NodeId y, const Aligned& program, size_t from_end, NodeId point) {
    const auto size_of = [&](NodeId n) { return g_.dims(g_.result(n)).end()[-static_cast<std::ptrdiff_t>(from_end)]; };
    const Dim sizes[] = {size_of(x), size_of(y)};
    if (!sizes[0].is_static() || !sizes[1].is_static() || is_copied(x, y, from_end) || is_copied(y, x, from_end)) return {};
    Builder b(g_, nullptr, point);
    const size_t before = g_.node_capacity();
    std::vector<ValueId> operands;
    for (const Operand& o : program.operands) {
      if (o.kind == Operand::Kind::Same) operands.push_back(o.values[0]);
      else if (o.kind == Operand::Kind::Slice)
        operands.push_back(longer(b, path_of(o.values[0]).value(), path_of(o.values[1]).value(), o.axes));
      else operands.push_back(side_by_side(b, o, sizes, from_end));
    }
    const bool fits = region_limits(context_.target, false).take(g_, operands);
    const NodeId both = fits ? b.create_node(g_.op(x), operands, program.attrs) : NodeId();
    if (!both.valid()) {
      for (size_t i = before; i < g_.node_capacity(); ++i)
        if (g_.alive(NodeId(i))) erase_dead(g_, NodeId(i));
      return {};
    }
    const NodeId members[] = {x, y};
    context_.decisions.push_back(fused(g_, kSharedRegion, x, members));
    const ValueId all = g_.result(both);
    const int64_t axis = g_.rank(all) - static_cast<int64_t>(from_end);
    const ValueId first = b.narrow(all, axis, Dim(0), sizes[0]), second = b.narrow(all, axis, sizes[0], sizes[1]);
    merge_origins_since(g_, before, members);
    replace(g_, g_.result(x), first);
    replace(g_, g_.result(y), second);
    return both;
  }

  // Whether a reader of the result of x needs a contiguous copy of the slice of both results.
  bool is_copied(NodeId x, NodeId y, size_t from_end) const {
    DimTable& t = g_.module().dims;
    const ValueId v = g_.result(x);
    std::vector<Dim> dims(g_.dims(v).begin(), g_.dims(v).end());
    const size_t axis = dims.size() - from_end;
    if (std::ranges::all_of(std::span(dims).first(axis), [](Dim d) { return d == Dim(1); })) return false;
    dims[axis] = t.add(dims[axis], g_.dims(g_.result(y))[axis]);
    Layout slice = row_major(t, dims);
    slice.axes[axis] = {{g_.dims(v)[axis], slice.axes[axis].at(0).stride}};
    if (g_.dims(v)[axis] == Dim(1)) slice.axes[axis].clear();
    return !all_accept_layout(g_, v, slice);
  }

  // Both weights, repeated along the axis.
  ValueId side_by_side(Builder& b, const Operand& o, std::span<const Dim> sizes, size_t from_end) {
    std::vector<ValueId> parts;
    for (size_t k = 0; k < 2; ++k) {
      order_.hoist(g_, o.values[k], b.insertion_point());
      std::vector<Dim> dims(g_.dims(o.values[k]).begin(), g_.dims(o.values[k]).end());
      if (dims.size() < from_end) dims.insert(dims.begin(), from_end - dims.size(), Dim(1));
      const ValueId shaped = b.reshape(o.values[k], dims);
      dims[dims.size() - from_end] = sizes[k];
      parts.push_back(b.expand(shaped, dims));
    }
    return b.concat(parts, g_.rank(parts[0]) - static_cast<int64_t>(from_end));
  }

  // The operand that both slices are parts of.
  ValueId longer(Builder& b, const Path& x, const Path& y, const std::vector<size_t>& axes) {
    DimTable& t = g_.module().dims;
    const NarrowAttrs first = g_.attrs<NarrowAttrs>(x.ops[0]), second = g_.attrs<NarrowAttrs>(y.ops[0]);
    const Dim len = t.add(first.len, second.len);
    const bool whole = t.equal(len, g_.dims(x.root)[static_cast<size_t>(first.axis)]);
    ValueId v = whole ? x.root : b.narrow(x.root, first.axis, first.start, len);
    for (size_t i = 1; i < x.ops.size(); ++i) {
      if (g_.op(x.ops[i]) != OpKind::Reshape) {
        v = b.create(g_.op(x.ops[i]), {v}, g_.module().attrs[g_.attr_id(x.ops[i])]);
        continue;
      }
      const auto one = g_.dims(g_.result(x.ops[i])), two = g_.dims(g_.result(y.ops[i]));
      std::vector<Dim> dims(one.begin(), one.end());
      dims[axes[i]] = t.add(one[axes[i]], two[axes[i]]);
      v = b.reshape(v, dims);
    }
    return v;
  }

  Graph& g_;
  PassContext& context_;
  Order order_;
  std::vector<NodeId> open_;
  NodeId made_;
};

}  // namespace

PassResult fuse_shared_region(Module& m, PassContext& context) {
  int64_t merged = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::ConcatRegion))) return {};
  each_graph(m, [&](Graph& g) { merged += SharedRegions(g, context).run(); });
  return {merged > 0, {{"shared_region", merged}}};
}

}  // namespace rlxc
