#include "kernel/builders/dot_unit.h"

#include <algorithm>

#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

// Most rows that are split where a dot product takes several instructions in one register. Vectors of several registers, of which
// tiles of floats need more than there are, are no such case.
constexpr int64_t kMostSlowRows = 1;
constexpr int kSlowInstructions = 3;

DType other_sign(DType t) { return t == DType::I8 ? DType::U8 : DType::I8; }

}  // namespace

const DotUnit* gemm_dot_unit(DType a, DType b, const Mapping& m, bool large) {
  const int lanes = m.workgroups ? 1 : m.vector_lanes(4);
  const auto find = [&](const DotUnit& wanted) -> const DotUnit* {
    const auto at = std::ranges::find(m.dot_units, wanted);
    return at == m.dot_units.end() ? nullptr : &*at;
  };
  if (a == DType::BF16 && b == DType::BF16) return find({lanes, 2, DType::BF16, DType::BF16, DType::F32});
  if (is_narrow_float(a) && a == b) return find({lanes, kWordCodes, a, b, DType::F32});
  if (!is_int8(a) || !is_int8(b)) return nullptr;
  if (const MatrixUnit* u = find_unit(m, a, DType::I32); large && !(u && u->of_b() == b) && find_unit(m, DType::I8, DType::I32))
    a = b = DType::I8;
  // Another sign of a needs the sums of b's columns, which packed weights include.
  for (DType right : {b, other_sign(b)})
    for (DType left : {a, other_sign(a)})
      if (const DotUnit* u = find({lanes, kWordCodes, left, right, DType::I32})) return u;
  return nullptr;
}

int64_t words_beside(const Mapping& m) {
  const bool multiplies =
      m.workgroups && std::ranges::any_of(m.matrix_units, [](const MatrixUnit& u) { return rlxc::bits(u.operand) == 8; });
  return multiplies && m.load_bytes >= kReadBytes ? kTileBytes / 4 : 1;
}

const MatrixUnit* pair_unit(const DotUnit& u, const Mapping& m) {
  if (m.workgroups) return nullptr;
  const auto at = std::ranges::find_if(m.matrix_units, [&](const MatrixUnit& p) {
    return p.operand == u.a && p.of_b() == u.b && p.accumulator == u.accumulator && p.m == 2 && p.n == 2 && p.k == 2 * u.group &&
           p.c.elements() == u.lanes;
  });
  return at == m.matrix_units.end() ? nullptr : &*at;
}

Expr dot_of_small(Expr a, Expr b, Expr c) { return {a.kernel, a.kernel->intern({ExprOp::Dot, c.type(), {a.id, b.id, c.id}, 1})}; }

int dot_shift(DType own, DType of_unit) { return own == of_unit ? 0 : of_unit == DType::U8 ? kSignFlip : -kSignFlip; }

bool gemm_fills_matrix_unit(const Index& m, const Index& n, const Index& k) {
  constexpr int64_t kFewest = 8;
  // Few rows or columns are worth a unit where the other operand is large: their time is that of reading it.
  constexpr int64_t kFewestOfLarge = 3, kManyOfLarge = 64;
  const auto has = [](const Index& extent, int64_t least) {
    int64_t size = 0;
    return !constant(extent, &size) || size >= least;
  };
  const auto beside = [&](const Index& few, const Index& many) {
    return has(few, has(many, kManyOfLarge) && has(k, kManyOfLarge) ? kFewestOfLarge : kFewest);
  };
  return beside(m, n) && beside(n, m) && has(k, kFewest);
}

std::optional<bool> splits_rows(std::optional<int64_t> m, const Mapping& mapping) {
  if (mapping.workgroups) return false;
  if (mapping.dot_instructions == 1) return true;
  if (mapping.dot_instructions > 1 && m) return *m <= kMostSlowRows;
  return {};
}

Expr splits_rows_of(Expr m, const Mapping& mapping) {
  int64_t rows = 0;
  const bool known = constant(m, &rows);
  if (const auto always = splits_rows(known ? std::optional(rows) : std::nullopt, mapping))
    return constant_int(m.kernel, DType::Bool, *always);
  if (mapping.dot_instructions > 1) return m <= kMostSlowRows;
  const Expr instructions = dot_instructions(m.kernel, mapping.vector_bytes), any = instructions != 0;
  if (known && rows <= kMostSlowRows) return any;
  const Expr fast = any && instructions != kSlowInstructions;
  return known ? fast : fast || (any && m <= kMostSlowRows);
}

}  // namespace rlxc::kernel
