// Short forms for handlers that compose many elementwise ops.
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

inline ValueId integer(Op& op, int64_t v) { return op.b.scalar(DType::I64, static_cast<double>(v)); }
inline ValueId compute(Op& op, OpKind kind, ValueId a, ValueId b) { return op.b.create(kind, {a, b}); }
inline ValueId select(Op& op, ValueId condition, ValueId yes, ValueId no) {
  return op.b.create(OpKind::Where, {condition, yes, no});
}
inline std::vector<Dim> dims_of(Op& op, ValueId x) { return {op.graph().dims(x).begin(), op.graph().dims(x).end()}; }

}  // namespace rlxc::onnx_import
