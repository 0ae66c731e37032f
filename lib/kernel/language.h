// The kernel language: the representation between the graph and a target's source text. It is small enough to interpret, verify
// and print in any C-like language. Builders (kernel/builders) write it; renderers (lib/backend) print it.
//
// A kernel is a tree of statements over a pool of expressions. Expressions are typed, immutable and hash-consed: equal
// expressions have equal ids, and operands have smaller ids than their users. An expression is evaluated by the statement that
// uses it; builder.h pins each read of memory that the kernel writes to a Let.
//
// Grid and Thread loops form a perfect nest around the whole body: the launch geometry. Threads of one workgroup share Shared
// buffers and meet at Barriers, which all of them must reach. A Parallel loop, at the top level of a kernel, splits its
// iterations among CPU threads.
//
// References: exo's LoopIR (PLDI 2022) for the size of the language, tinygrad's uops for hash-consing and renderers as data.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/matrix.h"
#include "support/dtype.h"
#include "support/foreign_text.h"
#include "support/ids.h"

namespace rlxc::kernel {

// An element type and the number of vector lanes (1 = scalar). Value types: bool, integers of 8..64 bits, f16, bf16, f32, f64.
// f16 and bf16 are only loaded, stored, selected and cast: builders compute in f32.
struct Type {
  DType dtype = DType::F32;
  uint16_t lanes = 1;
  constexpr Type() = default;
  constexpr Type(DType t, int lanes = 1) : dtype(t), lanes(static_cast<uint16_t>(lanes)) {}
  constexpr bool operator==(const Type&) const = default;
  constexpr Type scalar() const { return {dtype, 1}; }
  constexpr Type with_lanes(int n) const { return {dtype, n}; }
};

enum class ExprOp : uint8_t {
#define EXPR(id, text, operands, rule) id,
#include "kernel/expr_ops.def"
#undef EXPR
};
enum class TypeRule : uint8_t { Leaf, Memory, Number, Float, Order, Test, Logic, Bits, Shape, Other };

std::string_view name(ExprOp);
int operand_count(ExprOp);
TypeRule type_rule(ExprOp);
// Returns whether the operator takes lanes of two vectors, groups of which the payload counts.
inline bool moves_lanes(ExprOp op) {
  return op == ExprOp::InterleaveLow || op == ExprOp::InterleaveHigh || op == ExprOp::EvenLanes || op == ExprOp::OddLanes;
}

// The operator and the threads of a WarpReduce, packed in its payload.
struct WarpReduction {
  ExprOp combine;  // Add, Max or Min
  int threads;     // of a warp
};
constexpr int64_t payload_of(const WarpReduction& r) { return static_cast<int64_t>(r.combine) << 16 | r.threads; }
constexpr WarpReduction warp_reduction(int64_t payload) {
  return {static_cast<ExprOp>(payload >> 16), static_cast<int>(payload & 0xffff)};
}

using ExprId = Id<struct ExprTag>;
using VarId = Id<struct VarTag>;
using BufferId = Id<struct BufferTag>;

struct ExprNode {
  ExprOp op = ExprOp::Const;
  Type type;
  std::array<ExprId, 3> args;
  int64_t payload =
      0;  // Const: integer value, or the bits of a double; Var: VarId; Load, LoadIf: BufferId; else see expr_ops.def
  bool operator==(const ExprNode&) const = default;
};

enum class VarRole : uint8_t { Symbol, Loop, Let };
struct Var {
  std::string name;
  Type type;
  VarRole role = VarRole::Let;
  int64_t min = 0, max = 0;  // of a Symbol, inclusive
};

enum class Space : uint8_t { Global, Shared, Register };
enum class Access : uint8_t { Read, Write, ReadWrite };

// A kernel argument (Global) or an allocation. Elements of a Register buffer may be vectors; a scalar variable is a Register
// buffer of one element. Shared and Register buffers have constant extents and are uninitialised.
struct Buffer {
  std::string name;
  Type type;
  ExprId extent;  // elements: i64 over constants and symbols
  Space space = Space::Global;
  Access access = Access::ReadWrite;
  bool atomic = false;     // target of an AtomicAdd
  bool may_alias = false;  // shares memory with another argument at equal indices (in-place update)
  bool streamed = false;   // an output that no cache holds: stores of vectors may bypass the caches
  bool separate = false;   // a read-only weight; targets with limited bindings bind it on its own
  // On those targets: the first of the consecutive bindings that hold it, and their number. Written buffers come first.
  uint8_t binding = 0, bindings = 1;
  // Elements of the array that holds it, where the language has no other accesses than to whole elements: words of a binding (on
  // those targets), elements of a Shared buffer. All buffers of a binding have the same number.
  uint8_t grain = 1;
};

enum class Cache : uint8_t { First, Second };
enum class LoopKind : uint8_t { Serial, Unroll, Parallel, Grid, Thread };
enum class StmtKind : uint8_t { For, If, Let, Alloc, Store, AtomicAdd, Prefetch, Barrier, Await, Settle, Comment, Source };

struct Comment {
  std::string text;  // text of the compiler
  ForeignText name;  // name of a node, printed after the text; may be empty
  std::string line() const { return "// " + text + name.line(); }
};

struct Stmt {
  StmtKind kind = StmtKind::Comment;
  LoopKind loop = LoopKind::Serial;
  uint8_t axis = 0;  // Grid, Thread: 0 x, 1 y, 2 z
  // Store to a Shared buffer of elements loaded from an argument that is only read, zeros where the load has a condition that is
  // false: may be done later. The deferred stores of a thread between two of its Awaits are a group; an Await returns when all
  // groups before the last `pending` ones are done.
  bool deferred = false;
  uint8_t pending = 0;
  Cache cache = Cache::Second;  // Prefetch: the one it fills
  // Settle: the products that were added to the register buffer on a matrix unit with `later` are there, and their tiles free.
  bool held = false;        // Let: read so often at once that a register shall keep it
  VarId var;                // For, Let
  BufferId buffer;          // Alloc, Store, AtomicAdd, Prefetch, Settle
  ExprId index;             // Store, AtomicAdd: element index (a vector value goes to consecutive elements); For: extent;
                            // Prefetch: an element that may lie outside of the buffer
  ExprId value;             // Let, Store, AtomicAdd: value; If: condition; Parallel: constant, least iterations for one thread
  bool global = false;      // Barrier: threads see each other's stores to arguments too, not only to Shared buffers
  std::vector<Stmt> body;   // For, If
  std::vector<Stmt> other;  // If: else
  Comment comment;
  std::string source;  // Source: text in the language of the target, which uses arguments and loop variables by their names
};

struct Kernel {
  std::string name;
  std::vector<Comment> comments;  // op, shapes, dtypes, node names: printed above the kernel
  std::vector<Buffer> buffers;    // arguments in order, then allocations
  std::vector<Var> vars;
  std::vector<VarId> symbols;  // i64 arguments, after the buffers in the argument list
  std::vector<ExprNode> exprs;
  std::vector<Stmt> body;
  std::vector<const MatrixUnit*> units;  // rows of tables; MatrixMultiply has the index of one

  Kernel() = default;
  explicit Kernel(std::string n) : name(std::move(n)) {}

  int64_t unit(const MatrixUnit*);  // returns its index and adds it if it is new
  ExprId intern(const ExprNode&);   // returns the id of this node and adds it if it is new; folds nothing
  const ExprNode& expr(ExprId id) const { return exprs[id.raw]; }
  const Buffer& buffer(BufferId id) const { return buffers[id.raw]; }
  const Var& var(VarId id) const { return vars[id.raw]; }
  size_t argument_count() const;  // buffers with space Global
  bool constant_int(ExprId, int64_t* value) const;

 private:
  std::vector<uint32_t> table_;  // hash table of expression ids + 1, a power of two long
  void rehash();
};

// Launch geometry: extents of the Grid and Thread loops (ids of i64 expressions, invalid for unused axes) and the statements
// inside them.
struct Launch {
  std::array<ExprId, 3> grid, threads;
  const std::vector<Stmt>* body = nullptr;
  bool on_device() const { return grid[0].valid() || threads[0].valid(); }
};
Launch launch_of(const Kernel&);
int64_t workgroup_size(const Kernel&);  // threads of a workgroup
double const_double(const ExprNode&);   // value of a Const of any type
uint64_t shared_bytes(const Kernel&);   // in multiples of 16 for each buffer, 1024 with units that read tiles
uint64_t shared_bytes(const Kernel&, const Buffer&);

inline bool is_index_type(DType t) { return t == DType::I64 || t == DType::I32; }  // of indices, extents and loop variables

std::string to_text(const Kernel&);  // for people and golden tests

// Returns whether the threads of a warp compute the expression together. All of them must reach it.
bool is_collective(const Kernel&, const ExprNode&);

}  // namespace rlxc::kernel
