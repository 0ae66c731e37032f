#include "op_matrix/samples.h"

namespace rlxc::matrix {

using enum OpKind;

std::vector<Sample> reduction_samples() {
  std::vector<Sample> all;
  const auto add = [&](OpKind op, std::string what, int64_t terms, std::function<ValueId(Operands&)> make) {
    all.push_back({op, std::move(what), terms, std::move(make)});
  };
  struct Case {
    std::string what;
    std::vector<int64_t> dims, axes;
    int64_t terms;
  };
  const std::vector<Case> cases = {{"rows of 5x7", {5, 7}, {1}, 7},
                                   {"columns of 5x7", {5, 7}, {0}, 5},
                                   {"all of 3x5x7", {3, 5, 7}, {0, 1, 2}, 105},
                                   {"outer of 3x5x7", {3, 5, 7}, {0, 2}, 21},
                                   {"rows of 1031", {2, 1031}, {1}, 1031},
                                   {"rows of one", {5, 1}, {1}, 1},
                                   {"no rows", {0, 3}, {1}, 1}};
  for (size_t r = 0; r < enum_names(ReduceOp{}).size(); ++r)
    for (const Case& c : cases)
      add(Reduce, std::string(enum_names(ReduceOp{})[r]) + " of " + c.what, c.terms, [=](Operands& o) {
        const auto op = static_cast<ReduceOp>(r);
        if (op == ReduceOp::LogSum) o.range(1, 2);
        if (op == ReduceOp::Prod) o.range(0.9, 1.1);
        return o.b.reduce(op, o.in(c.dims), c.axes, c.terms % 2 == 1);
      });
  for (const bool rows : {false, true})
    for (const Case& c : cases)
      if (!rows || static_cast<size_t>(c.axes.front()) + c.axes.size() == c.dims.size())
        add(ReduceRegion, (rows ? "by the mean of products, " : "mean of products of ") + c.what, c.terms, [=](Operands& o) {
          FusionAttrs a;
          const auto step = [&](OpKind op, uint16_t x, uint16_t y) {
            a.steps.push_back({op, o.dtype, {x, y, RegionStep::kNone}});
            if (op == Reduce) a.steps.back().attrs = ReduceAttrs{ReduceOp::Mean, c.axes, true};
          };
          step(Mul, 0, 1);
          step(Reduce, RegionStep::kStep, RegionStep::kNone);
          step(Max, RegionStep::kStep | 1, 2);
          if (rows) step(Sub, RegionStep::kStep, RegionStep::kStep | 2);
          std::vector<int64_t> kept = c.dims, row = {c.dims.back()};
          for (int64_t axis : c.axes) kept[static_cast<size_t>(axis)] = 1;
          return is_float(o.dtype) ? o.op(ReduceRegion, {o.in(c.dims), o.in(row), o.in(kept)}, a) : ValueId();
        });
  for (int64_t axis : {0, 1})
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{5, 7}, {33, 129}, {1, 1}}) {
      const std::string what = std::to_string(dims[0]) + "x" + std::to_string(dims[1]) + " axis " + std::to_string(axis);
      const int64_t n = dims[static_cast<size_t>(axis)];
      add(Softmax, what, n, [=](Operands& o) { return o.op(Softmax, {o.in(dims)}, AxisAttrs{axis}); });
      add(LogSoftmax, what, n, [=](Operands& o) { return o.op(LogSoftmax, {o.in(dims)}, AxisAttrs{axis}); });
      for (bool largest : {false, true}) {
        const std::string order = (largest ? "largest " : "smallest ") + what;
        add(ArgReduce, order, 1, [=](Operands& o) {
          return o.op(ArgReduce, {o.in(dims)}, ArgAttrs{axis, largest, true, !largest});
        });
        add(TopK, order, 1, [=](Operands& o) {
          return o.op(TopK, {o.in(dims)}, TopKAttrs{Dim((n + 1) / 2), axis, largest, true});
        });
      }
      for (bool exclusive : {false, true})
        add(Cumsum, (exclusive ? "exclusive, reverse " : "") + what, n, [=](Operands& o) {
          return o.op(Cumsum, {o.in(dims)}, CumAttrs{axis, exclusive, exclusive});
        });
      add(LayerNorm, what, n, [=](Operands& o) {
        std::vector<int64_t> tail(dims.begin() + axis, dims.end());
        return o.op(LayerNorm, {o.in(dims), o.in(tail), o.in(tail)}, NormAttrs{axis, 1e-3});
      });
      add(RmsNorm, what, n, [=](Operands& o) {
        return o.op(RmsNorm, {o.in(dims), o.in({dims.begin() + axis, dims.end()})}, NormAttrs{axis, 1e-3});
      });
    }
  for (OpKind op : {FusedResidualLN, FusedResidualRmsNorm})
    add(op, "5x33", 33, [=](Operands& o) {
      return o.op(op, {o.in({5, 33}), o.in({5, 33}), o.in({33}), o.in({33}), o.in({33})}, NormAttrs{1, 1e-3});
    });
  add(GroupNorm, "2 of 6 channels", 45, [](Operands& o) {
    return o.op(GroupNorm, {o.in({2, 6, 3, 5}), o.in({6}), o.in({6})}, GroupNormAttrs{2, 1e-3});
  });
  add(BatchNormInference, "4 channels", 1, [](Operands& o) {
    return o.op(BatchNormInference, {o.in({2, 4, 3}), o.in({4}), o.in({4}), o.in({4}), o.positive({4})}, NormAttrs{1, 1e-3});
  });
  add(Lrn, "3 of 5 channels", 3, [](Operands& o) { return o.op(Lrn, {o.in({2, 5, 3, 3})}, LrnAttrs{3, 0.1, 0.75, 1}); });
  for (int64_t n : {1, 7, 16, 60})
    for (bool inverse : {false, true})
      add(Fft, std::to_string(n) + (inverse ? " inverse" : ""), n, [=](Operands& o) {
        return o.op(Fft, {o.in({2, n, 2})}, FftAttrs{1, inverse, false, inverse ? FftNorm::InverseN : FftNorm::None, Dim(0)});
      });
  add(FusedSwiGLU, "5x14", 1, [](Operands& o) { return o.op(FusedSwiGLU, {o.in({5, 14})}); });
  for (ReduceOp r : {ReduceOp::Max, ReduceOp::Mean})
    for (int64_t pad : {0, 1})
      add(Pool, std::string(enum_names(r)[static_cast<size_t>(r)]) + (pad ? " padded" : ""), 6, [=](Operands& o) {
        PoolAttrs a;
        a.op = r;
        a.kernel = {2, 3};
        a.strides = {2, 1};
        a.pads_begin = {pad, pad};
        a.pads_end = {0, pad};
        a.dilations = {1, 1};
        a.ceil_mode = pad == 1;
        return o.op(Pool, {o.in({2, 3, 7, 5})}, a);
      });
  return all;
}

}  // namespace rlxc::matrix
