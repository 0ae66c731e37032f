// Lowers the matmuls that nothing is fused with and whose operands are not packed: of rows that choose their matrix, and of any
// axes.
#include <algorithm>

#include "codegen/lowerings.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/map.h"

namespace rlxc::codegen {

using kernel::GemmSpec;

// Each row is a matmul in a batch, because rows choose their matrix.
bool lower_grouped_matmul(Node& node) {
  const auto x = node.dims(0), w = node.dims(1), y = node.result_dims();
  const bool trans_b = node.attrs<MatMulAttrs>().trans_b;
  Scope s(node);
  GemmSpec g;
  g.accumulate = kernel::compute_dtype(node.result_dtype());
  const Index k = s.size(x[1]), n = s.size(y[1]);
  g.batch = {s.size(x[0])};
  g.n = n;
  g.k = k;
  g.a = s.in(0);
  g.a.strides = {k, k, 1};
  g.b = s.in(1);
  g.b.strides = {k.in(s.kernel()) * n.in(s.kernel()), trans_b ? 1 : n, trans_b ? k : 1};
  g.b_row = s.in(2);
  g.b_rows = s.size(w[0]);
  g.c = s.out();
  g.c.strides = {n, n, 1};
  kernel::build_gemm(s.builder(), g, node.mapping());
  s.finish();
  return true;
}

// Batch axes, and all free axes of each side but the last, become batch axes of the matmul. Several contracted axes are collapsed
// by copying the operands to the order batch, free, contracted.
bool lower_dot_general(Node& node) {
  const auto& a = node.attrs<DotGeneralAttrs>();
  struct Axes {
    std::vector<int64_t> batch, free, summed;
    std::vector<int64_t> order() const {
      std::vector<int64_t> all = batch;
      all.insert(all.end(), free.begin(), free.end());
      all.insert(all.end(), summed.begin(), summed.end());
      return all;
    }
  };
  Axes side[2] = {{a.lhs_batch, {}, a.lhs_contracting}, {a.rhs_batch, {}, a.rhs_contracting}};
  for (size_t i = 0; i < 2; ++i)
    for (int64_t d = 0; d < static_cast<int64_t>(node.dims(i).size()); ++d) {
      auto has = [&](const std::vector<int64_t>& v) { return std::find(v.begin(), v.end(), d) != v.end(); };
      if (!has(side[i].batch) && !has(side[i].summed)) side[i].free.push_back(d);
    }
  const bool copy = side[0].summed.size() != 1;
  uint32_t copies[2] = {};
  for (size_t i = 0; copy && i < 2; ++i) {
    copies[i] = node.scratch(node.dtype(i), node.table().product(node.dims(i)));
    Scope s(node, "order");
    Operand x = s.in(i), y = s.scratch(copies[i]);
    Dims shape, strides;
    for (int64_t d : side[i].order()) {
      shape.push_back(s.size(node.dims(i)[static_cast<size_t>(d)]));
      strides.push_back(x.strides[static_cast<size_t>(d)]);
    }
    x.strides = strides;
    y.strides = kernel::dense(s.kernel(), "y", y.dtype, shape).strides;
    kernel::build_map(s.builder(), {shape, {x}, {y}, [](const std::vector<Expr>& v) { return v; }}, node.mapping());
    s.finish();
  }
  Scope s(node);
  GemmSpec g;
  g.accumulate = kernel::compute_dtype(node.result_dtype());
  Dim k(1);
  for (int64_t d : side[0].summed) k = node.table().mul(k, node.dims(0)[static_cast<size_t>(d)]);
  g.k = s.size(k);
  // Strides of each axis of the operands, and of the single contracted axis.
  Operand o[2];
  Dims own[2];
  for (size_t i = 0; i < 2; ++i) {
    o[i] = copy ? s.scratch(copies[i]) : s.in(i);
    o[i].name = std::string(1, "ab"[i]);
    own[i].assign(node.dims(i).size(), 0);
    if (copy) {
      Dims shape;
      for (int64_t d : side[i].order()) shape.push_back(s.size(node.dims(i)[static_cast<size_t>(d)]));
      const Dims strides = kernel::dense(s.kernel(), "a", o[i].dtype, shape).strides;
      for (size_t d = 0; d < shape.size(); ++d) own[i][static_cast<size_t>(side[i].order()[d])] = strides[d];
    } else {
      own[i] = o[i].strides;
    }
    o[i].strides.clear();
  }
  auto size_at = [&](size_t i, int64_t d) { return s.size(node.dims(i)[static_cast<size_t>(d)]); };
  auto stride_at = [&](size_t i, int64_t d) { return own[i][static_cast<size_t>(d)]; };
  for (size_t b = 0; b < side[0].batch.size(); ++b) {
    g.batch.push_back(size_at(0, side[0].batch[b]));
    for (size_t i = 0; i < 2; ++i) o[i].strides.push_back(stride_at(i, side[i].batch[b]));
  }
  for (size_t i = 0; i < 2; ++i)
    for (size_t f = 0; f + 1 < side[i].free.size(); ++f) {
      g.batch.push_back(size_at(i, side[i].free[f]));
      o[i].strides.push_back(stride_at(i, side[i].free[f]));
      o[1 - i].strides.push_back(0);
    }
  const Index summed[2] = {copy ? Index(1) : stride_at(0, side[0].summed[0]), copy ? Index(1) : stride_at(1, side[1].summed[0])};
  const Index free[2] = {side[0].free.empty() ? Index(0) : stride_at(0, side[0].free.back()),
                         side[1].free.empty() ? Index(0) : stride_at(1, side[1].free.back())};
  if (!side[0].free.empty()) g.m = size_at(0, side[0].free.back());
  if (!side[1].free.empty()) g.n = size_at(1, side[1].free.back());
  o[0].strides.insert(o[0].strides.end(), {free[0], summed[0]});
  o[1].strides.insert(o[1].strides.end(), {summed[1], free[1]});
  g.a = o[0];
  g.b = o[1];
  // Result axes: batch, free axes of a, free axes of b. Matmul axes: batch, leading free axes, then m, n.
  g.c = s.out();
  const Dims y = g.c.strides;
  const size_t nb = side[0].batch.size(), fa = side[0].free.size();
  Dims c(y.begin(), y.begin() + static_cast<int64_t>(nb));
  for (size_t f = 0; f + 1 < fa; ++f) c.push_back(y[nb + f]);
  for (size_t f = 0; f + 1 < side[1].free.size(); ++f) c.push_back(y[nb + fa + f]);
  c.push_back(fa ? y[nb + fa - 1] : Index(0));
  c.push_back(side[1].free.empty() ? Index(0) : y.back());
  g.c.strides = c;
  kernel::build_gemm(s.builder(), g, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
