#include "op_matrix/samples.h"

namespace rlxc::matrix {

using enum OpKind;

std::vector<Sample> movement_samples() {
  std::vector<Sample> all;
  const auto add = [&](OpKind op, std::string what, std::function<ValueId(Operands&)> make) {
    all.push_back({op, std::move(what), 1, std::move(make)});
  };
  add(Reshape, "2x3x5 as 6x5", [](Operands& o) { return o.op(Neg, {o.b.reshape(o.in({2, 3, 5}), {6, 5})}); });
  add(Reshape, "of a transposed value", [](Operands& o) { return o.b.reshape(o.turned(7, 5), {35}); });
  for (const std::vector<int64_t>& perm : {std::vector<int64_t>{1, 0, 2}, {2, 1, 0}, {0, 2, 1}})
    add(Transpose, "3x37x5 by " + std::to_string(perm[0]) + std::to_string(perm[1]) + std::to_string(perm[2]), [=](Operands& o) {
      return o.op(Transpose, {o.in({3, 37, 5})}, PermAttrs{perm});
    });
  add(Transpose, "0x3", [](Operands& o) { return o.turned(3, 0); });
  add(Transpose, "129x65", [](Operands& o) { return o.turned(129, 65); });
  for (int64_t axis : {0, 1, 2}) {
    const std::string of = " of axis " + std::to_string(axis);
    add(Narrow, "2" + of, [=](Operands& o) { return o.b.narrow(o.in({3, 5, 4}), axis, Dim(1), Dim(2)); });
    add(Slice, "every second" + of, [=](Operands& o) {
      return o.op(Slice, {o.in({3, 5, 4})}, SliceAttrs{axis, Dim(1), Dim(1), 2});
    });
    add(Slice, "backwards" + of, [=](Operands& o) {
      return o.op(Slice, {o.in({3, 5, 4})}, SliceAttrs{axis, Dim(2), Dim(3), -1});
    });
    add(Concat, "three" + of, [=](Operands& o) {
      std::vector<ValueId> parts;
      for (int64_t n : {1, 0, 6}) {
        std::vector<int64_t> dims = {3, 5, 4};
        dims[static_cast<size_t>(axis)] = n;
        parts.push_back(o.in(dims));
      }
      return o.b.concat(parts, axis);
    });
    add(Reverse, "" + of.substr(4), [=](Operands& o) { return o.op(Reverse, {o.in({3, 5, 4})}, AxesAttrs{{axis}}); });
    add(Gather, "2x3 along" + of.substr(3), [=](Operands& o) {
      return o.op(Gather, {o.in({3, 5, 4}), o.index({2, 3}, 3)}, AxisAttrs{axis});
    });
    add(Gather, "none along" + of.substr(3), [=](Operands& o) {
      return o.op(Gather, {o.in({3, 5, 4}), o.index({0}, 3)}, AxisAttrs{axis});
    });
    add(GatherElements, "along" + of.substr(3), [=](Operands& o) {
      return o.op(GatherElements, {o.in({3, 5, 4}), o.index({3, 3, 3}, 3)}, AxisAttrs{axis});
    });
    for (Reduction r : {Reduction::None, Reduction::Add, Reduction::Mul, Reduction::Max, Reduction::Min})
      add(ScatterElements, std::string(enum_names(r)[static_cast<size_t>(r)]) + " along" + of.substr(3), [=](Operands& o) {
        // Without a reduction, indices must be distinct: one row of updates.
        std::vector<int64_t> dims = {3, 3, 3};
        if (r == Reduction::None) dims[static_cast<size_t>(axis)] = 1;
        return o.op(ScatterElements, {o.in({3, 5, 4}), o.index(dims, 3), o.in(dims)}, ScatterAttrs{axis, r});
      });
    add(OneHot, "at" + of.substr(3), [=](Operands& o) {
      return o.op(OneHot, {o.index({3, 4}, 5), o.in({2})}, OneHotAttrs{axis, Dim(5)});
    });
  }
  add(Expand, "scalar", [](Operands& o) { return o.b.expand(o.in({}), {3, 5}); });
  add(Expand, "3x1x5", [](Operands& o) { return o.b.expand(o.in({3, 1, 5}), {2, 3, 4, 5}); });
  add(Expand, "to none", [](Operands& o) { return o.b.expand(o.in({1, 5}), {0, 5}); });
  add(Tile, "2x3 by 3x2", [](Operands& o) { return o.op(Tile, {o.in({2, 3})}, DimsAttrs{{3, 2}, false}); });
  for (PadMode mode : {PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap})
    add(Pad, std::string(enum_names(mode)[static_cast<size_t>(mode)]), [=](Operands& o) {
      return o.op(Pad, {o.in({2, 4, 5})}, PadAttrs{{Dim(0), Dim(2), Dim(1)}, {Dim(0), Dim(1), Dim(3)}, mode});
    });
  add(Pad, "constant given, crops", [](Operands& o) {
    return o.op(Pad, {o.in({4, 5}), o.in({})}, PadAttrs{{Dim(1), o.b.dims().constant(-1)}, {Dim(0), Dim(2)}, PadMode::Constant});
  });
  for (bool upper : {false, true})
    for (int64_t k : {-1, 0, 3})
      add(Trilu, std::string(upper ? "upper " : "lower ") + std::to_string(k), [=](Operands& o) {
        return o.op(Trilu, {o.in({2, 5, 7})}, TriluAttrs{upper, k});
      });
  add(GatherNd, "pairs", [](Operands& o) { return o.op(GatherNd, {o.in({3, 3, 5}), o.index({4, 2}, 3)}, BatchDimsAttrs{0}); });
  add(GatherNd, "batched", [](Operands& o) {
    return o.op(GatherNd, {o.in({2, 3, 5}), o.index({2, 4, 1}, 3)}, BatchDimsAttrs{1});
  });
  for (Reduction r : {Reduction::Add, Reduction::Mul, Reduction::Max, Reduction::Min})
    add(ScatterNd, std::string(enum_names(r)[static_cast<size_t>(r)]), [=](Operands& o) {
      return o.op(ScatterNd, {o.in({3, 3, 5}), o.index({4, 2}, 3), o.in({4, 5})}, ScatterAttrs{0, r});
    });
  add(Range, "7", [](Operands& o) { return o.op(Range, {o.in({}), o.in({})}, DimsAttrs{{Dim(7)}, false}); });
  for (ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic})
    for (CoordMode coord : {CoordMode::HalfPixel, CoordMode::AlignCorners, CoordMode::Asymmetric, CoordMode::PytorchHalfPixel})
      add(Resize,
          std::string(enum_names(mode)[static_cast<size_t>(mode)]) + " " +
              std::string(enum_names(coord)[static_cast<size_t>(coord)]),
          [=](Operands& o) {
            // If an interpolated integer is exact, rounding errors decide its truncation.
            if (mode != ResizeMode::Nearest && !is_float(o.dtype)) return ValueId();
            ResizeAttrs a;
            a.sizes = {Dim(1), Dim(2), Dim(9), Dim(3)}, a.mode = mode, a.coord = coord;
            return o.op(Resize, {o.in({1, 2, 5, 7})}, a);
          });
  add(Resize, "linear, twice the size", [](Operands& o) {  // exact weights: 1/4 and 3/4
    ResizeAttrs a;
    a.sizes = {Dim(2), Dim(10), Dim(14)}, a.mode = ResizeMode::Linear;
    return o.op(Resize, {o.in({2, 5, 7})}, a);
  });
  return all;
}

}  // namespace rlxc::matrix
