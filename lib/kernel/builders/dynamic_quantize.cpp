#include "kernel/builders/dynamic_quantize.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kThreadParts = 64, kLaneParts = 1024;
constexpr int kChains = 4;        // hide the latency of a comparison
constexpr int64_t kVectors = 16;  // of an iteration

// Calls body(place, lanes) for places first .. last in vectors, then in elements.
template <class F>
void in_vectors(Builder& b, Expr first, Expr last, int lanes, F&& body) {
  const Expr vectors = b.let("vectors", (last - first) / lanes);
  b.loop("v", vectors, [&](Expr v) { body(first + v * lanes, lanes); });
  if (lanes > 1) b.loop("i", last - first - vectors * lanes, [&](Expr i) { body(first + vectors * lanes + i, 1); });
}

}  // namespace

int64_t range_parts(const Mapping& m) { return m.workgroups ? kLaneParts : kThreadParts; }

void build_range(Builder& b, DType dtype, Index count, const Mapping& m) {
  const int64_t parts = range_parts(m);
  const Expr n = count.in(b.kernel());
  Buf x = b.input("x", dtype, n), range = b.output("range", DType::F32, 2 * parts);
  const int lanes = m.workgroups ? 1 : m.vector_lanes(4);
  int64_t known = 1 << 20;
  constant(n, &known);
  for_each(b, m, "part", parts, known / parts * 4, [&](Expr part) {
    Buf low = b.variable("low", b.f32(0)), high = b.variable("high", b.f32(0));
    const auto take = [&](Expr at) {
      const Expr v = b.let("v", cast_to(x.load(at), DType::F32));
      low.set(min(low.get(), v));
      high.set(max(high.get(), v));
    };
    if (m.workgroups) {  // neighbours read neighbours
      b.loop("i", (n - part + (parts - 1)) / parts, [&](Expr i) { take(part + i * parts); });
    } else {
      const int64_t step = int64_t{lanes} * kChains;
      const Expr size = ceil_div(ceil_div(n, parts), step) * step;
      const Expr first = b.let("first", min(part * size, n)), last = b.let("last", min(first + size, n));
      std::vector<Buf> lows, highs;
      for (int s = 0; s < kChains; ++s) {
        lows.push_back(b.variable("lows", broadcast(b.f32(0), lanes)));
        highs.push_back(b.variable("highs", broadcast(b.f32(0), lanes)));
      }
      const Expr steps = b.let("steps", (last - first) / step);
      b.loop("s", steps, [&](Expr s) {
        for (size_t i = 0; i < kChains; ++i) {
          const Expr v = b.let("v", cast_to(x.load(first + s * step + static_cast<int64_t>(i) * lanes, lanes), DType::F32));
          lows[i].set(min(lows[i].get(), v));
          highs[i].set(max(highs[i].get(), v));
        }
      });
      for (size_t i = 1; i < kChains; ++i) {
        lows[0].set(min(lows[0].get(), lows[i].get()));
        highs[0].set(max(highs[0].get(), highs[i].get()));
      }
      low.set(reduce_min(lows[0].get()));
      high.set(reduce_max(highs[0].get()));
      b.loop("i", last - first - steps * step, [&](Expr i) { take(first + steps * step + i); });
    }
    range.store(part * 2, low.get());
    range.store(part * 2 + 1, high.get());
  });
}

void build_range_quantization(Builder& b, const Mapping& m) {
  const int64_t parts = range_parts(m);
  Buf range = b.input("range", DType::F32, 2 * parts), scale = b.output("scale", DType::F32, 1),
      zero = b.output("zero", DType::U8, 1);
  for_each(b, m, "one", 1, 8 * parts, [&](Expr one) {
    Buf low = b.variable("low", b.f32(0)), high = b.variable("high", b.f32(0));
    b.loop("part", parts, [&](Expr part) {
      low.set(min(low.get(), range[part * 2]));
      high.set(max(high.get(), range[part * 2 + 1]));
    });
    const Expr step = b.let("step", (high.get() - low.get()) / 255), s = b.let("s", select(step == b.f32(0), b.f32(1), step));
    scale.store(one, s);
    zero.store(one, cast_to(round_even((0 - low.get()) / s), DType::U8));
  });
}

void build_quantize_by_range(Builder& b, DType dtype, Index count, const Mapping& m) {
  const Expr n = count.in(b.kernel());
  Buf x = b.input("x", dtype, n), scale = b.input("scale", DType::F32, 1), zero = b.input("zero", DType::U8, 1),
      q = b.output("q", DType::U8, n);
  const int lanes = m.workgroups ? 1 : m.vector_lanes(4);
  const int64_t size = m.workgroups ? 1 : lanes * kVectors;
  for_each(b, m, "piece", ceil_div(n, size), 5 * size, [&](Expr piece) {
    const Expr s = b.let("s", scale.load(0)), z = b.let("z", cast_to(zero.load(0), DType::F32));
    const Expr first = b.let("first", piece * size), last = b.let("last", min(first + size, n));
    in_vectors(b, first, last, lanes, [&](Expr at, int width) {
      const Expr v = cast_to(x.load(at, width), DType::F32);
      q.store(at, cast_to(round_even(v / s) + z, DType::U8));
    });
  });
}

}  // namespace rlxc::kernel
