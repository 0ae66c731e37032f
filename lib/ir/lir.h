// LIR: an optimised module with its schedule, phases and memory plan. Immutable once made. Sizes and offsets are bytes; in a
// dynamic module they are expressions of its symbols.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/dim_range.h"
#include "ir/layout.h"
#include "support/hash.h"

namespace rlxc {

enum class Phase : uint8_t { Prologue, SteadyState, Epilogue };
inline std::string_view name(Phase p) {
  constexpr std::string_view names[] = {"Prologue", "SteadyState", "Epilogue"};
  return names[static_cast<size_t>(p)];
}

// Where the bytes of a value lie. Inputs and outputs are the caller's buffers; weights are the model's files; packed holds what
// the prologue makes of them; activations is the arena that calls reuse; state is a buffer that a run is given and updates.
enum class Region : uint8_t { None, Input, Output, Weights, Packed, Activations, State };
inline constexpr size_t kRegionCount = 7;
inline std::string_view name(Region r) {
  constexpr std::string_view names[] = {"none", "input", "output", "weights", "packed", "activations", "state"};
  return names[static_cast<size_t>(r)];
}

inline bool is_of_caller(Region r) { return r == Region::Input || r == Region::Output || r == Region::State; }

struct Slot {
  Region region = Region::None;
  uint32_t index = 0;  // of the input or output; a state has that of its output
  ValueId root;        // the value that owns the bytes: itself, what it is a view of, or what it overwrites in place
  Dim offset;          // in the region (packed, activations), or in the input or output buffer
  Dim size;            // room for the value: data-dependent dims count with their bounds
  uint32_t first_step = 0, last_step = 0;  // life of this value: made in the first, last read in the last
  bool view = false, in_place = false;
  bool part = false;  // made where the concatenation that reads it needs it: `root` is its result
};

// A copy of weights, or a table, in the order in which the kernels of a node read it. Made in the load-time phase.
struct PrepackedWeight {
  NodeId node;
  std::vector<uint32_t> operands;  // its sources; runs do not read them
  Dim offset, bytes;               // in the packed region
  bool shared = false;             // an earlier node makes it
};

struct GraphPlan {
  std::vector<NodeId> schedule;  // all nodes
  std::vector<uint32_t> step;    // by node
  std::vector<Phase> phase;      // by node
  GraphLayouts layouts;          // which values are views, and how they lie
  std::vector<Slot> slot;        // by value
  std::vector<Dim> body_offset;  // by node: where the arena of its bodies begins in this arena (control flow)
  Dim arena_size, packed_size;
  std::vector<PrepackedWeight> prepacked;  // in order of the schedule; those of a node as its kernels declare them
  uint32_t unpacked_nodes = 0;             // that read weights where they lie, for a limit of the packed region
  Dim unpacked_bytes;                      // what they would keep
  bool symbolic = false;
  // Of a static plan: the largest sum of live bytes, where it occurs, and what lives there.
  uint64_t lower_bound = 0;
  uint32_t peak_step = 0;
  std::vector<ValueId> peak_values;
  std::string method;  // how the offsets were found
  // Bytes that activations would take without any sharing, and what each kind of sharing saves.
  uint64_t without_reuse = 0, saved_by_views = 0, saved_in_place = 0, saved_by_concat_alias = 0, saved_by_reuse = 0;
  bool reordered = false;
  uint32_t computed_again = 0;  // nodes that were copied to lower the arena
  Dim given_arena;              // what the arena takes in the given order
};

// A data-dependent dim: a symbol that a node defines each time it runs, for all that is computed after it.
struct DataDependentDim {
  ForeignText symbol;
  GraphId graph;
  NodeId node;
  std::optional<Dim> bound;  // over symbols of the inputs: it is never larger. Absent: nothing is known
};

// An input and an output of the main graph that are one buffer: it holds the input when a run begins and the output when it ends.
struct State {
  uint32_t input, output;
};

struct LirModule {
  std::unique_ptr<Module> module;
  std::vector<GraphPlan> plans;  // by graph id
  std::vector<DataDependentDim> extents;
  std::vector<State> states;
  uint64_t alignment = 64;
  bool packs_known = true;     // whether the kernels are ours; what those of others keep is not known
  uint64_t max_binding = 0;    // bytes that a device binds at a time: where possible, no slot crosses a multiple. 0: no limit
  bool check_indices = false;  // kernels count the indices that inputs give out of range: a run is an error then
  SymbolRanges ranges;         // constants: the plan holds for sizes of symbols in these; empty: for all
  Digest128 fingerprint;
};

}  // namespace rlxc
