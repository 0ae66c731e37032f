#include "kernel/builders/gemm_operands.h"

#include <algorithm>

namespace rlxc::kernel {

bool is_constant(const Index& i, int64_t value) {
  int64_t v = 0;
  return constant(i, &v) && v == value;
}

GemmOperands::GemmOperands(Builder& builder, const GemmSpec& s)
    : b(builder), spec(s), m(s.m.in(b.kernel())), n(s.n.in(b.kernel())), k(s.k.in(b.kernel())) {}

void GemmOperands::add_a() { from_a = b.input(spec.a.name, spec.a.dtype, spec.a.extent); }
void GemmOperands::add_b() { from_b = b.input(spec.b.name, spec.b.dtype, spec.b.extent); }

void GemmOperands::add_zeros() {
  if (spec.a_zero) a_zero_ = b.input(spec.a_zero->name, spec.a_zero->dtype, spec.a_zero->extent);
  if (spec.b_zero) b_zero_ = b.input(spec.b_zero->name, spec.b_zero->dtype, spec.b_zero->extent);
}

void GemmOperands::add_extras_and_c() {
  for (const Operand& o : spec.extras) extras_.push_back(b.input(o.name, o.dtype, o.extent));
  to_c = b.output(spec.c.name, spec.c.dtype, spec.c.extent);
}

Expr GemmOperands::base(const Operand& o) const {
  Expr at = o.offset.in(b.kernel());
  for (size_t d = 0; d < batch.size(); ++d) at = at + batch[d] * o.strides[d].in(b.kernel());
  return at;
}

Expr GemmOperands::at(const Operand& o, Expr row, Expr column) const {
  return base(o) + row * o.strides.end()[-2].in(b.kernel()) + column * o.strides.back().in(b.kernel());
}

Expr GemmOperands::load_a(Expr row, Expr k_index, int lanes) const {
  const Expr v = cast_to(from_a.load(at(spec.a, row, k_index), lanes), spec.accumulate);
  if (!spec.a_zero) return v;
  return v - cast_to(a_zero_.load(base(*spec.a_zero) + row * spec.a_zero->strides.back().in(b.kernel())), spec.accumulate);
}

Expr GemmOperands::load_packed_a(Expr block, int row, Expr k_index) const {
  return from_a.load(at(spec.a, block, k_index) + row);
}

Expr GemmOperands::finish_b(Expr v, Expr column) const {
  v = cast_to(v, spec.accumulate);
  if (!spec.b_zero) return v;
  const Index& step = spec.b_zero->strides.back();
  return v - cast_to(b_zero_.load(base(*spec.b_zero) + column * step.in(b.kernel()), is_constant(step, 0) ? 1 : v.lanes()),
                     spec.accumulate);
}

Expr GemmOperands::load_b(Expr k_index, Expr column, int lanes) const {
  return finish_b(from_b.load(where_b(k_index, column), lanes), column);
}

Expr GemmOperands::load_b_along_k(Expr k_index, Expr column, int lanes) const {
  const Expr v = cast_to(from_b.load(at(spec.b, k_index, column), lanes), spec.accumulate);
  return spec.b_zero ? v - cast_to(b_zero_.load(base(*spec.b_zero) + column * spec.b_zero->strides.back().in(b.kernel())),
                                   spec.accumulate)
                     : v;
}

void GemmOperands::write(Expr row, Expr column, Expr sum) const {
  std::vector<Expr> extra;
  for (size_t i = 0; i < extras_.size(); ++i) {
    const Operand& o = spec.extras[i];
    const int lanes = is_constant(o.strides.back(), 0) ? 1 : sum.lanes();
    extra.push_back(cast_to(extras_[i].load(at(o, row, column), lanes), compute_dtype(o.dtype)));
  }
  const Expr v = cast_to(spec.epilogue ? spec.epilogue(sum, extra) : sum, spec.c.dtype);
  to_c.store(at(spec.c, row, column), broadcast(v, sum.lanes()));
}

bool GemmOperands::b_vectors() const {
  auto fits = [](const Index& step) { return is_constant(step, 1) || is_constant(step, 0); };
  return is_constant(spec.b.strides.back(), 1) && (!spec.b_zero || fits(spec.b_zero->strides.back()));
}

bool GemmOperands::c_vectors() const {
  return is_constant(spec.c.strides.back(), 1) && std::all_of(spec.extras.begin(), spec.extras.end(), [](const Operand& o) {
           return is_constant(o.strides.back(), 1) || is_constant(o.strides.back(), 0);
         });
}

}  // namespace rlxc::kernel
