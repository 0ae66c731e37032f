#include "ir/layout.h"

#include <algorithm>

#include "support/checked.h"
#include "support/diagnostics.h"

namespace rlxc {
namespace {

// Number of elements that the layout spans in memory, or nullopt if it overflows or a dim is symbolic.
std::optional<int64_t> span_of(const Layout& l) {
  std::optional<int64_t> last = 0;
  for (const auto& axis : l.axes)
    for (const DimFactor& p : axis) {
      if (!last || !p.size.is_static() || !p.stride.is_static() || p.size.size() < 1) return std::nullopt;
      const auto step = checked_mul(p.size.size() - 1, p.stride.size());
      last = step ? checked_add(*last, *step) : std::nullopt;
    }
  return last ? checked_add(*last, 1) : std::nullopt;
}

// Returns whether two positions share an element. With static dims, each factor by ascending stride must begin beyond the span of
// those before it.
bool overlaps(const Layout& l) {
  std::vector<DimFactor> factors;
  for (const auto& axis : l.axes)
    for (const DimFactor& p : axis)
      if (p.size != Dim(1)) factors.push_back(p);
  if (std::ranges::any_of(factors, [](const DimFactor& p) { return !p.size.is_static() || !p.stride.is_static(); })) return false;
  std::ranges::sort(factors, {}, [](const DimFactor& p) { return p.stride.size(); });
  int64_t end = 1;
  for (const DimFactor& p : factors) {
    if (p.stride.size() < end) return true;
    const auto next = checked_mul(p.stride.size(), p.size.size());
    if (!next) return true;
    end = *next;
  }
  return false;
}

class LayoutVerifier {
 public:
  LayoutVerifier(const Graph& g, const GraphLayouts& l, Diagnostics& d) : g_(g), layouts_(l), diagnostics_(d) {}

  bool run() {
    const size_t before = diagnostics_.items().size();
    for (NodeId n : g_.nodes())
      for (size_t r = 0; r < g_.result_count(n); ++r) value(n, g_.result(n, r));
    return diagnostics_.items().size() == before;
  }

 private:
  void fail(NodeId n, const std::string& what) {
    diagnostics_.error(Code::PlanInvalid, "the layout of a result " + what, "node " + g_.label(n).quoted());
  }

  void value(NodeId n, ValueId v) {
    const ValueId root = layouts_.root[v.raw];
    if (!root.valid() || root.raw >= layouts_.root.size() || layouts_.root[root.raw] != root)
      return fail(n, "has no root that owns its bytes");
    const Layout* l = layouts_.of(v);
    if (g_.type(v).kind != TypeKind::Tensor) return;
    if (l && !matches(v, *l)) return fail(n, "does not have its sizes: " + text(*l, g_.module().dims));
    if (l && root == v && overlaps(*l)) return fail(n, "has two elements in one place: " + text(*l, g_.module().dims));
    if (!fits(v, root, l)) fail(n, "is not within the bytes of what it is a view of");
  }

  bool matches(ValueId v, const Layout& l) {
    DimTable& dims = g_.module().dims;
    const auto sizes = g_.dims(v);
    if (l.axes.size() != sizes.size() || (!l.starts.empty() && l.starts.size() != sizes.size())) return false;
    if (bits(g_.dtype(v)) % 8 != 0) return false;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      Dim whole(1);
      for (const DimFactor& p : l.axes[axis]) whole = dims.mul(whole, p.size);
      if (!whole.is_static() || !sizes[axis].is_static() || !l.start(axis).is_static()) continue;
      const bool is_part = !l.starts.empty() && l.axes[axis].size() > 1;
      const int64_t rest = whole.size() - sizes[axis].size() - l.start(axis).size();
      if (is_part ? rest < 0 : rest != 0) return false;
    }
    return true;
  }

  bool fits(ValueId v, ValueId root, const Layout* l) {
    if (root == v && !l) return layouts_.offset[v.raw] == Dim(0);
    const Dim offset = layouts_.offset[v.raw];
    const auto bytes = [&](ValueId value) -> std::optional<int64_t> {
      const auto elements = num_elements(g_.type(value));
      const auto total = elements ? checked_mul(*elements, bits(g_.dtype(value))) : std::nullopt;
      return total ? std::optional((*total + 7) / 8) : std::nullopt;
    };
    const auto room = bytes(root);
    auto span = bytes(v);
    if (!offset.is_static() || !span || !room || *span == 0) return true;
    if (l) {
      const auto elements = span_of(*l);
      if (!elements) return true;
      span = checked_mul(*elements, bits(g_.dtype(v)) / 8);
    }
    const auto end = span ? checked_add(offset.size(), *span) : std::nullopt;
    return end && *end <= *room;
  }

  const Graph& g_;
  const GraphLayouts& layouts_;
  Diagnostics& diagnostics_;
};

}  // namespace

bool Layout::rows() const {
  return axes.empty() || axes.back().empty() || (axes.back().size() == 1 && axes.back()[0].stride == Dim(1));
}

bool Layout::vectors() const {
  if (axes.empty() || axes.back().empty()) return true;
  const Dim stride = axes.back().back().stride;
  return stride == Dim(1) || stride == Dim(0);
}

bool Layout::split(size_t last) const {
  return std::any_of(axes.end() - static_cast<std::ptrdiff_t>(std::min(last, axes.size())), axes.end(),
                     [](const auto& axis) { return axis.size() > 1; });
}

Layout row_major(DimTable& dims, std::span<const Dim> shape) {
  Layout l{std::vector<std::vector<DimFactor>>(shape.size())};
  Dim stride(1);
  for (size_t i = shape.size(); i-- > 0; stride = dims.mul(stride, shape[i]))
    if (shape[i] != Dim(1)) l.axes[i] = {{shape[i], stride}};
  return l;
}

Layout channel_blocks(DimTable& dims, std::span<const Dim> shape, int64_t block) {
  std::vector<Dim> blocked(shape.begin(), shape.end());
  blocked[1] = dims.floor_div(shape[1], Dim(block));
  blocked.push_back(Dim(block));
  Layout l = row_major(dims, blocked);
  l.axes[1].insert(l.axes[1].end(), l.axes.back().begin(), l.axes.back().end());
  l.axes.pop_back();
  l.channel_block = block;
  return l;
}

ContiguousDims innermost_contiguous_dims(DimTable& dims, const Layout& l, size_t end) {
  ContiguousDims run{end, {}};
  for (; run.begin > 0; --run.begin) {
    const auto& axis = l.axes[run.begin - 1];
    if (axis.empty()) continue;
    if (axis.size() > 1 || (run.factor && axis[0].stride != dims.mul(run.factor->size, run.factor->stride))) break;
    run.factor = run.factor ? DimFactor{dims.mul(axis[0].size, run.factor->size), run.factor->stride} : axis[0];
  }
  return run;
}

bool is_channels_last(const Layout& l) {
  const bool image = l.axes.size() == 4 && l.channel_block == 0 && l.starts.empty() && !l.split();
  return image && !l.axes[1].empty() && l.axes[1][0].stride == Dim(1);
}

std::string text(const Layout& l, const DimTable& dims) {
  std::string s;
  for (size_t axis = 0; axis < l.axes.size(); ++axis) {
    s += "[";
    for (size_t i = 0; i < l.axes[axis].size(); ++i)
      s += (i ? ", " : "") + dims.text(l.axes[axis][i].size) + "@" + dims.text(l.axes[axis][i].stride);
    s += "]";
    if (l.start(axis) != Dim(0)) s += "+" + dims.text(l.start(axis));
  }
  return s;
}

bool verify_layouts(const Graph& g, const GraphLayouts& layouts, Diagnostics& d) { return LayoutVerifier(g, layouts, d).run(); }

}  // namespace rlxc
