#include "kernel/builders/gemm_operands.h"

#include <algorithm>

namespace rlxc::kernel {

GemmOperands::GemmOperands(Builder& builder, const GemmSpec& s)
    : b(builder), spec(s), m(s.m.in(b.kernel())), n(s.n.in(b.kernel())), k(s.k.in(b.kernel())) {}

void GemmOperands::add_a() { from_a = b.input(spec.a.name, spec.a.dtype, spec.a.extent); }
void GemmOperands::add_b() {
  from_b = b.input(spec.b.name, spec.b.dtype, spec.b.extent);
  if (spec.b_row) b_row = b.input(spec.b_row->name, spec.b_row->dtype, spec.b_row->extent);
  if (!spec.quantized) return;
  const Quantized& c = *spec.quantized;
  if (c.scale) scale = b.input(c.scale->name, c.scale->dtype, c.scale->extent);
  if (c.zero) zero_point = b.input(c.zero->name, c.zero->dtype, c.zero->extent);
}

void GemmOperands::add_zeros() {
  if (spec.a_zero) a_zero = b.input(spec.a_zero->name, spec.a_zero->dtype, spec.a_zero->extent);
  if (spec.b_zero) b_zero = b.input(spec.b_zero->name, spec.b_zero->dtype, spec.b_zero->extent);
  of_rows = FusedInputs(b, spec.prologue.inputs);
  if (!spec.rounded) return;
  const auto& [scale_of_rows, sums, fine] = *spec.rounded;
  row_scales = b.input(scale_of_rows.name, scale_of_rows.dtype, scale_of_rows.extent);
  row_sums = b.input(sums.name, sums.dtype, sums.extent);
  if (fine) row_fine = b.input(fine->name, fine->dtype, fine->extent);
  if (spec.floats) floats = b.input(spec.floats->name, spec.floats->dtype, spec.floats->extent);
}

void GemmOperands::add_fused() { fused = FusedInputs(b, spec.epilogue.inputs); }

void GemmOperands::add_fused_and_c() {
  add_fused();
  to_c = b.output(spec.c.name, spec.c.dtype, spec.c.extent);
  for (const Operand& o : spec.epilogue.also) to_also.push_back(b.output(o.name, o.dtype, o.extent));
}

Expr GemmOperands::base(const Operand& o) const {
  Expr at = o.offset.in(b.kernel());
  for (size_t d = 0; d < batch.size(); ++d) at = at + batch[d] * o.strides[d].in(b.kernel());
  return at;
}

Expr GemmOperands::at(const Operand& o, Expr row, Expr column) const {
  return base(o) + row * o.strides.end()[-2].in(b.kernel()) + column * o.strides.back().in(b.kernel());
}

Expr GemmOperands::base_b() const {
  if (!spec.b_row) return base(spec.b);
  const Expr row = cast_to(b_row.load(batch[0]), DType::I64);
  return min(max(row, 0), spec.b_rows.in(b.kernel()) - 1) * spec.b.strides[0].in(b.kernel());
}

Expr GemmOperands::where_b(Expr k_index, Expr column) const {
  if (spec.b_at) return spec.b_at(batch, k_index, column);
  return base_b() + k_index * spec.b.strides.end()[-2].in(b.kernel()) + column * spec.b.strides.back().in(b.kernel());
}

// Loads element `first` and its neighbours, or one element for all lanes if `step` is 0. Unpacks sub-byte values.
Expr GemmOperands::element(const Buf& from, bool is_quantized, Expr first, int64_t step, int lanes,
                           std::optional<Expr> condition) const {
  if (step == 0) lanes = 1;
  const auto load = [&](Expr i, int n) {
    return condition ? from.load_if(*condition, i, broadcast(constant_int(b.kernel(), from.type().dtype, 0), n), n)
                     : from.load(i, n);
  };
  if (!is_quantized || spec.quantized->bits == 8) return load(first, lanes);
  const int bits = spec.quantized->bits, a_byte = 8 / bits, shift = a_byte == 4 ? 2 : 1;
  const Expr at = lanes > 1 ? ramp(first, 1, lanes) : first, byte = lanes > 1 ? from.gather(at >> shift) : load(at >> shift, 1);
  return cast_to(byte, DType::I32) >> (cast_to(at, DType::I32) & (a_byte - 1)) * bits & ((1 << bits) - 1);
}

// Loads the scale or zero point of elements of b that are neighbours along k or along a row.
Expr GemmOperands::of_block(const Buf& from, const Operand& o, bool is_quantized, Expr k_index, Expr column, int lanes,
                            bool along_k, std::optional<Expr> condition) const {
  const int64_t block = spec.quantized->block;
  const Expr by_block = o.strides.end()[-2].in(b.kernel()), by_column = o.strides.back().in(b.kernel());
  const Expr first = (block ? k_index / block : b.i64(0)) * by_block + column * by_column;
  return element(from, is_quantized, first, along_k || is_constant(o.strides.back(), 0) ? 0 : 1, lanes, condition);
}

Expr GemmOperands::decoded(Expr k_index, Expr column, int lanes, bool along_k) const {
  const Quantized& c = *spec.quantized;
  Expr v = cast_to(c.value(element(from_b, true, where_b(k_index, column), 1, lanes)), spec.accumulate);
  if (c.zero) {
    const Expr zero = of_block(zero_point, *c.zero, c.zero_quantized, k_index, column, lanes, along_k);
    v = v - cast_to(c.zero_quantized ? c.value(zero) : zero, spec.accumulate);
  }
  return c.scale ? v * cast_to(of_block(scale, *c.scale, false, k_index, column, lanes, along_k), spec.accumulate) : v;
}

Expr GemmOperands::scale_of_b(Expr k_index, Expr column, std::optional<Expr> condition) const {
  return cast_to(of_block(scale, *spec.quantized->scale, false, k_index, column, 1, false, condition), DType::F32);
}

Expr GemmOperands::zero_point_of_b(Expr k_index, Expr column, DType type, std::optional<Expr> condition) const {
  const Quantized& c = *spec.quantized;
  if (!c.zero) return b.value(type, 0);
  const Expr zero = of_block(zero_point, *c.zero, c.zero_quantized, k_index, column, 1, false, condition);
  return cast_to(c.zero_quantized ? c.value(zero) : zero, type);
}

Expr GemmOperands::load_a(Expr row, Expr k_index, int lanes) const {
  const Expr v = cast_to(from_a.load(at(spec.a, row, k_index), lanes), spec.accumulate);
  const auto zero = zero_of_a(row);
  return zero ? v - *zero : v;
}

Expr GemmOperands::of_row(const Buf& from, const Operand& o, Expr row, Expr block) const { return from.load(at(o, row, block)); }

Expr GemmOperands::scale_of_row(Expr row, Expr block) const {
  return spec.rounds_rows ? row_scales.load(row * blocks() + block) : of_row(row_scales, spec.rounded->scale, row, block);
}

Expr GemmOperands::sum_of_row(Expr row, Expr block) const {
  return spec.rounds_rows ? row_sums.load(row * blocks() + block) : of_row(row_sums, spec.rounded->sums, row, block);
}

std::optional<Expr> GemmOperands::zero_of_a(Expr row) const {
  if (!spec.a_zero) return std::nullopt;
  return cast_to(a_zero.load(base(*spec.a_zero) + row * spec.a_zero->strides.back().in(b.kernel())), spec.accumulate);
}

std::optional<Expr> GemmOperands::zero_of_b(Expr column, int lanes) const {
  if (!spec.b_zero) return std::nullopt;
  const Index& step = spec.b_zero->strides.back();
  return cast_to(b_zero.load(base(*spec.b_zero) + column * step.in(b.kernel()), is_constant(step, 0) ? 1 : lanes),
                 spec.accumulate);
}

Expr GemmOperands::load_packed_a(Expr block, int row, Expr k_index, int lanes) const {
  return from_a.load(at(spec.a, block, k_index) + row, lanes);
}

Expr GemmOperands::finish_b(Expr v, Expr column) const {
  const auto zero = zero_of_b(column, v.lanes());
  v = cast_to(v, spec.accumulate);
  return zero ? v - *zero : v;
}

Expr GemmOperands::load_b(Expr k_index, Expr column, int lanes) const {
  if (spec.quantized) return decoded(k_index, column, lanes, false);
  return finish_b(from_b.load(where_b(k_index, column), lanes), column);
}

Expr GemmOperands::load_b_along_k(Expr k_index, Expr column, int lanes) const {
  if (spec.quantized) return decoded(k_index, column, lanes, true);
  const Expr v = cast_to(from_b.load(where_b(k_index, column), lanes), spec.accumulate);
  const auto zero = zero_of_b(column, 1);
  return zero ? v - *zero : v;
}

std::vector<Expr> GemmOperands::load_fused(Expr row, Expr column, int lanes, bool down) const {
  std::vector<Expr> all;
  for (size_t i = 0; i < fused.size(); ++i) {
    const Operand& o = fused.operand(i);
    const Index& step = o.strides.end()[down ? -2 : -1];
    const Expr first = at(o, row, column);
    int64_t distance = 0;
    const bool known = constant(step, &distance);
    const int own = known && distance == 0 ? 1 : lanes;
    if (own == 1 || (known && distance == 1)) all.push_back(fused.load(i, first, own));
    else if (known) all.push_back(fused.gather(i, ramp(first, distance, own)));
    else all.push_back(fused.gather(i, broadcast(first, own) + ramp(b.i64(0), 1, own) * broadcast(step.in(b.kernel()), own)));
  }
  return all;
}

void GemmOperands::write(Expr row, Expr column, Expr sum, std::optional<Expr> second, bool down) const {
  const int lanes = sum.lanes();
  std::vector<Expr> sums{sum};
  if (second) sums.push_back(*second);
  std::vector<Expr> values = fused_values(spec.epilogue.body, sums, load_fused(row, column, lanes, down));
  if (!to_also.empty())
    for (Expr& v : values) v = b.let("value", v);
  const auto put = [&](const Buf& to, const Operand& o, Expr v) {
    const Expr first = at(o, row, column), all = broadcast(cast_to(v, o.dtype), lanes);
    if (lanes == 1 || is_constant(o.strides.end()[down ? -2 : -1], 1)) return to.store(first, all);
    const Buf part = b.registers("part", o.dtype, lanes);
    part.store(b.i64(0), all);
    b.loop("l", lanes, [&](Expr l) { to.store(first + l * o.strides.back().in(b.kernel()), part.load(l)); });
  };
  put(to_c, spec.c, values[0]);
  for (size_t i = 0; i < to_also.size(); ++i) put(to_also[i], spec.epilogue.also[i], values[i + 1]);
}

void GemmOperands::write_line(Expr row, Expr column0, int64_t width, const Buf& from, Expr place, int lanes) const {
  const bool wide = c_vectors() && lanes > 1;
  const auto put = [&](Expr i, int count) {
    const Expr sum = from.load(place + i, count);
    write(row, column0 + i, sum, spec.two_sums ? std::optional(from.load(place + width + i, count)) : std::nullopt);
  };
  if (wide && is_constant(n % width, 0)) {
    for (int64_t v = 0; v < width; v += lanes) put(b.i64(v), lanes);
    return;
  }
  const Expr count = b.let("columns", min(n - column0, width)), done = wide ? count / lanes : b.i64(0);
  if (wide) b.loop("v", done, [&](Expr v) { put(v * lanes, lanes); });
  b.loop("j", count - done * lanes, [&](Expr j) { put(done * lanes + j, 1); });
}

bool GemmOperands::b_vectors() const {
  auto fits = [](const Index& step) { return is_constant(step, 1) || is_constant(step, 0); };
  for (const auto* o : {spec.quantized ? &spec.quantized->scale : nullptr, spec.quantized ? &spec.quantized->zero : nullptr})
    if (o && *o && !fits((*o)->strides.back())) return false;
  return is_constant(spec.b.strides.back(), 1) && (!spec.b_zero || fits(spec.b_zero->strides.back()));
}

bool GemmOperands::c_vectors() const {
  const auto fits = [](const Operand& o) { return is_constant(o.strides.back(), 1); };
  return fits(spec.c) && std::ranges::all_of(spec.epilogue.also, fits);
}

int64_t GemmOperands::lanes_of_writes(int64_t most) const {
  const auto lanes = [&](const Operand& o) {
    return is_constant(o.strides.back(), 0) ? most : contiguous_lanes(o, o.strides.size() - 1, n, most);
  };
  most = lanes(spec.c);
  for (const auto* all : {&spec.epilogue.inputs, &spec.epilogue.also})
    for (const Operand& o : *all) most = std::min(most, lanes(o));
  return most;
}

bool GemmOperands::c_down() const {
  const auto down = [](const Operand& o) { return !is_constant(o.strides.back(), 1) && is_constant(o.strides.end()[-2], 1); };
  return down(spec.c) && std::ranges::all_of(spec.epilogue.also, down);
}

}  // namespace rlxc::kernel
