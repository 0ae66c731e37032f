// Recognises values that count: 0, 1, .. from a start along one axis, constant along all others. Exporters use them for
// positions, for masks that compare positions, and for indices that cover a slice.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

struct Counted {
  int axis = 0;   // counted from the end: 0 is the last axis
  Dim start;      // element = start + coordinate
  ValueId range;  // the Range that this value views with the same start; else invalid
};

// Matches Ranges and constants through views, casts of integers and added integers. Bounded; O(nodes passed, elements of a
// constant).
std::optional<Counted> counted(const Graph&, ValueId);

// The common value of all elements, if it is an integer constant or a dim.
std::optional<Dim> uniform_integer(const Graph&, ValueId);

// One component of an index: counts from `start` along `axis` of the index (from the end), or equals `start` everywhere if there
// is no axis.
struct IndexPart {
  std::optional<int> axis;
  Dim start;
};
// The components of an index [.., k] of ScatterNd or GatherNd. Empty if one of them is neither counting nor uniform.
std::vector<IndexPart> index_parts(const Graph&, ValueId index);
std::optional<IndexPart> index_part(const Graph&, ValueId);  // the same for an index into one axis

}  // namespace rlxc
