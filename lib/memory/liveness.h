// Liveness of buffers, and which values share one: views, results that overwrite a dying operand, and concat-in-place aliases.
#pragma once
#include <vector>

#include "ir/lir.h"

namespace rlxc {

inline constexpr uint32_t kForever = ~uint32_t{0};  // live beyond the end of a run

enum class Sharing : uint8_t { None, InPlace, ConcatAlias };

struct Liveness {
  std::vector<uint32_t> last_use;  // by root value: last step that reads its bytes
  std::vector<ValueId> owner;      // by root value: the value that owns its bytes, itself unless they are shared
  std::vector<Dim> offset;         // by root value: bytes from the start of the owner
  std::vector<Sharing> sharing;    // by root value
  std::vector<ValueId> replaces;   // by root value: the old value of the state of which it is the new one; else invalid
};

// Buffers of one region with their live ranges, in order of definition.
struct Buffers {
  std::vector<ValueId> owners;        // invalid for the arenas of bodies
  std::vector<NodeId> body_nodes;     // parallel to owners: the node whose bodies use the buffer
  std::vector<uint32_t> first, last;  // steps, inclusive
  std::vector<Dim> sizes;
};

// All functions below read the schedule, phases, layouts, regions and sizes of `plan`. O(nodes + operands).
Liveness derive_liveness(const Graph&, const GraphPlan& plan);
void overwrite_in_place(const Graph&, const GraphPlan& plan, Liveness&);
// The buffers of the arena. `plans`: plans of the bodies, by graph id.
Buffers buffers_of(const Graph&, const GraphPlan& plan, const Liveness&, const std::vector<GraphPlan>& plans, uint64_t alignment);

// Makes operands of concatenations, and of an all_gather of several runs, aliases of the result where that does not raise the
// peak of live bytes. The operand of an all_gather is at the end of the result. A part of a concatenation may overwrite the part
// of a value from which it was made. Symbolic sizes are compared at `sample_size`.
void concat_in_place(const Graph&, const GraphPlan& plan, Liveness&, bool in_place, const std::vector<GraphPlan>& plans,
                     uint64_t alignment);

// The value of the dim if every symbol is 64.
uint64_t sample_size(const DimTable&, Dim);

}  // namespace rlxc
