// Creates nodes with inferred types. If a node does not type-check, no node is created, the reason goes to the diagnostics, and
// the result is invalid. An invalid operand gives an invalid result without a diagnostic.
#pragma once
#include <initializer_list>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

class Builder {
 public:
  // Inserts new nodes before `before`, or at the end.
  explicit Builder(Graph& g, Diagnostics* diagnostics = nullptr, NodeId before = {})
      : graph_(g), diagnostics_(diagnostics), before_(before) {}

  Graph& graph() { return graph_; }
  Module& module() { return graph_.module(); }
  DimTable& dims() { return module().dims; }
  void insert_before(NodeId n) { before_ = n; }
  NodeId insertion_point() const { return before_; }
  void set_node_name(Symbol s) { name_ = s; }          // for all nodes created later
  const std::string& error() const { return error_; }  // reason why the last create failed

  NodeId create_node(OpKind, std::span<const ValueId> operands, Attrs, std::span<const GraphId> bodies = {});
  ValueId create(OpKind, std::span<const ValueId> operands, Attrs);
  ValueId create(OpKind, std::initializer_list<ValueId> operands, Attrs);
  ValueId create(OpKind, std::initializer_list<ValueId> operands);

  ValueId input(std::string_view name, Type);
  ValueId param(std::string_view name, Type, DataId = {});
  ValueId constant(TensorData);
  ValueId scalar(DType, double);       // rank 0
  ValueId ints(std::vector<int64_t>);  // i64 vector

  ValueId add(ValueId a, ValueId b) { return create(OpKind::Add, {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return create(OpKind::Sub, {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return create(OpKind::Mul, {a, b}); }
  ValueId div(ValueId a, ValueId b) { return create(OpKind::Div, {a, b}); }
  ValueId unary(OpKind op, ValueId x) { return create(op, {x}); }
  ValueId cast(ValueId, DType);  // returns the operand if it has the type
  ValueId matmul(ValueId a, ValueId b, bool trans_a = false, bool trans_b = false) {
    return create(OpKind::MatMul, {a, b}, MatMulAttrs{trans_a, trans_b});
  }
  ValueId reshape(ValueId, std::vector<Dim>);             // returns the operand if the shapes are equal
  ValueId transpose(ValueId, std::vector<int64_t> perm);  // returns the operand for the identity
  ValueId expand(ValueId, std::vector<Dim>);
  ValueId narrow(ValueId, int64_t axis, Dim start, Dim len);
  ValueId concat(std::span<const ValueId>, int64_t axis);
  ValueId reduce(ReduceOp, ValueId, std::vector<int64_t> axes, bool keep_dim);

 private:
  Graph& graph_;
  Diagnostics* diagnostics_;
  NodeId before_;
  Symbol name_;
  std::string error_;
  std::vector<const Type*> operand_types_;  // of the node that is created
  std::vector<TypeId> result_types_;
};

}  // namespace rlxc
