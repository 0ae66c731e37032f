// Contractions: MatMul, DotGeneral.
#include <algorithm>

#include "eval/broadcast.h"
#include "eval/gemm.h"

namespace rlxc::eval {

namespace {

// Panels of the matrix [k,n] that begins at element `first` of a tensor; transposed, it is stored as [n,k].
template <class V>
class TensorPanels {
 public:
  TensorPanels(const TensorData& t, bool transposed, int64_t k, int64_t n) : t_(t), transposed_(transposed), k_(k), n_(n) {}

  void gemm(const V* a, int64_t first, V* c, int64_t m) {
    gemm_panels(
        a, [&](int64_t k0, int64_t k1, int64_t n0, int64_t width) { return load_panel(first, k0, k1, n0, width); }, c, m, k_, n_);
  }

 private:
  Panel<V> load_panel(int64_t first, int64_t k0, int64_t k1, int64_t n0, int64_t width) {
    if (!transposed_)
      for (int64_t p = k0; p < k1; ++p) load(t_, first + p * n_ + n0, width, panel_.data() + (p - k0) * kPanelWidth);
    else
      for (int64_t j = 0; j < width; ++j) {
        load(t_, first + (n0 + j) * k_ + k0, k1 - k0, column_.data());
        for (int64_t p = 0; p < k1 - k0; ++p) panel_[static_cast<size_t>(p * kPanelWidth + j)] = column_[static_cast<size_t>(p)];
      }
    return {panel_.data(), kPanelWidth};
  }

  const TensorData& t_;
  bool transposed_;
  int64_t k_, n_;
  std::vector<V> panel_ = std::vector<V>(kPanelRows * kPanelWidth), column_ = std::vector<V>(kPanelRows);
};

}  // namespace

template <class V>
std::vector<V> matmul(const TensorData& a, bool trans_a, const TensorData& b, bool trans_b, std::span<const int64_t> dims) {
  const size_t rank = a.dims.size();
  const int64_t m = dims[dims.size() - 2], n = dims.back(), k = a.dims[rank - (trans_a ? 2 : 1)];
  std::vector<V> x = load_all<V>(a);
  if (trans_a) x = transpose_last(x, k, m);
  // The leading axes, as tensors of matrices.
  TensorData lead_a, lead_b;
  lead_a.dims.assign(a.dims.begin(), a.dims.end() - 2), lead_b.dims.assign(b.dims.begin(), b.dims.end() - 2);
  const TensorData* leads[] = {&lead_a, &lead_b};
  std::vector<V> out(static_cast<size_t>(product(dims)), V(0));
  if (out.empty() || k == 0) return out;
  TensorPanels<V> panels(b, trans_b, k, n);
  BroadcastRows(dims.first(dims.size() - 2), leads)
      .for_each([&](int64_t at, int64_t length, const int64_t* offset, const int64_t* step) {
        if (step[1] == 0 && step[0] == 1)
          return panels.gemm(x.data() + offset[0] * m * k, offset[1] * k * n, out.data() + at * m * n, length * m);
        for (int64_t i = 0; i < length; ++i)
          panels.gemm(x.data() + (offset[0] + i * step[0]) * m * k, (offset[1] + i * step[1]) * k * n,
                      out.data() + (at + i) * m * n, m);
      });
  return out;
}
template std::vector<double> matmul(const TensorData&, bool, const TensorData&, bool, std::span<const int64_t>);
template std::vector<Int> matmul(const TensorData&, bool, const TensorData&, bool, std::span<const int64_t>);

void apply_epilogue(const Epilogue& e, std::vector<double>& values) {
  if (!e.has) return;
  ops::Params p;
  p.alpha = e.alpha, p.beta = e.beta;
  ops::visit(e.op, [&](auto meaning) {
    using M = decltype(meaning);
    if constexpr (M::arity == 1 && (M::domain & ops::kFloats) != 0)
      for (double& v : values) v = static_cast<double>(meaning(p, v));
  });
}

void round_to(DType t, std::vector<double>& values) {
  if (t == DType::F64) return;
  if (t == DType::F32) {
    for (double& v : values) v = static_cast<float>(v);
    return;
  }
  constexpr int64_t kBlock = 256;
  std::byte buffer[kBlock * 8];
  TensorData d;
  d.dtype = t, d.dims = {kBlock}, d.bytes = buffer;
  const auto n = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < n; i += kBlock)
    store(d, 0, std::min(kBlock, n - i), values.data() + i), load(d, 0, std::min(kBlock, n - i), values.data() + i);
}

namespace {

bool eval_matmul(Context& c) {
  const auto& a = c.a<MatMulAttrs>();
  const auto dims = c.result_dims();
  const int64_t k = c.dims(0)[c.dims(0).size() - (a.trans_a ? 2 : 1)];
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(std::max<int64_t>(k, 1)))) return false;
  if (is_float(c.t(0).dtype)) return c.put_result(0, matmul<double>(c.t(0), a.trans_a, c.t(1), a.trans_b, dims));
  if (is_integer(c.t(0).dtype)) return c.put_result(0, matmul<Int>(c.t(0), a.trans_a, c.t(1), a.trans_b, dims));
  return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
}

bool eval_grouped_matmul(Context& c) {
  const bool trans_b = c.a<MatMulAttrs>().trans_b;
  const auto groups = c.ints(2);
  const auto& w = c.dims(1);
  const auto dims = c.result_dims();
  const int64_t k = c.dims(0)[1], n = dims[1];
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(std::max<int64_t>(k, 1)))) return false;
  if (!is_float(c.t(0).dtype)) return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
  const auto x = c.doubles(0), all = c.doubles(1);
  std::vector<double> y(static_cast<size_t>(product(dims)));
  for (size_t row = 0; row < groups.size(); ++row) {
    if (groups[row] < 0 || groups[row] >= w[0])
      return c.fail("row " + std::to_string(row) + " wants matrix " + std::to_string(groups[row]) + " of " +
                    std::to_string(w[0]));
    const double *a = x.data() + static_cast<int64_t>(row) * k, *b = all.data() + groups[row] * k * n;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[p] * b[trans_b ? j * k + p : p * n + j];
      y[row * static_cast<size_t>(n) + static_cast<size_t>(j)] = sum;
    }
  }
  return c.put_result(0, y);
}

// An operand with its axes in the order batch, free, contracting.
template <class V>
std::vector<V> arranged(const std::vector<V>& x, std::span<const int64_t> dims, const std::vector<int64_t>& order) {
  const auto strides = strides_of(dims);
  std::vector<V> out;
  out.reserve(x.size());
  std::vector<int64_t> at(order.size(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t from = 0;
    for (size_t k = 0; k < order.size(); ++k) from += at[k] * strides[static_cast<size_t>(order[k])];
    out.push_back(x[static_cast<size_t>(from)]);
    for (size_t k = order.size(); k-- > 0;) {
      if (++at[k] < dims[static_cast<size_t>(order[k])]) break;
      at[k] = 0;
    }
  }
  return out;
}

bool eval_dot_general(Context& c) {
  const auto& a = c.a<DotGeneralAttrs>();
  auto sizes = [](std::span<const int64_t> dims, const std::vector<int64_t>& axes) {
    int64_t n = 1;
    for (int64_t k : axes) n *= dims[static_cast<size_t>(k)];
    return n;
  };
  auto order = [](size_t rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contracting) {
    std::vector<int64_t> out = batch;
    for (int64_t k = 0; k < static_cast<int64_t>(rank); ++k)
      if (!std::ranges::count(batch, k) && !std::ranges::count(contracting, k)) out.push_back(k);
    out.insert(out.end(), contracting.begin(), contracting.end());
    return out;
  };
  const int64_t batch = sizes(c.dims(0), a.lhs_batch), k = sizes(c.dims(0), a.lhs_contracting);
  const auto dims = c.result_dims();
  if (product(dims) == 0) return c.put_result(0, std::vector<double>());
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(std::max<int64_t>(k, 1)))) return false;
  const int64_t m = k ? c.t(0).elements() / (batch * k) : 1, n = k ? c.t(1).elements() / (batch * k) : 1;
  auto run = [&](auto v) {
    using V = decltype(v);
    if (k == 0) return c.put_result(0, std::vector<V>(static_cast<size_t>(product(dims)), V(0)));
    const auto x = arranged(load_all<V>(c.t(0)), c.dims(0), order(c.dims(0).size(), a.lhs_batch, a.lhs_contracting));
    const auto y = arranged(load_all<V>(c.t(1)), c.dims(1), order(c.dims(1).size(), a.rhs_batch, a.rhs_contracting));
    const int64_t out[] = {batch, m, n};
    return c.put_result(0, matmul<V>(tensor_view(x, {batch, m, k}), false, tensor_view(y, {batch, n, k}), true, out));
  };
  if (is_float(c.t(0).dtype)) return run(double{});
  if (is_integer(c.t(0).dtype)) return run(Int());
  return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
}

}  // namespace

std::span<const Entry> linear_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::MatMul, eval_matmul}, {OpKind::GroupedMatMul, eval_grouped_matmul}, {OpKind::DotGeneral, eval_dot_general}};
  return kTable;
}

}  // namespace rlxc::eval
