// A module as a program for a host: kernels, and the launches, copies and control flow that run them, each with its memory.
// Writers (one per host language) print it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/lowering_cache.h"
#include "ir/lir.h"
#include "ir/stages.h"
#include "support/diagnostics.h"
#include "support/foreign_text.h"

namespace rlxc::codegen {

// A location in memory. Offsets are in bytes; Arena offsets are relative to the arena of the running graph.
struct BufferSlice {
  enum class Memory : uint8_t {
    Weights,  // weight number `index`
    Packed,   // written at load time, read by all runs
    Arena,    // activations of the graph
    Scratch,  // of one command; load-time commands use a separate block
    Input,
    Output,  // buffer number `index` of the graph; a state's buffer holds its input when a run begins
    // The i64 cell of extent number `index` of the LIR; the last cell counts out-of-range indices (LirModule::check_indices).
    // Offsets are relative to the cells of a run.
    Extent,
  };
  Memory memory = Memory::Arena;
  uint32_t index = 0;
  Dim offset;
  Dim slot = {}, slot_bytes = {};  // offset and size of the enclosing buffer; unset for Weights
};

// A data-dependent dim defined by control flow. If: its size after `then` and after `else`. Loop: its size before the first
// iteration, and after each one in terms of that iteration's sizes.
struct ControlFlowDim {
  uint32_t extent;
  Dim size[2];
};

// A loop result with one row per iteration.
struct Stacked {
  Dim rows;                        // number of rows; an upper bound if `extent` defines it
  std::optional<uint32_t> extent;  // the extent that is the number of rows
  std::vector<uint32_t> changing;  // extents of the body that the shape of a row depends on
};

struct Command {
  enum class Kind : uint8_t { Launch, Copy, If, Loop, Scan, Collective };
  Kind kind = Kind::Launch;
  bool is_control() const { return kind == Kind::If || kind == Kind::Loop || kind == Kind::Scan; }  // runs other commands
  GraphId graph;
  NodeId node;                      // node of the command; invalid for the copies of outputs
  uint32_t kernel = 0;              // Launch
  std::vector<BufferSlice> places;  // Launch: arguments; Copy: to, from; others: operands (absent ones: see `present`), results
  std::vector<bool> present;        // If, Loop, Scan: by operand
  // Launch: symbols of the kernel; Copy: bytes. Collective: elements of the operand; AllGather: number of runs, bytes of one;
  // DeviceSlice: also the bytes of a run of the operand.
  std::vector<Dim> sizes;
  uint32_t group = 0;                   // Collective: number in Package::groups
  uint32_t stages = Stages::kAll;       // of a pipeline, that run it, see Stages::of
  Dim body_arena;                       // control flow: offset of the bodies' arenas
  Dim held;                             // Loop, Scan: offset of its double buffers, two per output of the body
  std::vector<Dim> equal;               // pairs of sizes that must be equal to run the command, see codegen/equal_sizes.h
  std::vector<Dim> branch_equal[2];     // If: those that must be equal to run the body of `then` or `else`
  std::vector<ControlFlowDim> extents;  // If, Loop
  std::vector<Stacked> stacked;         // Loop, Scan: results with one row per iteration
};

struct GraphProgram {
  std::vector<Command> load, run;
};

// The part of a weight that belongs to a device: of each of `runs` runs of `whole` bytes, `run` bytes from position * run on.
// Bytes beyond the end of a run are zeros.
struct WeightSlice {
  uint32_t group = 0;  // in Package::groups
  uint64_t runs = 1, run = 0, whole = 0;
};

struct Weight {
  DataId data;  // invalid: the caller passes it, the model has no data
  DType dtype = DType::F32;
  ForeignText name;
  uint64_t bytes = 0;                     // of this device
  std::optional<WeightSlice> slice = {};  // absent: the device has the whole weight
};

// The part of a state that belongs to a device: of each of `blocks` blocks of an axis, one part of `devices`.
struct PortPart {
  uint32_t group = 0;  // in Package::groups
  int64_t axis = 0, blocks = 1, devices = 1;
};

struct Port {
  ForeignText name;
  GraphId graph;
  ValueId value;
  std::optional<PortPart> part = {};  // absent: the buffer of a device holds all of it
};

struct Package {
  std::string name;  // an identifier, see package_name
  const LirModule* lir = nullptr;
  std::vector<kernel::Kernel> kernels;  // deduplicated
  std::vector<GraphProgram> graphs;     // by graph id
  std::vector<Weight> weights;
  std::vector<Port> inputs, outputs;           // of the main graph
  std::vector<ForeignText> symbols;            // symbols of the inputs that sizes depend on
  Dim packed_bytes, load_scratch_bytes;        // static
  Dim arena_bytes, held_bytes, scratch_bytes;  // one block per run, with these parts in order
  std::optional<Mesh> mesh;                    // devices that run the program together; absent: one
  std::vector<std::vector<size_t>> groups;     // of collectives and slices: axes of the mesh
  std::vector<uint64_t> cuts;                  // offsets where memory is split into bindings, see backend/gpu/bind_memory.h

  size_t run_steps() const {  // of all graphs
    size_t n = 0;
    for (const GraphProgram& g : graphs) n += g.run.size();
    return n;
  }
};

// The type of all of a port, of which a device may have a part.
Type whole_type(const Package&, const Port&);
size_t extent_cells(const Package&);  // number of Memory::Extent cells
// The cells of a run: extent_cells() i64, then, 64-byte aligned, two cells of 64 bytes per loop: counter and condition. Returns
// the offset of a loop's cells; cell_bytes: the total size.
uint64_t loop_cell(const Package&, uint64_t loop);
uint64_t cell_bytes(const Package&);

// Returns the module's name as a prefix for C identifiers and files. Avoids names that packages use.
std::string package_name(const Module&);

}  // namespace rlxc::codegen
