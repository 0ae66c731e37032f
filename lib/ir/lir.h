// LIR: an optimised module with schedule, phases and memory plan. Immutable. Sizes and offsets are bytes; in a dynamic module
// they are expressions of its symbols.
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

// Memory regions. Input, Output: buffers of the caller. Weights: files of the model. Packed: results of the load-time phase.
// Activations: the arena, reused by every run. State: a buffer of the caller that a run updates.
enum class Region : uint8_t { None, Input, Output, Weights, Packed, Activations, State };
inline constexpr size_t kRegionCount = 7;
inline std::string_view name(Region r) {
  constexpr std::string_view names[] = {"none", "input", "output", "weights", "packed", "activations", "state"};
  return names[static_cast<size_t>(r)];
}

inline bool is_of_caller(Region r) { return r == Region::Input || r == Region::Output || r == Region::State; }

struct Slot {
  Region region = Region::None;
  uint32_t index = 0;  // of the input or output; a state has the index of its output
  ValueId root;        // the value that owns the bytes: itself, the root of a view, or a value overwritten in place
  Dim offset;          // in the region (packed, activations), or in the input or output buffer
  Dim size;            // bytes; data-dependent dims count with their bounds
  uint32_t first_step = 0, last_step = 0;  // live range: defined in the first step, last read in the last
  bool view = false, in_place = false;
  bool part = false;  // concat-in-place alias of `root`
};

// A copy of weights, or a table, in the order in which the kernels of a node read it. Made in the load-time phase.
struct PrepackedWeight {
  NodeId node;
  std::vector<uint32_t> operands;  // sources, not read by runs
  Dim offset, bytes;               // in the packed region
  bool shared = false;             // made by an earlier node
};

// Nodes that run on parts of their rows, one part after another, to shrink the arena.
struct PatchedSegment {
  ForeignText first, last;  // of its nodes
  uint32_t nodes = 0, parts = 0;
  uint64_t flops = 0, flops_again = 0;  // of all rows, and of the rows that several parts compute
  uint64_t bytes_copied = 0;            // of rows that are cut out or joined
};

struct GraphPlan {
  std::vector<NodeId> schedule;  // all nodes
  std::vector<uint32_t> step;    // by node
  std::vector<Phase> phase;      // by node
  GraphLayouts layouts;          // views and layouts
  std::vector<Slot> slot;        // by value
  std::vector<Dim> body_offset;  // by node: start of the arena of its bodies in this arena
  Dim arena_size, packed_size;
  std::vector<PrepackedWeight> prepacked;  // in schedule order; those of a node as its kernels declare them
  uint32_t unpacked_nodes = 0;             // nodes that read weights unpacked because of the limit
  Dim unpacked_bytes;                      // bytes they would have prepacked
  bool symbolic = false;
  // For static plans: the peak of live bytes, its step, and the values live there.
  uint64_t lower_bound = 0;
  uint32_t peak_step = 0;
  std::vector<ValueId> peak_values;
  std::string method;  // algorithm that found the offsets
  // Bytes of all activations without sharing, and bytes saved by each kind of sharing.
  uint64_t without_reuse = 0, saved_by_views = 0, saved_in_place = 0, saved_by_concat_alias = 0, saved_by_reuse = 0;
  bool reordered = false;
  uint32_t computed_again = 0;  // nodes copied to shrink the arena
  std::vector<PatchedSegment> patched;
  Dim given_arena;  // arena size in the original order
};

// A data-dependent dim: a symbol whose value a node defines in each run, for all later nodes.
struct DataDependentDim {
  ForeignText symbol;
  GraphId graph;
  NodeId node;
  std::optional<Dim> bound;  // upper bound over input symbols; nullopt: unknown
};

// An input and an output of the main graph that share a buffer. It holds the input before a run and the output after it.
struct State {
  uint32_t input, output;
  std::optional<CollectiveAttrs> part = {};  // the buffer of a device holds its part of an axis; absent: all
};

// An i64 input of the main graph whose elements are indices. A run is refused unless all are within 0..largest.
struct IndexInput {
  uint32_t input;
  Dim largest;              // over symbols of the inputs; may be negative: no index is valid then
  std::string description;  // what the indices are, with the size of what they index
};

struct LirModule {
  std::unique_ptr<Module> module;
  std::vector<GraphPlan> plans;  // by graph id
  std::vector<DataDependentDim> extents;
  std::vector<State> states;
  std::vector<IndexInput> index_inputs;
  uint64_t alignment = 64;
  bool packs_known = true;     // kernels are generated by rlxc, so their prepacked buffers are known
  uint64_t max_binding = 0;    // bytes that a device can bind at once: where possible, no slot crosses a multiple. 0: no limit
  bool check_indices = false;  // kernels count out-of-range indices read from inputs, and the run fails
  SymbolRanges ranges;         // constants: the plan holds for symbols in these ranges; empty: for all values
  Digest128 fingerprint;
};

}  // namespace rlxc
