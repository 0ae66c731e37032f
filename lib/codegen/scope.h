// Tools of the lowering functions (lower_*.cpp): the node being lowered, and a kernel under construction.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/capability.h"
#include "codegen/node_kernels.h"
#include "ir/layout.h"
#include "kernel/builders/fused_io.h"

namespace rlxc::codegen {

using kernel::Buf, kernel::Dims, kernel::Expr, kernel::Index, kernel::Operand;

// The node being lowered, and the result.
struct Node {
  const Graph& graph;
  const GraphLayouts& layouts;
  NodeId id;
  const CapabilityRow& row;
  std::span<const PrepackedBuffer> prepacked = {};  // of this node; may be empty
  NodeKernels out = {};
  std::string reason = {};  // why there are no kernels

  OpKind op() const { return graph.op(id); }
  template <class A>
  const A& attrs() const {
    return graph.attrs<A>(id);
  }
  bool has(size_t i) const { return graph.operand(id, i).valid(); }
  ValueId in(size_t i) const { return graph.operand(id, i); }
  ValueId result(size_t i = 0) const { return graph.result(id, i); }
  std::span<const Dim> dims(size_t i) const { return graph.dims(in(i)); }
  std::span<const Dim> result_dims(size_t i = 0) const { return graph.dims(result(i)); }
  DType dtype(size_t i) const { return graph.dtype(in(i)); }
  DType result_dtype(size_t i = 0) const { return graph.dtype(result(i)); }
  DimTable& table() const { return graph.module().dims; }
  DType wide() const {
    return row.dtypes.test(static_cast<size_t>(DType::F64)) ? DType::F64 : DType::F32;
  }  // type to accumulate in
  const kernel::Mapping& mapping() const { return row.mapping; }
  bool fail(std::string message) {
    reason = std::move(message);
    return false;
  }
  uint32_t scratch(DType t, Dim elements, bool on_load = false) {
    out.scratch.push_back({t, elements, on_load});
    return static_cast<uint32_t>(out.scratch.size() - 1);
  }
  // Returns the scratch buffer of this operand's prepacked form, or nullopt.
  std::optional<uint32_t> prepacked_operand(uint32_t i) {
    for (const PrepackedBuffer& p : prepacked)
      if (!p.operands.empty() && p.operands[0] == i) return scratch(p.dtype, p.elements, true);
    return std::nullopt;
  }
};

// One kernel of a node. Dims that are not constant become symbols of the kernel. Call in(), out() and scratch() in the order in
// which the builder adds its arguments.
class Scope {
 public:
  explicit Scope(Node& node, std::string_view part = {});

  kernel::Builder& builder() { return *builder_; }
  kernel::Kernel* kernel() { return builder_->kernel(); }
  Index size(Dim);
  Index parameter(std::string_view name,
                  Dim);  // always a symbol, even if constant: launches with other values share the kernel
  Dims shape(std::span<const Dim>);

  Operand in(size_t i);                           // in its own shape; row-major unless its layout differs
  Operand in(size_t i, std::span<const Dim> to);  // broadcast to a larger shape
  Operand out(size_t i = 0);
  Operand scratch(uint32_t i);
  Operand extent(uint32_t i = 0);  // one element: a data-dependent dim of the node (Binding::Kind::Extent)
  Operand bad_indices();           // one element: a counter (Binding::Kind::BadIndices)
  // Quantizes the result by the operands from `scale` on: scale and zero point, and dequantizes it by a third one. `has_factor`:
  // the operand before them multiplies the result. They are numbers, or vectors along `axis` of the result's `axes` axes. Empty
  // if the node has no scale.
  kernel::Epilogue quantized_result(size_t scale, size_t axes, bool has_factor = false, size_t axis = 0);
  Buf in_buf(size_t i);  // adds it to the kernel as an input
  Buf out_buf(size_t i = 0);
  void bind(Binding b) { launch_.buffers.push_back(b); }
  std::vector<std::pair<std::string, DType>> outputs();  // all results, for build_generate
  void may_alias();                                      // results may share memory with operands at equal indices

  // Launches the kernel of a grid only in runs in which the dim is 1, or only in the others.
  void launch_if(Dim, bool is_one);
  // Simplifies the kernel and adds a launch of it.
  void finish(bool on_load = false, bool copies = false);

 private:
  Operand dense(std::string name, ValueId);
  void step_over(ValueId, Operand*);

  Node& node_;
  std::unique_ptr<kernel::Builder> builder_;
  Launch launch_;
  std::vector<std::pair<Dim, Expr>> sizes_;
  std::optional<Expr> launched_;  // 1 in runs that launch the kernel, 0 in others
};

// Moves the first element of the operand to this position of an axis.
void start_at(kernel::Kernel*, size_t axis, const Index&, Operand*);

}  // namespace rlxc::codegen
