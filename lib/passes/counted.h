// Values that count: 0, 1, .. from a start along one axis, the same along all others. Exporters make positions of them, masks by
// comparing positions, and indices that name every element of a slice.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

struct Counted {
  int axis = 0;   // counted from the end: 0 is the last
  Dim start;      // the element is start + its coordinate
  ValueId range;  // the Range that it comes from with this start; invalid if another one or none
};

// Ranges and constants, seen through views, casts of numbers, and added integers. O(steps up, elements of a constant), bounded.
std::optional<Counted> counted(const Graph&, ValueId);

// An integer that all elements equal: a constant, or a size.
std::optional<Dim> uniform_integer(const Graph&, ValueId);

// What an index says along one axis of what it points into: `axis` is one of the index, from the end, and counts from `start`;
// without it all elements equal `start`.
struct IndexPart {
  std::optional<int> axis;
  Dim start;
};
// The parts of an index [.., k] of ScatterNd and the like, of its axes without the last one. Empty if one is anything else.
std::vector<IndexPart> index_parts(const Graph&, ValueId index);
std::optional<IndexPart> index_part(const Graph&, ValueId);  // of a value that is an index along one axis

}  // namespace rlxc
