// The state of an import: graphs that are built, and what names of the text mean in them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/stablehlo/import.h"
#include "import/stablehlo/syntax.h"
#include "ir/builder.h"

namespace rlxc::stablehlo_import {

using Dims = std::vector<Dim>;
using Ints = std::vector<int64_t>;

inline constexpr int64_t kMostKnown = 64;  // elements of a vector whose values are followed

// A graph that is built. What it reads of the graphs around it are inputs of it.
struct Block {
  struct Capture {
    ValueId outer;  // of the parent
    ValueId inner;
  };
  Block(Module& m, GraphId id, Block* p, Diagnostics& d) : graph(&m.graph(id)), b(*graph, &d), parent(p) {}
  Graph* graph;
  Builder b;
  Block* parent;
  std::vector<Capture> captures = {};
  std::map<uint32_t, ValueId> inner_of = {};                            // by outer values of the parent
  std::map<std::pair<const Block*, uint32_t>, ValueId> copied_of = {};  // constants
};

// The meaning of a name. `id` broadcasts to `dims` by NumPy's rule; Op::whole makes the broadcast where an operation needs it.
struct Value {
  ValueId id = {};         // invalid: its operation failed
  ValueId imaginary = {};  // of a complex value, whose real part is `id`, and whose `dtype` is that of the parts
  Block* block = nullptr;
  DType dtype = DType::F32;
  Dims dims = {};
  std::optional<Dims> known = {};                 // elements of a short vector of integers or bools, in order
  std::optional<std::pair<Dim, Dim>> equal = {};  // of a bool: whether these sizes are equal
  std::optional<int64_t> iota = {};               // the axis along which it counts from 0
  bool valid() const { return id.valid(); }
  bool is_complex() const { return imaginary.valid(); }
};

class Importer;

// One operation, while its nodes are made. Functions that fail report an error and return an invalid value.
class Op {
 public:
  Op(Importer& importer, const Operation& o, std::vector<Value> operands, std::vector<Value>* results, bool of_part = false)
      : im(importer), text(o), in_(std::move(operands)), out_(*results), part_(of_part) {}

  Importer& im;
  const Operation& text;

  size_t inputs() const { return in_.size(); }
  const Value& in(size_t i) const { return in_[i]; }
  const std::vector<Value>& all() const { return in_; }
  size_t outputs() const { return out_.size(); }
  bool needs(size_t operands);  // an error unless there are so many
  // Sets a result. An error if it is not of the type that the text declares.
  void set(size_t i, Value);
  void set_all(const std::vector<Value>&);  // as many as there are
  bool fail(Code, const std::string& message);
  bool unsupported(const std::string& message) { return fail(Code::UnsupportedAttribute, message); }
  DType declared(size_t i) const;
  Dims declared_dims(size_t i) const;  // a fresh symbol for an unknown size

  // Attributes, by the name of either form.
  const Attr* attr(std::string_view name, std::string_view other = {}) const;
  std::optional<Ints> ints(std::string_view name, std::string_view other = {}) const;  // nothing if absent, or no integers
  Ints ints_or(size_t count, int64_t value, std::string_view name, std::string_view other = {}) const;
  int64_t integer(std::string_view name, int64_t otherwise, std::string_view other = {}) const;
  std::string_view word(std::string_view name) const;  // of an enumeration

  // Values.
  DimTable& dims() const;
  Builder& b() const;
  ValueId base(const Value&);            // in the current graph, not broadcast
  ValueId whole(const Value&);           // broadcast
  ValueId view(ValueId, Dims);           // a reshape, or the operand of one that is undone
  Value made(ValueId) const;             // the value of a node
  Value with_dims(ValueId, Dims) const;  // a node that broadcasts to these dims
  Value scalar(DType, double);
  Value scalar_like(const Value& like, double v) { return scalar(like.dtype, v); }
  Value size(Dim, DType);  // of rank 0
  Value elementwise(OpKind, const std::vector<Value>&, const Attrs* = nullptr);
  Value add(const Value& x, const Value& y) { return elementwise(OpKind::Add, {x, y}); }
  Value sub(const Value& x, const Value& y) { return elementwise(OpKind::Sub, {x, y}); }
  Value mul(const Value& x, const Value& y) { return elementwise(OpKind::Mul, {x, y}); }
  Value select(const Value& c, const Value& x, const Value& y) { return elementwise(OpKind::Where, {c, x, y}); }
  Value cast(const Value&, DType);
  Value reshape(const Value&, Dims);
  Value transpose(const Value&, const Ints& perm);
  // Axis i of the value becomes axis axes[i] of the result.
  Value broadcast(const Value&, const Dims&, const Ints& axes);
  Value concat(const std::vector<Value>&, int64_t axis);
  Value narrow(const Value&, int64_t axis, Dim start, Dim length);
  Value pad(const Value&, const Dims& before, const Dims& after, const Value& fill);
  Value iota(DType, const Dims&, int64_t axis);
  Value clamp(const Value&, const Value& low, const Value& high);
  Value flat(const Value&);
  std::optional<int64_t> constant(const Value&) const;  // the integer of one element, if it is known
  std::optional<double> splat(const Value&) const;      // the number of all elements, if it is a constant
  std::optional<Ints> sizes(const Value&);              // an error if a size is not known
  std::optional<Ints> static_sizes(std::span<const Dim>) const;
  Dim product(std::span<const Dim>) const;

 private:
  std::vector<Value> in_;
  std::vector<Value>& out_;
  bool part_;  // a part of complex values
};

using Handler = void (*)(Op&);
enum class Complex : uint8_t { Refuse, EachPart, Own };  // Own: the handler knows complex values
struct OpRow {
  std::string_view name;  // without its dialect
  Handler handler;
  bool elementwise = false;  // it may be applied to tensors where a region has scalars
  Complex complex = Complex::Refuse;
};
std::span<const OpRow> elementwise_rows();
std::span<const OpRow> special_rows();
std::span<const OpRow> movement_rows();
std::span<const OpRow> dynamic_rows();
std::span<const OpRow> linear_rows();
std::span<const OpRow> reduce_rows();
std::span<const OpRow> index_rows();
std::span<const OpRow> sort_rows();
std::span<const OpRow> complex_rows();
std::span<const OpRow> control_rows();

class Importer {
 public:
  Importer(const ModuleText&, LineIndex&, const ImportOptions&, Diagnostics&, Module&);

  void run();

  Module& module() { return module_; }
  Diagnostics& diagnostics() { return d_; }
  Block& block() { return *block_; }
  const Operation* operation() const { return now_; }
  bool full() const { return nodes_ > options_.max_nodes; }

  // Results of a region on these values, in the current graph. Empty after an error. With `lifted`, the region is of scalars and
  // is applied to every element of the values.
  std::vector<Value> region(const Region&, std::vector<Value> arguments, bool lifted = false);
  std::vector<Value> call(std::string_view function, std::vector<Value> arguments);
  const Value* find(std::string_view name, uint32_t index = 0) const;  // in scope
  bool lifted() const { return lifted_; }

  // A value of a graph around the current one, in the current one.
  ValueId local(ValueId v, Block* from) { return local(v, from, *block_); }
  ValueId local(ValueId, Block* from, Block& to);
  template <class Body>
  void inside(Block& block, Body body) {
    Block* const outer = std::exchange(block_, &block);
    body();
    block_ = outer;
  }
  std::string where(size_t at) { return lines_.place(at); }
  Value literal(const Attr&, const TensorType&, size_t at);  // a constant
  std::string fresh_name(std::string_view prefix);

 private:
  struct Scope {
    std::unordered_map<std::string_view, std::vector<Value>> values = {};
    const Scope* parent = nullptr;
  };
  std::vector<Value> operations(const Region&, Scope&);
  void operation(const Operation&, Scope&);
  void each_part(const OpRow&, const Operation&, const std::vector<Value>& operands, std::vector<Value>* results);
  void name_sizes(const Function& main);
  bool error(Code, std::string message, size_t at, const std::string& help = {});

  const ModuleText& text_;
  LineIndex& lines_;
  const ImportOptions& options_;
  Diagnostics& d_;
  Module& module_;
  std::unordered_map<std::string_view, const Function*> functions_;
  std::map<std::pair<std::string_view, int64_t>, std::string_view> size_names_;  // of arguments of @main, by axis
  std::map<std::pair<const char*, std::string>, Value> weights_;                 // literals that were made, by place and type
  std::map<std::string, int, std::less<>> names_;
  Block* block_ = nullptr;
  Block* main_ = nullptr;
  Scope* scope_ = nullptr;
  const Operation* now_ = nullptr;
  size_t nodes_ = 0;
  int depth_ = 0;
  bool lifted_ = false;
};

// The tensor of a literal, dense<text>. Returns nothing and a message if it does not fit the type.
std::optional<TensorData> read_literal(std::string_view text, DType, const Ints& dims, std::string* message);
// The integers of a literal or a list; a literal of one number is repeated as its type says.
std::optional<Ints> integers(const Attr&);

// Integers that are ordered as the floats are: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
Value ordered_keys(Op&, const Value&);

// Pads an axis at its ends, which may be negative, and between its elements.
Value padded(Op&, const Value&, const Ints& low, const Ints& high, const Ints& interior, const Value& fill);

// The same operations on real numbers.
void real_abs(Op&);
void real_multiply(Op&);
void real_convert(Op&);

// The real type of the parts of a complex one; other types as they are.
inline DType part_type(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }

// Makes matmuls of all products.
void shape_products(Graph&, Diagnostics&);

// Sums up what the region of a reduction computes of two scalars.
enum class Combine : uint8_t { Other, Add, Mul, Max, Min, And, Or, Second };
Combine combine_of(const Region&);
std::optional<double> identity_of(Combine, DType);

}  // namespace rlxc::stablehlo_import
