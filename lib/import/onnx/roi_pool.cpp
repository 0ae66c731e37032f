// MaxRoiPool: the maximum of each cell of a region (Girshick, Fast R-CNN, 2015). Cell borders are integers that depend on data: a
// cell is a row mask and a column mask, and the maximum is taken over columns, then rows.
#include <limits>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

// Operands: x [N,C,H,W], regions [R,5]: batch, x1, y1, x2, y2 (inclusive).
void max_roi_pool(Op& op) {
  const auto cells = op.ints("pooled_shape");
  if (op.rank(0) != 4 || op.rank(1) != 2 || op.sizes(1)[1] != Dim(5))
    return (void)op.fail(Code::BadShape, "needs x [N,C,H,W] and regions [R,5]: " + op.show(0) + ", " + op.show(1));
  if (cells.size() != 2 || cells[0] < 1 || cells[1] < 1 || cells[0] > 4096 || cells[1] > 4096)
    return (void)op.fail(Code::BadAttribute, "pooled_shape needs two positive entries");
  Builder& b = op.b;
  const DType t = op.dtype(0) == DType::F64 ? DType::F64 : DType::F32;
  const auto real = [&](double v) { return b.scalar(t, v); };
  const std::vector<Dim> x = op.sizes(0);
  const Dim regions = op.sizes(1)[0];
  const ValueId rois = b.cast(op.in(1), t), lowest = b.scalar(op.dtype(0), -std::numeric_limits<double>::infinity());
  const auto column = [&](int64_t i) { return b.reshape(b.narrow(rois, 1, Dim(i), Dim(1)), {regions, Dim(1), Dim(1)}); };
  const auto border = [&](int64_t i) {  // in pixels, halves away from 0
    const ValueId v = b.mul(column(i), real(op.f("spatial_scale", 1)));
    return b.mul(b.unary(OpKind::Sign, v), b.unary(OpKind::Floor, b.add(b.unary(OpKind::Abs, v), real(0.5))));
  };
  // bool [regions, cells, n]: whether a cell covers a position of the axis.
  const auto covered = [&](int64_t from, int64_t count, Dim n) {
    const ValueId start = border(from), length = b.create(OpKind::Max, {b.add(b.sub(border(from + 2), start), real(1)), real(1)});
    const ValueId cell = b.div(length, real(static_cast<double>(count)));
    const ValueId which =
        b.reshape(b.create(OpKind::Range, {real(0), real(1)}, DimsAttrs{{Dim(count)}, false}), {Dim(count), Dim(1)});
    const ValueId at = b.create(OpKind::Range, {real(0), real(1)}, DimsAttrs{{n}, false});
    const ValueId low = b.add(start, b.unary(OpKind::Floor, b.mul(which, cell))),
                  high = b.add(start, b.unary(OpKind::Ceil, b.mul(b.add(which, real(1)), cell)));
    return b.create(OpKind::And, {b.create(OpKind::Ge, {at, low}), b.create(OpKind::Lt, {at, high})});
  };
  const Dim ph(cells[0]), pw(cells[1]);
  const ValueId batch = b.cast(b.reshape(b.narrow(rois, 1, Dim(0), Dim(1)), {regions}), DType::I64);
  const ValueId images = b.create(OpKind::Gather, {op.in(0), batch}, AxisAttrs{0});
  const ValueId columns = b.create(OpKind::Where, {b.reshape(covered(1, cells[1], x[3]), {regions, Dim(1), Dim(1), pw, x[3]}),
                                                   b.reshape(images, {regions, x[1], x[2], Dim(1), x[3]}), lowest});
  const ValueId strips = b.transpose(b.reduce(ReduceOp::Max, columns, {4}, false), {0, 1, 3, 2});  // [R,C,pw,H]
  const ValueId rows = b.create(OpKind::Where, {b.reshape(covered(2, cells[0], x[2]), {regions, Dim(1), ph, Dim(1), x[2]}),
                                                b.reshape(strips, {regions, x[1], Dim(1), pw, x[2]}), lowest});
  const ValueId y = b.reduce(ReduceOp::Max, rows, {4}, false);
  op.set(0, b.create(OpKind::Where, {b.create(OpKind::Eq, {y, lowest}), b.scalar(op.dtype(0), 0), y}));  // empty cells yield 0
}

}  // namespace rlxc::onnx_import
