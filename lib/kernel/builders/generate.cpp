#include "kernel/builders/generate.h"

#include <algorithm>

namespace rlxc::kernel {

Expr linear_index(Kernel* k, const std::vector<Expr>& index, const Dims& shape) {
  Expr at = constant_int(k, DType::I64, 0);
  for (size_t d = 0; d < index.size(); ++d) at = at * shape[d].in(k) + index[d];
  return at;
}

Expr wrap_index(Expr i, Expr n) { return max(min(select(i < 0, i + n, i), n - 1), 0); }

void build_generate(Builder& b, const Dims& shape, const std::vector<std::pair<std::string, DType>>& outputs, int64_t bytes,
                    const Mapping& m, const PointBody& body) {
  Kernel* k = b.kernel();
  std::vector<Buf> out;
  for (const auto& [name, t] : outputs) out.push_back(b.output(name, t, product(k, shape)));
  auto point = [&](Expr at, const std::vector<Expr>& index) {
    std::vector<Expr> values = body(index);
    for (size_t i = 0; i < values.size(); ++i) out[i].store(at, cast_to(values[i], outputs[i].second));
  };
  if (m.workgroups || shape.size() < 2) {
    for_each(b, m, "i", product(k, shape), bytes, [&](Expr i) {
      std::vector<Expr> index = split_index(i, shape);
      for (Expr& e : index) e = b.let("i", e);
      point(i, index);
    });
    return;
  }
  Dims outer(shape.begin(), shape.end() - 1);
  Expr inner = shape.back().in(k);
  int64_t n = 64;
  constant(inner, &n);
  for_each(b, m, "row", product(k, outer), bytes * std::max<int64_t>(n, 1), [&](Expr row) {
    std::vector<Expr> index = split_index(row, outer);
    for (Expr& e : index) e = b.let("i", e);
    b.loop("j", inner, [&](Expr j) {
      std::vector<Expr> full = index;
      full.push_back(j);
      point(row * inner + j, full);
    });
  });
}

void for_each_row(Builder& b, const Mapping& m, const Dims& shape, size_t axis, int64_t bytes,
                  const std::function<void(Expr, Expr, Expr)>& body) {
  Kernel* k = b.kernel();
  Expr outer = product(k, shape, 0, axis), n = shape[axis].in(k), inner = product(k, shape, axis + 1);
  for_each(b, m, "row", outer * inner, bytes, [&](Expr row) {
    Expr base = b.let("base", row / inner * (n * inner) + row % inner);
    body(row, base, inner);
  });
}

void for_each_row_vector(Builder& b, const Mapping& m, const Dims& shape, size_t axis, DType t, int64_t bytes,
                         const std::function<void(Expr, Expr, int)>& body) {
  Kernel* k = b.kernel();
  const Expr outer = product(k, shape, 0, axis), n = shape[axis].in(k), inner = product(k, shape, axis + 1);
  int lanes = m.workgroups ? 1 : m.vector_lanes(rlxc::bits(t) / 8);
  if (int64_t known = 0; constant(inner, &known))
    while (lanes > 1 && lanes > known) lanes /= 2;
  if (lanes == 1) return for_each_row(b, m, shape, axis, bytes, [&](Expr, Expr base, Expr stride) { body(base, stride, 1); });
  const Expr vectors = b.let("vectors", ceil_div(inner, int64_t{lanes}));
  for_each(b, m, "rows", outer * vectors, bytes * lanes, [&](Expr i) {
    const Expr first = b.let("first", i % vectors * lanes), base = b.let("base", i / vectors * (n * inner) + first);
    if (is_constant(inner % int64_t{lanes}, 0)) return body(base, inner, lanes);
    b.when(
        first + lanes <= inner, [&] { body(base, inner, lanes); },
        [&] { b.loop("row", inner - first, [&](Expr row) { body(b.let("single", base + row), inner, 1); }); });
  });
}

}  // namespace rlxc::kernel
