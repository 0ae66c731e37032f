#include "kernel/builders/resample.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kUnrolledTaps = 8;

}  // namespace

void build_resample(Builder& b, const ResampleSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const auto input = [&](const Operand& o) { return b.input(o.name, o.dtype, o.extent); };
  const Buf at = input(s.at), weight = input(s.weight), x = input(s.x);
  const FusedInputs inputs(b, s.epilogue.inputs);
  const Buf y = b.output(s.y.name, s.y.dtype, s.y.extent);
  const Expr in = s.in.in(k), out = s.out.in(k), inner = s.inner.in(k);
  const DType t = s.weight.dtype;
  // Stores `lanes` elements of result i of a slice from element e on.
  const auto points = [&](Expr outer, Expr i, Expr e, int lanes) {
    const auto term = [&](Expr sum, Expr tap) {
      const Expr place = (outer * in + at.load(i * s.taps + tap)) * inner + e;
      return fma(broadcast(weight.load(i * s.taps + tap), lanes), cast_to(x.load(place, lanes), t), sum);
    };
    Expr total = broadcast(constant(k, t, 0), lanes);
    if (s.taps <= kUnrolledTaps) {
      for (int64_t tap = 0; tap < s.taps; ++tap) total = term(total, b.i64(tap));
    } else {
      Buf sum = b.variable("sum", total);
      b.loop("tap", s.taps, [&](Expr tap) { sum.set(term(sum.get(), tap)); });
      total = sum.get();
    }
    const Expr value = inputs.values(s.epilogue.body, {&total, 1}, {outer, i, e})[0];
    y.store((outer * out + i) * inner + e, cast_to(value, s.y.dtype));
  };
  int64_t width = 64, length = 64;
  constant(s.inner, &width);
  constant(s.out, &length);
  const int64_t bytes = 4 * (s.taps + 1);
  if (width == 1)
    return for_each(b, m, "row", s.outer, bytes * length,
                    [&](Expr row) { b.loop("i", out, [&](Expr i) { points(row, i, b.i64(0), 1); }); });
  int lanes = m.vector_lanes(rlxc::bits(t) / 8);
  while (lanes > width) lanes /= 2;
  for_each(b, m, "row", s.outer.in(k)*out, bytes * width, [&](Expr row) {
    const Expr outer = b.let("outer", row / out), i = b.let("i", row % out);
    b.loop("v", inner / lanes, [&](Expr v) { points(outer, i, v * lanes, lanes); });
    if (!is_multiple(s.inner, lanes)) b.loop("e", inner % lanes, [&](Expr e) { points(outer, i, inner / lanes * lanes + e, 1); });
  });
}

}  // namespace rlxc::kernel
