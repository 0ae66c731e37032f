// Integer matmuls and convolutions that quantize an f32 operand where they read it.
#pragma once
#include <string>
#include <string_view>

#include "passes/fuse/rounding.h"
#include "passes/pass.h"

namespace rlxc::fuse {

// Whether a kernel can quantize its operand. A refusal has the reason and detail of a declined fusion. The reason is empty if the
// node is of another kind.
struct Verdict {
  bool fits = false;
  std::string_view reason = {};
  std::string detail = {};
};

// Checks the rows of a matmul by a weight. The time is not considered.
Verdict can_round_rows(const Graph&, NodeId, const Rounding&, const PassContext&);
// Checks the image of a convolution.
Verdict can_round_image(const Graph&, NodeId, const Rounding&, const PassContext&);

// Nanoseconds of a launch: of the matmul with the rounding of its rows, of the matmul of codes, and of the rounding. With unknown
// sizes there is one task, as for a single row.
struct RowsTime {
  double together, apart, rounding;
};
RowsTime time_of_rows(const Graph&, NodeId matmul, NodeId rounding, const PassContext&);

// The matmul or convolution that quantizes its first operand, x of the rounding; invalid if there is none. The node stays.
NodeId with_rounding(Graph&, NodeId, const Rounding&);

}  // namespace rlxc::fuse
