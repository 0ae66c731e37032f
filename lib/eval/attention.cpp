#include "eval/attention.h"

#include <algorithm>

#include "eval/gemm.h"
#include "eval/norm.h"
#include "eval/parallel.h"
#include "ops/scalar.h"

namespace rlxc::eval {

HeadView head_view(std::span<const int64_t> d, AttentionLayout layout, int64_t heads, bool transposed) {
  switch (layout) {
    case AttentionLayout::Packed: {
      const int64_t width = d[2] / heads;
      return {d[0], heads, d[1], width, d[1] * d[2], width, d[2], 1};
    }
    case AttentionLayout::BSHD: return {d[0], d[2], d[1], d[3], d[1] * d[2] * d[3], d[3], d[2] * d[3], 1};
    default: break;
  }
  if (transposed) return {d[0], d[1], d[3], d[2], d[1] * d[2] * d[3], d[2] * d[3], 1, d[3]};
  return {d[0], d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
}

namespace {

// One head of a tensor as a matrix [length,width], or as its transpose.
std::vector<double> head_matrix(const std::vector<double>& x, const HeadView& v, int64_t b, int64_t h, bool transposed) {
  std::vector<double> out(static_cast<size_t>(v.length * v.width));
  for (int64_t i = 0; i < v.length; ++i) {
    const double* row = x.data() + v.at(b, h, i);
    for (int64_t d = 0; d < v.width; ++d)
      out[static_cast<size_t>(transposed ? d * v.length + i : i * v.width + d)] = row[d * v.element_stride];
  }
  return out;
}

// result[width] += w[length] * v[length,width]. Skips zero weights, so that infinities and NaN of their rows have no effect.
void add_weighted(const double* w, const double* v, int64_t length, int64_t width, double* result) {
  for (int64_t j = 0; j < length; ++j)
    for (int64_t d = 0; w[j] != 0 && d < width; ++d) result[d] += w[j] * v[j * width + d];
}

class Heads {
 public:
  explicit Heads(const AttentionOperands& p) : p_(p) {
    scale_ = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.q_view.width));
    if (!p.mask) return;
    mask_ = load_all<double>(*p.mask);
    const auto strides = strides_of(p.mask->dims);
    for (size_t i = 0, rank = strides.size(); i < rank; ++i) mask_stride_[4 - rank + i] = p.mask->dims[i] == 1 ? 0 : strides[i];
  }

  void compute(int64_t b, int64_t h, std::vector<double>* out) const {
    constexpr int64_t kRows = 256;  // queries per block
    const HeadView &q = p_.q_view, &k = p_.k_view, &v = p_.v_view, &y = p_.y_view;
    const int64_t group = k.heads > 0 ? std::max<int64_t>(1, q.heads / k.heads) : 1;
    const auto queries = head_matrix(p_.q, q, b, h, false), keys = head_matrix(p_.k, k, b, h / group, true),
               values = head_matrix(p_.v, v, b, h / group, false);
    const bool finite = std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
    std::vector<double> scores, results;
    for (int64_t first = 0; first < q.length; first += kRows) {
      const int64_t rows = std::min(kRows, q.length - first);
      scores.assign(static_cast<size_t>(rows * k.length), 0);
      gemm(queries.data() + first * q.width, keys.data(), scores.data(), rows, q.width, k.length);
      for (int64_t i = 0; i < rows; ++i) {
        double* row = scores.data() + i * k.length;
        for (int64_t j = 0; j < k.length; ++j) row[j] = score(row[j], b, h, first + i, j);
        softmax_run(row, k.length);
      }
      results.assign(static_cast<size_t>(rows * v.width), 0);
      if (finite) gemm(scores.data(), values.data(), results.data(), rows, k.length, v.width);
      for (int64_t i = 0; i < rows; ++i) {
        double* row = results.data() + i * v.width;
        if (!finite) add_weighted(scores.data() + i * k.length, values.data(), k.length, v.width, row);
        std::copy_n(row, v.width, out->data() + y.at(b, h, first + i));
      }
    }
  }

 private:
  // The masked score of query i and key j, given their dot product `s`.
  double score(double s, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t position = p_.k_view.length - p_.q_view.length + i;
    const auto at = static_cast<size_t>(b * mask_stride_[0] + h * mask_stride_[1] + i * mask_stride_[2] + j * mask_stride_[3]);
    const double m = p_.mask ? mask_[at] : 0;
    const bool causal = p_.kind == MaskKind::Causal || p_.kind == MaskKind::SlidingWindow;
    const bool visible = (!causal || j <= position) && (p_.kind != MaskKind::SlidingWindow || j >= position - p_.window) &&
                         (p_.kind == MaskKind::Bias || !p_.mask || m != 0);
    if (!visible) return p_.finite_mask ? std::numeric_limits<float>::lowest() : -std::numeric_limits<double>::infinity();
    s *= scale_;
    if (p_.softcap > 0) s = p_.softcap * std::tanh(s / p_.softcap);
    return p_.kind == MaskKind::Bias ? s + m : s;
  }

  const AttentionOperands& p_;
  double scale_;
  std::vector<double> mask_;
  int64_t mask_stride_[4] = {};
};

}  // namespace

std::vector<double> attention(const AttentionOperands& p) {
  const HeadView& y = p.y_view;
  std::vector<double> out(static_cast<size_t>(y.batch * y.heads * y.length * y.width), 0.0);
  const Heads heads(p);
  const double work =
      static_cast<double>(p.q_view.batch * p.q_view.heads * p.q_view.length) * static_cast<double>(p.k_view.length);
  in_parallel(p.q_view.batch * p.q_view.heads, work * static_cast<double>(p.q_view.width + p.v_view.width),
              [&](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; ++i) heads.compute(i / p.q_view.heads, i % p.q_view.heads, &out);
              });
  return out;
}

void normalise_heads(std::vector<double>& x, const HeadView& v, const TensorData& gamma, double eps) {
  const auto scale = load_all<double>(gamma);
  for (int64_t b = 0; b < v.batch; ++b)
    for (int64_t h = 0; h < v.heads; ++h)
      for (int64_t s = 0; s < v.length; ++s) {
        double* head = x.data() + v.at(b, h, s);
        double square = 0;
        for (int64_t i = 0; i < v.width; ++i) square += head[i] * head[i];
        const double factor = 1 / std::sqrt(square / static_cast<double>(v.width) + eps);
        const auto row = static_cast<size_t>(gamma.dims.size() == 2 ? h * v.width : 0);
        for (int64_t i = 0; i < v.width; ++i) head[i] *= factor * scale[row + static_cast<size_t>(i)];
      }
}

void rope(std::vector<double>& x, const HeadView& v, const TensorData& cos_table, const TensorData& sin_table, int64_t n_rot,
          RopeStyle style) {
  const auto cosines = load_all<double>(cos_table), sines = load_all<double>(sin_table);
  const auto& d = cos_table.dims;
  const int64_t half = n_rot / 2, columns = d.back(), rows = d.size() > 1 ? d[d.size() - 2] : 1;
  // Number of tables: 1, the batch, or batch * heads.
  const int64_t tables = static_cast<int64_t>(cosines.size()) / std::max<int64_t>(1, rows * columns);
  for (int64_t b = 0; b < v.batch; ++b)
    for (int64_t h = 0; h < v.heads; ++h)
      for (int64_t s = 0; s < v.length; ++s) {
        double* head = x.data() + v.at(b, h, s);
        const int64_t table = tables == 1 ? 0 : tables == v.batch ? b : b * v.heads + h;
        const auto row = static_cast<size_t>((table * rows + (rows == 1 ? 0 : s)) * columns);
        for (int64_t i = 0; i < half; ++i) {
          const bool pairs = style == RopeStyle::GptJ;
          const int64_t first = pairs ? 2 * i : i, second = pairs ? 2 * i + 1 : i + half;
          // Tables of full width repeat each angle for both elements of a pair.
          const bool full = columns >= n_rot;
          const auto c1 = row + static_cast<size_t>(full ? first : i), c2 = row + static_cast<size_t>(full ? second : i);
          const double a = head[first], e = head[second];
          head[first] = a * cosines[c1] - e * sines[c1];
          head[second] = e * cosines[c2] + a * sines[c2];
        }
      }
}

namespace {

bool eval_attention(Context& c) {
  const auto& a = c.a<AttentionAttrs>();
  AttentionOperands p;
  const int64_t kv_heads = a.kv_heads();
  if (a.layout == AttentionLayout::Packed && (c.dims(0)[2] % a.num_heads || c.dims(1)[2] % kv_heads || c.dims(2)[2] % kv_heads))
    return c.fail("the heads do not divide the packed sizes");
  p.q_view = head_view(c.dims(0), a.layout, a.num_heads);
  p.k_view = head_view(c.dims(1), a.layout, kv_heads, a.k_transposed && a.layout == AttentionLayout::BHSD);
  p.v_view = head_view(c.dims(2), a.layout, kv_heads);
  if (p.k_view.heads == 0 || p.q_view.heads % p.k_view.heads != 0) return c.fail("heads of q must be a multiple of heads of k");
  const double work =
      static_cast<double>(p.q_view.batch * p.q_view.heads * p.q_view.length) * static_cast<double>(p.k_view.length);
  if (!c.charge(work * static_cast<double>(p.q_view.width + p.v_view.width))) return false;
  p.y_view = head_view(c.result_dims(), a.out_layout, p.q_view.heads);
  p.q = c.doubles(0);
  p.k = c.doubles(1);
  p.v = c.doubles(2);
  p.mask = c.has(3) ? &c.t(3) : nullptr;
  p.kind = a.mask;
  p.window = a.window;
  p.scale = a.scale;
  p.softcap = a.softcap;
  p.finite_mask = a.finite_mask;
  return put_rounded(c, attention(p), kAttentionScale);
}

// Operand `x` rotated by the tables `table` and `table` + 1, of heads normalised with operand `gamma` if it is there.
bool rotated(Context& c, size_t i, size_t table, size_t gamma, std::vector<double>* x) {
  const auto& a = c.a<RopeAttrs>();
  const auto& d = c.dims(i);
  if (d.size() != (a.layout == AttentionLayout::Packed ? 3u : 4u))
    return c.fail("x does not have the rank of its layout: " + show(c.t(i).dtype, d));
  const int64_t width = a.layout == AttentionLayout::Packed ? a.head_dim : d[3];
  const int64_t n_rot = a.n_rot ? a.n_rot : width;
  if (width < 1 || n_rot < 0 || n_rot % 2 || n_rot > width || (a.layout == AttentionLayout::Packed && d[2] % width))
    return c.fail("n_rot or head_dim does not fit x");
  const HeadView v = head_view(d, a.layout, a.layout == AttentionLayout::Packed ? d[2] / width : 0);
  const auto& cosines = c.dims(table);
  if (cosines.empty() || c.dims(table + 1) != cosines) return c.fail("the tables must have one shape");
  const int64_t rows = cosines.size() > 1 ? cosines[cosines.size() - 2] : 1, columns = cosines.back();
  const int64_t tables = rows * columns != 0 ? c.t(table).elements() / (rows * columns) : 0;
  if (columns < n_rot / 2 || (columns > n_rot / 2 && columns < n_rot) || (rows != 1 && rows < v.length) ||
      (tables != 1 && tables != v.batch && tables != v.batch * v.heads))
    return c.fail("tables " + show(c.t(table).dtype, cosines) + " do not cover x " + show(c.t(i).dtype, d));
  *x = c.doubles(i);
  if (!c.charge(4.0 * static_cast<double>(x->size()))) return false;
  if (c.has(gamma)) normalise_heads(*x, v, c.t(gamma), a.eps);
  rope(*x, v, c.t(table), c.t(table + 1), n_rot, a.style);
  return true;
}

bool eval_rope(Context& c) {
  std::vector<double> x;
  if (!rotated(c, 0, 1, 3, &x)) return false;
  const auto width = static_cast<size_t>(std::max<int64_t>(1, c.a<RopeAttrs>().head_dim));
  if (c.has(kRopeFactor)) {
    const std::vector<double> factors = c.doubles(kRopeFactor);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<double>(static_cast<float>(x[i]) * static_cast<float>(number_of(factors, i, width)));
  }
  return put_rounded(c, std::move(x), kRopeFactor + 1, width);
}

// Writes rows [B,H,S,D] to the cache of operand `cache` at the rows `at`, which repeat if there is one batch of them.
bool append_rows(Context& c, const std::vector<double>& x, size_t fresh, size_t cache, const std::vector<int64_t>& at,
                 std::vector<double>* y) {
  const auto &d = c.dims(fresh), &room = c.dims(cache);
  *y = c.doubles(cache);
  if (!c.charge(static_cast<double>(x.size() + y->size()))) return false;
  const auto batches = static_cast<int64_t>(at.size()) / std::max<int64_t>(1, d[2]);
  for (int64_t b = 0; b < d[0]; ++b)
    for (int64_t s = 0; s < d[2]; ++s) {
      int64_t row = at[static_cast<size_t>((batches == 1 ? 0 : b) * d[2] + s)];
      if (row < -room[2] || row >= room[2])
        return c.fail("row " + std::to_string(row) + " is outside of a cache of " + std::to_string(room[2]));
      row += row < 0 ? room[2] : 0;
      for (int64_t h = 0; h < d[1]; ++h)
        std::copy_n(x.data() + ((b * d[1] + h) * d[2] + s) * d[3], d[3], y->data() + ((b * d[1] + h) * room[2] + row) * d[3]);
    }
  return true;
}

bool eval_rope_append(Context& c) {
  const size_t keys = kRopeAppendCaches, values = keys + 1;
  const auto at = c.ints(values + 1);
  std::vector<double> q, k, all_keys, all_values;
  return rotated(c, 0, 3, SIZE_MAX, &q) && rotated(c, 1, 3, SIZE_MAX, &k) && append_rows(c, k, 1, keys, at, &all_keys) &&
         append_rows(c, c.doubles(2), 2, values, at, &all_values) && c.put_result(0, q) && c.put_result(1, all_keys) &&
         c.put_result(2, all_values);
}

}  // namespace

std::span<const Entry> attention_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::Attention, eval_attention}, {OpKind::Rope, eval_rope}, {OpKind::FusedRopeAppend, eval_rope_append}};
  return kTable;
}

}  // namespace rlxc::eval
