// Type inference. Every op has a rule that returns the types of its results, or a reason to reject the operands. The op table
// names the rules; infer_*.cpp define them by family.
#pragma once
#include <functional>
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
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  bool result(DType t, std::vector<Dim> d) {
    out.push_back(tensor_type(t, std::move(d)));
    return true;
  }
  bool result(Type t) {
    out.push_back(std::move(t));
    return true;
  }
  std::string show(size_t i) const { return has(i) ? text(t(i), module.dims) : "absent"; }
};

// Returns result types, or nullopt with a message. Checks operand counts first. O(operands + dims).
std::optional<std::vector<Type>> infer(Module&, OpKind, const Attrs&, std::span<const Type* const> operands,
                                       std::span<const GraphId> bodies, std::string* message);

// Helpers shared by the rules.
bool broadcast(InferContext&, std::span<const Dim> a, std::span<const Dim> b, std::vector<Dim>* out);  // numpy rules
bool same_dtype(InferContext&, size_t i, size_t j);
bool check_axis(InferContext&, int64_t axis, int rank);
bool require_equal(InferContext&, Dim a, Dim b, std::string_view what);  // records the equality if it is undecided
// a <= b for sizes, which may be 0. Recorded, if undecided, as min(a,b) = a; as mod(a,b+1) = a where DimTable::min would decide
// it for symbols >= 1.
bool require_at_most(InferContext&, Dim a, Dim b, std::string_view what);
// Types of the elementwise steps after an integer matmul or convolution `core` with these dims (kQuantOperands of region.h).
bool infer_attention_steps(InferContext&, const std::vector<Dim>& scores, const std::vector<Dim>& result);
bool infer_steps_after(InferContext&, OpKind core, std::span<const RegionStep>, const std::vector<Dim>& dims,
                       std::span<const int64_t> also);
// An f32 operand 0 of an integer matmul or convolution has a zero point and a scale (rounds_operand of region.h).
bool fits_rounded_operand(InferContext&);
// Infers a result that may be quantized. Operand `scale` is its scale, the next operand its zero point, whose type it then has.
// Otherwise its type is t. `fits`: whether a scale or zero point may have this type; default: if it is one number.
bool rounded_result(InferContext&, size_t scale, DType t, std::vector<Dim> dims,
                    const std::function<bool(const Type&)>& fits = {});
// The common type of the elements of two sequences or optionals. An unranked operand contributes no shape.
Type join_elements(DimTable&, const Type&, const Type&);
Dim conv_output_size(DimTable&, Dim in, int64_t kernel, int64_t stride, int64_t pad_begin, int64_t pad_end, int64_t dilation,
                     bool ceil_mode);

}  // namespace rlxc
