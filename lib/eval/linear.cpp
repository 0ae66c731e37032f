// Contractions: MatMul, DotGeneral.
#include <algorithm>

#include "eval/broadcast.h"
#include "eval/gemm.h"
#include "eval/parallel.h"

namespace rlxc::eval {

namespace {

// Loads the panel at row k0, column n0 of the matrix [k,n] that begins at element `first` of a tensor; stored as [n,k] if
// transposed.
template <class V>
class PanelLoader {
 public:
  PanelLoader(const TensorData& t, bool transposed, int64_t k, int64_t n) : t_(t), transposed_(transposed), k_(k), n_(n) {}

  const Panel<V>& load_panel(int64_t first, int64_t k0, int64_t n0) {
    const int64_t rows = std::min(kRows, k_ - k0), columns = std::min(kColumns, n_ - n0);
    panel_.begin(rows, columns);
    for (int64_t p = 0; !transposed_ && p < rows; ++p)
      load(t_, first + (k0 + p) * n_ + n0, columns, run_.data()), panel_.set_row(p, run_.data());
    for (int64_t j = 0; transposed_ && j < columns; ++j)
      load(t_, first + (n0 + j) * k_ + k0, rows, run_.data()), panel_.set_column(j, run_.data());
    return panel_;
  }

  static constexpr int64_t kRows = Panel<V>::kMostRows, kColumns = Panel<V>::kMostColumns;

 private:
  const TensorData& t_;
  bool transposed_;
  int64_t k_, n_;
  Panel<V> panel_;
  std::vector<V> run_ = std::vector<V>(std::max(kRows, kColumns));
};

// Rows of the left operand and of the result that use one matrix of the right operand. a, b, c: element offsets.
struct RowBlock {
  int64_t a, b, c, m;
};

}  // namespace

template <class V>
std::vector<V> matmul(const TensorData& a, bool trans_a, const TensorData& b, bool trans_b, std::span<const int64_t> dims) {
  constexpr int64_t kMostRows = 512;  // limit on rows per panel
  constexpr int64_t kPanelRows = PanelLoader<V>::kRows, kPanelColumns = PanelLoader<V>::kColumns;
  const size_t rank = a.dims.size();
  const int64_t m = dims[dims.size() - 2], n = dims.back(), k = a.dims[rank - (trans_a ? 2 : 1)];
  std::vector<V> x = load_all<V>(a);
  if (trans_a) x = transpose_last(x, k, m);
  // Only the leading dims, for broadcasting.
  TensorData lead_a, lead_b;
  lead_a.dims.assign(a.dims.begin(), a.dims.end() - 2), lead_b.dims.assign(b.dims.begin(), b.dims.end() - 2);
  const TensorData* leads[] = {&lead_a, &lead_b};
  std::vector<V> out(static_cast<size_t>(product(dims)), V(0));
  if (out.empty() || k == 0) return out;
  std::vector<RowBlock> blocks;
  const auto add_rows = [&](int64_t first, int64_t second, int64_t at, int64_t rows) {
    for (int64_t i = 0; i < rows; i += kMostRows)
      blocks.push_back({first * m * k + i * k, second * k * n, at * m * n + i * n, std::min(kMostRows, rows - i)});
  };
  BroadcastRows(dims.first(dims.size() - 2), leads)
      .for_each([&](int64_t at, int64_t length, const int64_t* offset, const int64_t* step) {
        if (step[1] == 0 && step[0] == 1) return add_rows(offset[0], offset[1], at, length * m);
        for (int64_t i = 0; i < length; ++i) add_rows(offset[0] + i * step[0], offset[1] + i * step[1], at + i, m);
      });
  const int64_t columns = (n + kPanelColumns - 1) / kPanelColumns, count = static_cast<int64_t>(blocks.size());
  in_parallel(columns * count, static_cast<double>(out.size()) * static_cast<double>(k), [&](int64_t first, int64_t last) {
    PanelLoader<V> panels(b, trans_b, k, n);
    for (int64_t i = first; i < last; ++i) {
      const RowBlock& rows = blocks[static_cast<size_t>(i % count)];
      const int64_t n0 = i / count * kPanelColumns;
      for (int64_t k0 = 0; k0 < k; k0 += kPanelRows)
        panels.load_panel(rows.b, k0, n0).multiply(x.data() + rows.a + k0, k, out.data() + rows.c + n0, n, rows.m);
    }
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

// Permutes an operand to batch, free, contracting axes.
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
