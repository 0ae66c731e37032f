#include "kernel/builders/round_rows.h"

namespace rlxc::kernel {
namespace {

constexpr double kMostCode = 127;
constexpr int64_t kMagnitude = 0x7FFFFFFF;  // the bits of an f32 without its sign

}  // namespace

void build_round_rows(Builder& b, const RoundRowsSpec& s, const Mapping& m) {
  Buf x = b.input(s.x.name, s.x.dtype, s.x.extent), values = b.output(s.values.name, s.values.dtype, s.values.extent);
  Buf scales, sums;
  if (s.scale) scales = b.output(s.scale->name, s.scale->dtype, s.scale->extent);
  if (s.sums) sums = b.output(s.sums->name, s.sums->dtype, s.sums->extent);
  Kernel* kernel = b.kernel();
  const Expr k = s.k.in(kernel), block = s.block ? b.i64(s.block) : k, blocks = s.block ? k / s.block : b.i64(1);
  int lanes = m.workgroups || !is_constant(s.x.strides.back(), 1) ? 1 : m.vector_lanes(4);
  while (!is_multiple(block, lanes)) lanes /= 2;
  int64_t bytes = 256;
  constant(block, &bytes);
  for_each(b, m, "entry", product(kernel, s.rows) * blocks, 5 * bytes, [&](Expr entry) {
    const Expr row = b.let("row", entry / blocks), first = b.let("first", entry % blocks * block);
    std::vector<Expr> index = split_index(row, s.rows);
    index.push_back(first);
    const Expr from = b.let("from", element_at(kernel, s.x, index)), to = b.let("to", row * k + first);
    const auto load = [&](Expr j) { return cast_to(x.load(from + j * s.x.strides.back().in(kernel), lanes), DType::F32); };
    // Magnitudes are ordered as their bits are, those of NaN last.
    Buf most = b.variable("most", broadcast(b.value(DType::I32, 0), lanes));
    b.loop("j", block / lanes,
           [&](Expr j) { most.set(max(most.get(), bitcast_to(load(j * lanes), Type(DType::I32, lanes)) & kMagnitude)); });
    const Expr scale = b.let("scale", bitcast_to(reduce_max(most.get()), Type(DType::F32)) / kMostCode);
    const Expr inverse = b.let("inverse", select(scale != 0, 1 / scale, 0));
    Buf sum = b.variable("sum", broadcast(b.value(DType::I32, 0), lanes));
    b.loop("j", block / lanes, [&](Expr j) {
      const Expr code = b.let("code", cast_to(round_even(load(j * lanes) * inverse), DType::I32));
      values.store(to + j * lanes,
                   s.scale ? cast_to(code, DType::I8) : cast_to(cast_to(code, DType::F32) * scale, s.values.dtype));
      if (s.sums) sum.set(sum.get() + code);
    });
    if (s.scale) scales.store(entry, scale);
    if (s.sums) sums.store(entry, reduce_add(sum.get()));
  });
}

}  // namespace rlxc::kernel
