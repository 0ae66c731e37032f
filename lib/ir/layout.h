// How the elements of a value lie in memory: row-major, with strides, with axes in another order, repeated, or in blocks (an axis
// of several factors, as the channels of NCHW16c).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

class Diagnostics;

// A factor of an axis, with so many elements from one position to the next (0 where it is repeated).
struct DimFactor {
  Dim size, stride;
  bool operator==(const DimFactor&) const = default;
};
struct Layout {
  std::vector<std::vector<DimFactor>> axes;  // outermost factor first; an axis of size 1 may have none
  std::vector<Dim> starts = {};              // by axis, which position of its factors is the first one; none: 0

  bool rows() const;     // elements of the last axis lie together
  bool vectors() const;  // or are some of them repeated
  Dim start(size_t axis) const { return axis < starts.size() ? starts[axis] : Dim(0); }
  bool split(size_t last = SIZE_MAX) const;  // one of so many last axes has several factors
  bool operator==(const Layout&) const = default;
};
// The last of the first `end` axes that follow each other in memory in one step, as the factors of one axis would: where they
// begin, and this axis (of size 1: none). An axis of several factors is no part of it.
struct ContiguousDims {
  size_t begin;
  std::optional<DimFactor> factor;
};
ContiguousDims innermost_contiguous_dims(DimTable&, const Layout&, size_t end);
Layout row_major(DimTable&, std::span<const Dim> shape);
// Channels (axis 1) in blocks of `block`, innermost: NCHW16c for 16. The number of channels must be a multiple of it.
Layout channel_blocks(DimTable&, std::span<const Dim> shape, int64_t block);
// "[6@32][2@16, 4@1]": size@stride of the factors of each axis; "+4" behind an axis that starts at position 4.
std::string text(const Layout&, const DimTable&);

// Where the elements of all values of a graph lie: the value that owns the bytes, the first byte in them, and the layout.
class GraphLayouts {
 public:
  GraphLayouts() = default;
  explicit GraphLayouts(const Graph& g) : root(g.value_capacity()), offset(g.value_capacity()), number_(g.value_capacity()) {}

  std::vector<ValueId> root;  // by value: itself, or what it is a view of
  std::vector<Dim> offset;    // by value: bytes from where the root begins

  const Layout* of(ValueId v) const { return number_[v.raw] ? &layouts_[number_[v.raw] - 1] : nullptr; }  // null: row-major
  bool is_view(const Graph& g, NodeId n) const { return g.result_count(n) > 0 && root[g.result(n).raw] != g.result(n); }
  bool alike(ValueId a, ValueId b) const { return of(a) && of(b) ? *of(a) == *of(b) : of(a) == of(b); }
  void set(ValueId v, Layout l) {
    layouts_.push_back(std::move(l));
    number_[v.raw] = static_cast<uint32_t>(layouts_.size());
  }

 private:
  std::vector<uint32_t> number_;  // by value: in `layouts_`, from 1 on
  std::vector<Layout> layouts_;
};

// Errors (Code::PlanInvalid): a root that is no value of the graph or is a view itself, factors that do not make up an axis,
// elements outside of the bytes of the root, a value that is made with two elements in one place. Sizes that are not constant are
// not compared. O(values).
bool verify_layouts(const Graph&, const GraphLayouts&, Diagnostics&);

}  // namespace rlxc
