#include "kernel/builders/fused_io.h"

#include <algorithm>

namespace rlxc::kernel {

void append(Epilogue* e, Epilogue next) {
  const size_t first = e->inputs.size();
  e->inputs.insert(e->inputs.end(), next.inputs.begin(), next.inputs.end());
  if (!next.body) return;
  e->body = [before = std::move(e->body), after = std::move(next.body), first](std::span<const Expr> roots,
                                                                               const LoadInput& load) {
    std::vector<Expr> values = before ? before(roots, load) : std::vector<Expr>{roots[0]};
    values[0] = after({values.data(), 1}, [&](size_t i) { return load(first + i); })[0];
    return values;
  };
}

Expr quantized(Expr v, const LoadInput& load, size_t first, bool back) {
  const Expr zero = load(first + 1), q = quantized(v, load(first), zero);
  if (!back) return q;
  const auto all = [&](Expr e) { return broadcast(cast_to(e, DType::F32), v.lanes()); };
  return (cast_to(q, DType::F32) - all(zero)) * all(load(first + 2));
}

FusedInputs::FusedInputs(Builder& b, const std::vector<Operand>& operands) : operands_(operands) {
  for (const Operand& o : operands) {
    const auto& all = b.kernel()->buffers;
    const auto known = o.view ? std::ranges::find(all, o.name, &Buffer::name) : all.end();
    if (known == all.end()) bufs_.push_back(b.input(o.name, o.dtype, o.extent));
    else bufs_.emplace_back(&b, BufferId(known - all.begin()));
  }
}

Expr FusedInputs::load(size_t i, Expr at, int lanes) const {
  return cast_to(bufs_[i].load(at, lanes), compute_dtype(operands_[i].dtype));
}

Expr FusedInputs::gather(size_t i, Expr places) const {
  return cast_to(bufs_[i].gather(places), compute_dtype(operands_[i].dtype));
}

std::vector<Expr> FusedInputs::load_all(const std::vector<Expr>& index, int lanes) const {
  std::vector<Expr> all;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& o = operands_[i];
    all.push_back(load(i, element_at(bufs_[i].builder()->kernel(), o, index), is_constant(o.strides.back(), 0) ? 1 : lanes));
  }
  return all;
}

std::vector<Expr> FusedInputs::values(const FusedBody& body, std::span<const Expr> roots, const std::vector<Expr>& index) const {
  return fused_values(body, roots, load_all(index, roots[0].lanes()));
}

std::vector<Expr> fused_values(const FusedBody& body, std::span<const Expr> roots, const std::vector<Expr>& inputs) {
  if (!body) return {roots[0]};
  return body(roots, [&](size_t i) { return inputs[i]; });
}

}  // namespace rlxc::kernel
