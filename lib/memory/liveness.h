// From when to when the buffers of a graph live, and which values share one: views, results that overwrite an operand which dies,
// and parts that are made where their concatenation will need them.
#pragma once
#include <vector>

#include "ir/lir.h"

namespace rlxc {

inline constexpr uint32_t kForever = ~uint32_t{0};  // beyond the end of a run

enum class Sharing : uint8_t { None, InPlace, ConcatAlias };

struct Liveness {
  std::vector<uint32_t> last_use;  // by root value: the last step that needs its bytes
  std::vector<ValueId> owner;      // by root value: whose bytes it uses, itself unless it shares
  std::vector<Dim> offset;         // by root value: in the owner, bytes
  std::vector<Sharing> sharing;    // by root value
};

// Buffers with a life in one region, in the order in which they are made.
struct Buffers {
  std::vector<ValueId> owners;        // invalid for the arenas of bodies
  std::vector<NodeId> body_nodes;     // parallel: the node whose bodies use the buffer
  std::vector<uint32_t> first, last;  // steps, inclusive
  std::vector<Dim> sizes;
};

// All of these read the schedule, phases, layouts, regions and sizes of `plan`. O(nodes + operands).
Liveness derive_liveness(const Graph&, const GraphPlan& plan);
void overwrite_in_place(const Graph&, const GraphPlan& plan, Liveness&);
// The buffers of the arena. `plans` are those of the bodies.
Buffers buffers_of(const Graph&, const GraphPlan& plan, const Liveness&, const std::vector<GraphPlan>& plans, uint64_t alignment);

// Lets the operands of concatenations be made in place wherever that does not raise the largest sum of live bytes (judged at
// `sample_size` where sizes are symbolic).
void concat_in_place(const Graph&, const GraphPlan& plan, Liveness&, bool in_place, const std::vector<GraphPlan>& plans,
                     uint64_t alignment);

// The size where every symbol is 64.
uint64_t sample_size(const DimTable&, Dim);

}  // namespace rlxc
