#include "op_matrix/samples.h"

namespace rlxc::matrix {

using enum OpKind;

// Ops with a data-dependent result: nothing selected, some, all.
std::vector<Sample> extent_samples() {
  std::vector<Sample> all;
  const auto add = [&](OpKind op, std::string what, std::function<ValueId(Operands&)> make) {
    all.push_back({op, std::move(what), 1, std::move(make)});
  };
  struct Contents {
    std::string what;
    double low, high;
  };
  for (const Contents& c : {Contents{"none of ", 0, 0}, Contents{"some of ", -1, 1}, Contents{"all of ", 1, 3}}) {
    const auto whole = [c](Operands& o, std::vector<int64_t> dims) {
      return o.b.cast(o.in(std::move(dims), DType::I32, c.low, c.high), o.dtype);
    };
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {0}, {1}, {7}, {5, 7}, {3, 1, 1031}}) {
      std::string sizes;
      for (int64_t d : dims) sizes += (sizes.empty() ? "" : "x") + std::to_string(d);
      add(NonZero, c.what + "[" + sizes + "]", [=](Operands& o) { return o.op(NonZero, {whole(o, dims)}); });
    }
    add(Gather, c.what + "33 rows", [=](Operands& o) {
      const ValueId found = o.op(NonZero, {whole(o, {33})});
      const ValueId rows = o.b.reshape(found, {o.b.graph().dims(found)[1]});
      return o.op(Gather, {o.in({33, 5}), rows}, AxisAttrs{0});
    });
    for (const bool sorted : {false, true}) {
      const std::string order = sorted ? ", sorted" : "";
      for (int64_t n : {0, 1, 7, 131})
        add(Unique, c.what + std::to_string(n) + order, [=](Operands& o) {
          return o.op(Unique, {whole(o, {n})}, UniqueAttrs{0, true, sorted});
        });
      for (int64_t axis : {0, 1})
        add(Unique, c.what + "7x3 along " + std::to_string(axis) + order, [=](Operands& o) {
          return o.op(Unique, {whole(o, {7, 3})}, UniqueAttrs{axis, false, sorted});
        });
    }
  }
  for (int64_t n : {0, 1, 7, 261})
    for (double least : {-1.0, 0.5, 2.0})
      for (const bool center : {false, true})
        add(NonMaxSuppression, std::to_string(n) + " boxes, score from " + std::to_string(least), [=](Operands& o) {
          if (!is_float(o.dtype)) return ValueId();
          const auto one = [&](double v) { return o.in({1}, o.dtype, v, v); };
          const ValueId boxes = o.in({2, n, 4}, o.dtype, 0, 1), scores = o.in({2, 3, n}, o.dtype, 0, 1);
          return o.op(NonMaxSuppression, {boxes, scores, o.in({1}, DType::I64, 5, 5), one(0.4), one(least)}, NmsAttrs{center});
        });
  for (double length : {-3.0, 0.0, 1.0, 7.0})
    add(Iota, std::to_string(static_cast<int>(length)) + " of 7", [=](Operands& o) {
      if (!is_integer(o.dtype)) return ValueId();
      return o.op(Iota, {o.op(Min, {o.in({}, o.dtype, length, length), o.b.scalar(o.dtype, 7)})});
    });
  for (int64_t n : {0, 1, 5})
    add(ReshapeTo, std::to_string(n) + "x7 to what is left", [=](Operands& o) {
      return o.op(ReshapeTo, {o.in({n, 7}), o.in({1}, DType::I64, -1, -1)});
    });
  return all;
}

}  // namespace rlxc::matrix
