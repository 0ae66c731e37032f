// Products: dot_general, dot and convolution.
#include <algorithm>
#include <numeric>

#include "import/stablehlo/importer.h"
#include "support/text.h"

namespace rlxc::stablehlo_import {
namespace {

// Operands in the type of the sums, which the result tells.
std::optional<std::pair<Value, Value>> factors(Op& op) {
  if (!op.needs(2)) return std::nullopt;
  const DType t = op.declared(0);
  if (!op.text.result_types[0].dtype || is_complex(t) || t == DType::Bool) {
    op.unsupported("its type is not read");
    return std::nullopt;
  }
  for (size_t i = 0; i < 2; ++i) {
    const DType own = op.in(i).dtype;
    if (own == DType::Bool || is_float(own) != is_float(t)) {
      op.fail(Code::BadType, "its operands do not fit its result");
      return std::nullopt;
    }
  }
  return std::pair(op.cast(op.in(0), t), op.cast(op.in(1), t));
}

void dot(Op& op) {
  const auto x = factors(op);
  if (!x) return;
  const size_t left = x->first.dims.size(), right = x->second.dims.size();
  if (left < 1 || left > 2 || right < 1 || right > 2) return (void)op.fail(Code::BadShape, "it takes vectors and matrices");
  const ValueId a = op.whole(x->first), b = op.whole(x->second);
  op.set(0, op.made(op.b().create(OpKind::DotGeneral, {a, b}, DotGeneralAttrs{{}, {}, {static_cast<int64_t>(left) - 1}, {0}})));
}

void dot_general(Op& op) {
  const auto x = factors(op);
  if (!x) return;
  DotGeneralAttrs a;
  if (const Attr* numbers = op.attr("dot_dimension_numbers")) {
    const auto list = [&](std::string_view key) {
      const Attr* found = numbers->find(key);
      return found ? integers(*found).value_or(Ints()) : Ints();
    };
    a = {list("lhs_batching_dimensions"), list("rhs_batching_dimensions"), list("lhs_contracting_dimensions"),
         list("rhs_contracting_dimensions")};
  } else {
    const auto pair = [&](std::string_view key, Ints* left, Ints* right) {
      const Attr* found = op.attr(key);
      if (!found || found->items.size() != 2) return !found;
      const auto l = integers(found->items[0]), r = integers(found->items[1]);
      if (l) *left = *l;
      if (r) *right = *r;
      return l && r;
    };
    if (!pair("batching_dims", &a.lhs_batch, &a.rhs_batch) || !pair("contracting_dims", &a.lhs_contracting, &a.rhs_contracting))
      return (void)op.fail(Code::BadAttribute, "axes are given as [0] x [0]");
  }
  op.set(0, op.made(op.b().create(OpKind::DotGeneral, {op.whole(x->first), op.whole(x->second)}, std::move(a))));
}

// The axes of one operand: b, f or i, o; then the spatial axes in order.
struct Layout {
  int64_t first = -1, second = -1;
  Ints spatial;
};

std::optional<Layout> read_layout(const Attr& list, std::string_view first, std::string_view second) {
  Layout out;
  if (list.items.size() < 2 || list.items.size() > 8) return std::nullopt;
  out.spatial.assign(list.items.size() - 2, -1);
  for (size_t i = 0; i < list.items.size(); ++i) {
    const Attr& a = list.items[i];
    const auto at = static_cast<int64_t>(i);
    if (a.kind == Attr::Kind::Int) {
      if (a.integer < 0 || a.integer >= static_cast<int64_t>(out.spatial.size())) return std::nullopt;
      out.spatial[static_cast<size_t>(a.integer)] = at;
    } else if (a.text == first) out.first = at;
    else if (a.text == second) out.second = at;
  }
  if (out.first < 0 || out.second < 0 || std::ranges::count(out.spatial, -1)) return std::nullopt;
  return out;
}

// The permutation of `rank` axes that swaps the first two.
Ints swapped_axes(size_t rank) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[0], perm[1]);
  return perm;
}

Ints order_of(const Layout& l) {
  Ints perm = {l.first, l.second};
  perm.insert(perm.end(), l.spatial.begin(), l.spatial.end());
  return perm;
}

void convolution(Op& op) {
  const auto factor = factors(op);
  if (!factor) return;
  const Attr* numbers = op.attr("dimension_numbers", "dim_numbers");
  const Attr* lists =
      numbers && numbers->items.size() == 1 && numbers->items[0].kind == Attr::Kind::List ? &numbers->items[0] : numbers;
  if (!lists || lists->items.size() != 3)
    return (void)op.fail(Code::BadAttribute, "it needs axes as [b, 0, f]x[0, i, o]->[b, 0, f]");
  const auto l = read_layout(lists->items[0], "b", "f"), r = read_layout(lists->items[1], "o", "i"),
             o = read_layout(lists->items[2], "b", "f");
  if (!l || !r || !o || l->spatial.size() != r->spatial.size() || l->spatial.size() != o->spatial.size() ||
      factor->first.dims.size() != l->spatial.size() + 2 || factor->second.dims.size() != l->spatial.size() + 2)
    return (void)op.fail(Code::BadAttribute, "its axes do not fit its operands");
  const size_t n = l->spatial.size();
  if (n < 1 || n > 3) return (void)op.unsupported("it needs 1 to 3 spatial axes");
  const Attr* window = op.attr("window");
  const auto numbers_of = [&](std::string_view pretty, std::string_view generic, size_t count, int64_t otherwise) {
    const Attr* a = window ? window->find(pretty) : op.attr(generic);
    if (window && !a) a = op.attr(generic);
    return a ? integers(*a).value_or(Ints()) : Ints(count, otherwise);
  };
  const Ints strides = numbers_of("stride", "window_strides", n, 1), pads = numbers_of("pad", "padding", 2 * n, 0),
             lhs = numbers_of("lhs_dilate", "lhs_dilation", n, 1), rhs = numbers_of("rhs_dilate", "rhs_dilation", n, 1),
             reversal = numbers_of("reverse", "window_reversal", n, 0);
  if (strides.size() != n || pads.size() != 2 * n || lhs.size() != n || rhs.size() != n || reversal.size() != n)
    return (void)op.fail(Code::BadAttribute, "its window needs numbers for each spatial axis");
  const int64_t groups = op.integer("feature_group_count", 1), batches = op.integer("batch_group_count", 1);
  Value x = op.transpose(factor->first, order_of(*l)), w = op.transpose(factor->second, order_of(*r));
  const auto have = op.sizes(x), kernel = op.sizes(w);
  if (!kernel || !have) return;
  if (groups < 1 || batches < 1 || (groups > 1 && batches > 1))
    return (void)op.fail(Code::BadAttribute, "its groups are out of range");
  ConvAttrs a;
  a.groups = groups;
  if (batches > 1) {  // groups of the batch become groups of features
    if ((*have)[0] % batches || (*kernel)[0] % batches)
      return (void)op.fail(Code::BadShape, "its groups do not divide its batch");
    Dims split = {Dim(batches), Dim((*have)[0] / batches)};
    split.insert(split.end(), x.dims.begin() + 1, x.dims.end());
    Dims merged = {split[1], op.dims().mul(Dim(batches), x.dims[1])};
    merged.insert(merged.end(), x.dims.begin() + 2, x.dims.end());
    x = op.reshape(op.transpose(op.reshape(x, split), swapped_axes(split.size())), merged);
    a.groups = batches;
  }
  Ints low(n + 2, 0), high(n + 2, 0), interior(n + 2, 0);
  Ints reversed;
  for (size_t i = 0; i < n; ++i) {
    constexpr int64_t kMost = int64_t{1} << 20, kMostSize = int64_t{1} << 40;
    const auto within = [](int64_t v, int64_t low, int64_t high) { return v >= low && v <= high; };
    if (!within(lhs[i], 1, kMost) || !within(rhs[i], 1, kMost) || !within(strides[i], 1, kMost) ||
        !within(pads[2 * i], -kMostSize, kMostSize) || !within(pads[2 * i + 1], -kMostSize, kMostSize) ||
        (*kernel)[i + 2] > kMostSize)
      return (void)op.fail(Code::BadAttribute, "its window is out of range");
    interior[i + 2] = lhs[i] - 1;
    low[i + 2] = std::min<int64_t>(pads[2 * i], 0);
    high[i + 2] = std::min<int64_t>(pads[2 * i + 1], 0);
    a.strides.push_back(strides[i]);
    a.dilations.push_back(rhs[i]);
    a.pads_begin.push_back(std::max<int64_t>(pads[2 * i], 0));
    a.pads_end.push_back(std::max<int64_t>(pads[2 * i + 1], 0));
    if (reversal[i]) reversed.push_back(static_cast<int64_t>(i) + 2);
  }
  // Without strides, elements between those of the operand make the transposed convolution of the reversed kernel.
  const bool transposed = std::ranges::any_of(lhs, [](int64_t d) { return d > 1; }) &&
                          std::ranges::all_of(strides, [](int64_t s) { return s == 1; }) && a.groups == 1;
  bool fits = transposed;
  ConvAttrs t = a;
  if (transposed) {
    t.strides = lhs;
    for (size_t i = 0; i < n; ++i) {
      const int64_t reach = ((*kernel)[i + 2] - 1) * rhs[i];
      t.pads_begin[i] = reach - pads[2 * i];
      t.pads_end[i] = 0;
      t.output_padding.push_back(pads[2 * i + 1] - reach);
      if (t.output_padding[i] < 0) {  // cut at the end
        t.pads_end[i] = -t.output_padding[i];
        t.output_padding[i] = 0;
      }
      fits = fits && t.pads_begin[i] >= 0 && t.output_padding[i] < std::max(lhs[i], rhs[i]);
    }
  }
  ValueId y;
  if (fits) {
    Ints all;
    for (size_t i = 0; i < n; ++i)
      if (!reversal[i]) all.push_back(static_cast<int64_t>(i) + 2);
    ValueId weights = op.whole(op.transpose(w, swapped_axes(n + 2)));
    if (!all.empty()) weights = op.b().create(OpKind::Reverse, {weights}, AxesAttrs{all});
    y = op.b().create(OpKind::ConvTranspose, {op.whole(x), weights}, std::move(t));
  } else {
    x = padded(op, x, low, high, interior, op.scalar_like(x, 0));
    ValueId weights = op.whole(w);
    if (!reversed.empty()) weights = op.b().create(OpKind::Reverse, {weights}, AxesAttrs{reversed});
    y = op.b().create(OpKind::Conv, {op.whole(x), weights}, std::move(a));
  }
  op.set(0, op.transpose(op.made(y), inverse_permutation(order_of(*o))));
}

constexpr OpRow kLinearRows[] = {{"convolution", convolution}, {"dot", dot}, {"dot_general", dot_general}};

}  // namespace

std::span<const OpRow> linear_rows() { return kLinearRows; }

}  // namespace rlxc::stablehlo_import
