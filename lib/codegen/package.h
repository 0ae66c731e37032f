// A module as a program for a host: which kernels there are, and the launches, copies and control flow that run it, each with
// the memory it works on. Writers (one per language of the host) only spell it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/lowering_cache.h"
#include "ir/lir.h"
#include "support/diagnostics.h"
#include "support/foreign_text.h"

namespace rlxc::codegen {

// A place in memory. Offsets are bytes; those of Arena count from the arena of the graph that is run.
struct BufferSlice {
  enum class Memory : uint8_t {
    Weights,  // bytes of weight number `index`
    Packed,   // what the load-time part of the program makes; kept for all runs
    Arena,    // activations of the graph
    Scratch,  // of one step; in the load-time part a block of its own
    Input,
    Output,  // buffer number `index` of the graph; that of a state holds its input when a run begins
    // The value of extent number `index` of the LIR, an i64; the last one counts indices out of range (LirModule::check_indices).
    // Offsets count from the cells of a run.
    Extent,
  };
  Memory memory = Memory::Arena;
  uint32_t index = 0;
  Dim offset;
  Dim slot = {}, slot_bytes = {};  // where the buffer that it lies in begins, and its size; not of Weights
};

// An extent of the LIR that control flow tells. If: its size after `then` and after `else`. Loop: before the first iteration, and
// after each in sizes of that iteration.
struct ControlFlowDim {
  uint32_t extent;
  Dim size[2];
};

// Rows that the iterations of a loop write.
struct Stacked {
  Dim rows;                        // how many there are; where `extent` tells it, how many there can be
  std::optional<uint32_t> extent;  // that is the number of rows
  std::vector<uint32_t> changing;  // extents that an iteration tells and that the shape of a row depends on
};

struct Command {
  enum class Kind : uint8_t { Launch, Copy, If, Loop, Scan };
  Kind kind = Kind::Launch;
  bool is_control() const { return kind != Kind::Launch && kind != Kind::Copy; }  // runs other steps
  GraphId graph;
  NodeId node;          // that the step belongs to; invalid for the copies of outputs
  uint32_t kernel = 0;  // Launch
  std::vector<BufferSlice>
      places;                 // Launch: arguments; Copy: to, from; If, Loop, Scan: operands (absent ones: see `present`), results
  std::vector<bool> present;  // If, Loop, Scan: of the operands
  std::vector<Dim> sizes;     // Launch: symbols of the kernel; Copy: bytes
  Dim body_arena;             // control flow: where the arenas of the bodies begin
  Dim held;                   // Loop, Scan: where its own memory (two buffers for each output of the body) begins
  std::vector<Dim> equal[2];  // If: sizes in pairs, which must be equal to run the body of `then` or `else`
  std::vector<ControlFlowDim> extents;  // If, Loop
  std::vector<Stacked> stacked;         // Loop, Scan: results that have a row for each iteration
};

struct GraphProgram {
  std::vector<Command> load, run;
};

struct Weight {
  DataId data;  // invalid: the model carries none, the caller gives it
  DType dtype = DType::F32;
  ForeignText name;
  uint64_t bytes = 0;
};

struct Port {
  ForeignText name;
  GraphId graph;
  ValueId value;
};

struct Package {
  std::string name;  // an identifier, see package_name
  const LirModule* lir = nullptr;
  std::vector<kernel::Kernel> kernels;  // equal kernels of several nodes are one
  std::vector<GraphProgram> graphs;     // by graph id
  std::vector<Weight> weights;
  std::vector<Port> inputs, outputs;           // of the main graph
  std::vector<ForeignText> symbols;            // of the inputs, that sizes depend on
  Dim packed_bytes, load_scratch_bytes;        // static
  Dim arena_bytes, held_bytes, scratch_bytes;  // of a run: one block with these parts in order
  std::vector<uint64_t> cuts;                  // where its memory is cut for a device, see driver/bind_memory.h

  size_t run_steps() const {  // of all graphs
    size_t n = 0;
    for (const GraphProgram& g : graphs) n += g.run.size();
    return n;
  }
};

// Of sizes in pairs that must be equal, those that a call determines: others can't be checked before the run.
std::vector<Dim> given_pairs(const Package&, std::span<const Dim> pairs);
std::vector<Dim> equal_sizes(const Package&);  // such pairs of the model (DimTable::equalities)
size_t extent_cells(const Package&);           // values of Memory::Extent
// The cells of a run: an i64 for each of these, and from a multiple of 64 bytes on two of 64 for each loop, its counter and its
// condition. Where those of a loop begin, and bytes of all.
uint64_t loop_cell(const Package&, uint64_t loop);
uint64_t cell_bytes(const Package&);

// The name of the module as a prefix of names in C and of files. It meets none of those that packages have anyway.
std::string package_name(const Module&);

// Lowers every node that has not been yet. The row is the one that the plan was made for. Errors (all of them, with the node):
// Code::UnsupportedOnTarget.
std::optional<Package> make_package(const LirModule&, std::string name, LoweringCache&, Diagnostics&);
std::optional<Package> make_package(const LirModule&, std::string name, const CapabilityRow&, Diagnostics&);

}  // namespace rlxc::codegen
