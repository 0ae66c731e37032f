// Type inference: every operation has a rule that answers the types of its results or the reason why the operands do not fit.
// The rules are named in the op table; infer_*.cpp hold them, by family.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct InferContext {
  Module& module;
  OpKind op;
  const Attrs& attrs;
  std::span<const Type* const> in;  // null for absent operands
  std::span<const GraphId> bodies;
  std::vector<Type> out;
  std::string error;  // set by `fail`

  template <class A>
  const A& a() const {
    return std::get<A>(attrs);
  }
  DimTable& dims() const { return module.dims; }
  bool has(size_t i) const { return i < in.size() && in[i] != nullptr; }
  const Type& t(size_t i) const { return *in[i]; }
  bool fail(std::string message) { return error = std::move(message), false; }
  bool result(DType t, std::vector<Dim> d) { return out.push_back(tensor_type(t, std::move(d))), true; }
  bool result(Type t) { return out.push_back(std::move(t)), true; }
  std::string show(size_t i) const { return has(i) ? text(t(i), module.dims) : "absent"; }
};

// Result types, or nullopt with a message. Operand counts are checked first. O(operands + dims).
std::optional<std::vector<Type>> infer(Module&, OpKind, const Attrs&, std::span<const Type* const> operands,
                                       std::span<const GraphId> bodies, std::string* message);

// Helpers shared by the rules.
bool broadcast(InferContext&, std::span<const Dim> a, std::span<const Dim> b, std::vector<Dim>* out);  // numpy, right aligned
bool same_dtype(InferContext&, size_t i, size_t j);
bool check_axis(InferContext&, int64_t axis, int rank);
bool require_equal(InferContext&, Dim a, Dim b, std::string_view what);  // records the equality when it is not decided
// Elementwise steps after an integer matmul, `core`, of these sizes (kQuantOperands of region.h).
bool infer_steps_after(InferContext&, OpKind core, std::span<const RegionStep>, const std::vector<Dim>& dims);
// Of two sequences or optionals of one element type: what is known of the elements of both. Unknown shapes are those of no
// element.
Type join_elements(DimTable&, const Type&, const Type&);
Dim conv_output_size(DimTable&, Dim in, int64_t kernel, int64_t stride, int64_t pad_begin, int64_t pad_end, int64_t dilation,
                     bool ceil_mode);

}  // namespace rlxc
