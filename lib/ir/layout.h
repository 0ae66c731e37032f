// Memory layout of a value: row-major, strided, permuted, repeated, or blocked (an axis of several factors, such as the channels
// of NCHW16c).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

class Diagnostics;

// A factor of an axis. The stride is in elements; 0 if the factor repeats them.
struct DimFactor {
  Dim size, stride;
  bool operator==(const DimFactor&) const = default;
};
struct Layout {
  std::vector<std::vector<DimFactor>> axes;  // outermost factor first; an axis of dim 1 may have none
  std::vector<Dim> starts = {};              // by axis: position in its factors of the first element; empty: all 0
  int64_t channel_block = 0;                 // kernels read the channels in blocks of this size; 0: as any strided layout

  bool rows() const;     // the last axis is contiguous
  bool vectors() const;  // the innermost factor of the last axis is contiguous or repeated
  Dim start(size_t axis) const { return axis < starts.size() ? starts[axis] : Dim(0); }
  bool split(size_t last = SIZE_MAX) const;  // one of the `last` trailing axes has several factors
  bool operator==(const Layout&) const = default;
};
// The innermost of the first `end` axes that collapse into one strided dim: the first of them, and the dim (nullopt if its size
// is 1). Stops at an axis of several factors.
struct ContiguousDims {
  size_t begin;
  std::optional<DimFactor> factor;
};
ContiguousDims innermost_contiguous_dims(DimTable&, const Layout&, size_t end);
Layout row_major(DimTable&, std::span<const Dim> shape);
// Channels (axis 1) in innermost blocks of `block`: NCHW16c for 16. The number of channels must be a multiple of `block`.
Layout channel_blocks(DimTable&, std::span<const Dim> shape, int64_t block);
// Returns whether neighbouring elements of an image [N, C, H, W] belong to neighbouring channels, and no axis is split.
bool is_channels_last(const Layout&);
// "[6@32][2@16, 4@1]": size@stride of the factors of each axis; "+4" after an axis that starts at position 4.
std::string text(const Layout&, const DimTable&);

// Layouts of all values of a graph: the value that owns the bytes, the offset in it, and the layout.
class GraphLayouts {
 public:
  GraphLayouts() = default;
  explicit GraphLayouts(const Graph& g) : root(g.value_capacity()), offset(g.value_capacity()), number_(g.value_capacity()) {}

  std::vector<ValueId> root;  // by value: the owner of its bytes, itself unless it is a view
  std::vector<Dim> offset;    // by value: bytes from the start of the root

  const Layout* of(ValueId v) const { return number_[v.raw] ? &layouts_[number_[v.raw] - 1] : nullptr; }  // null: row-major
  int64_t channel_block(ValueId v) const { return number_[v.raw] ? layouts_[number_[v.raw] - 1].channel_block : 0; }
  bool is_view(const Graph& g, NodeId n) const { return g.result_count(n) > 0 && root[g.result(n).raw] != g.result(n); }
  bool alike(ValueId a, ValueId b) const { return of(a) && of(b) ? *of(a) == *of(b) : of(a) == of(b); }
  void set(ValueId v, Layout l) {
    layouts_.push_back(std::move(l));
    number_[v.raw] = static_cast<uint32_t>(layouts_.size());
  }

 private:
  std::vector<uint32_t> number_;  // by value: index into `layouts_` plus 1, or 0
  std::vector<Layout> layouts_;
};

// Errors (Code::PlanInvalid): a root that is invalid or a view itself, factors whose product is not the dim, elements outside of
// the bytes of the root, overlapping elements in a value that owns its bytes. Symbolic dims are not checked. O(values).
bool verify_layouts(const Graph&, const GraphLayouts&, Diagnostics&);

}  // namespace rlxc
