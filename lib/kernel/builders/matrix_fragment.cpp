#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {

const MatrixUnit* find_unit(const Mapping& m, DType operand, DType accumulator) {
  if (m.workgroups)
    for (const MatrixUnit& u : m.matrix_units)
      if (u.operand == operand && u.accumulator == accumulator) return &u;
  return nullptr;
}

// Sums the steps of the set bits of the lane number, merging runs of bits with doubling steps.
Expr lane_start(Builder& b, const MatrixUnit& u, const FragmentLayout& s, int8_t Step::*axis, Expr in_warp) {
  Expr sum = b.i64(0);
  for (int bit = 0; 1 << bit < u.warp;) {
    const int first = bit, step = s.lane[static_cast<size_t>(bit)].*axis;
    while (1 << bit < u.warp && s.lane[static_cast<size_t>(bit)].*axis == step << (bit - first) && step) ++bit;
    if (bit == first) ++bit;
    else sum = sum + in_warp / (int64_t{1} << first) % (int64_t{1} << (bit - first)) * int64_t{step};
  }
  return sum;
}

Expr combined_across_row(Builder& b, const MatrixUnit& u, ExprOp combine, Expr v) {
  for (int bit = 0; 1 << bit < u.warp; ++bit)
    if (u.c.lane[static_cast<size_t>(bit)].row == 0) v = b.let("all", make(combine, v, b.shuffle_xor(v, 1 << bit)));
  return v;
}

Expr fragment(Builder& b, const MatrixUnit& u, const FragmentLayout& s, int8_t Step::*inner, const char* name,
              const std::function<Expr(Step, int)>& load) {
  const int elements = s.elements();
  int run = 1;
  for (int bit = 0; bit < s.element_bits && s.element[static_cast<size_t>(bit)].*inner == run; ++bit) run *= 2;
  if (run == elements) return load(s.of_element(0), run);
  const Buf part = b.registers(name, u.operand, elements);
  for (int e = 0; e < elements; e += run) part.store(e, load(s.of_element(e), run));
  return part.load(0, elements);
}

}  // namespace rlxc::kernel
