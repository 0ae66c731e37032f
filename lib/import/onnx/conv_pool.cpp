// Convolution and pooling: full-length attribute lists, with auto_pad resolved.
#include <algorithm>
#include <array>
#include <limits>

#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kMaxEntry = 1 << 20;

bool fill(Op& op, std::string_view name, size_t n, int64_t fallback, int64_t low, std::vector<int64_t>* out) {
  *out = op.ints(name);
  if (!op.has_attr(name)) out->assign(n, fallback);
  if (op.failed()) return false;
  if (out->size() != n)
    return op.fail(Code::BadAttribute,
                   std::string(name) + " has " + std::to_string(out->size()) + " entries, must have " + std::to_string(n));
  for (size_t i = 0; i < n; ++i)
    if ((*out)[i] < low || (*out)[i] > kMaxEntry)
      return op.fail(Code::BadAttribute, std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string((*out)[i]) +
                                             ", must be " +
                                             ((*out)[i] < low ? ">= " + std::to_string(low) : "<= " + std::to_string(kMaxEntry)));
  return true;
}

struct Windows {
  std::vector<int64_t> kernel, strides, dilations, begin, end;
};

// Pads spatial axis i to (results-1)*stride + reach elements.
void open_padding(DimTable& dims, const std::vector<Dim>& spatial, size_t i, int64_t reach, int64_t stride, bool upper,
                  PadAttrs* pads) {
  pads->before.resize(spatial.size(), Dim(0));
  pads->after.resize(spatial.size(), Dim(0));
  const Dim results = dims.ceil_div(spatial[i], Dim(stride));
  Dim total = dims.sub(dims.add(dims.mul(dims.sub(results, Dim(1)), Dim(stride)), Dim(reach)), spatial[i]);
  if (reach < stride) total = dims.max(total, Dim(0));
  const Dim less = dims.floor_div(total, Dim(2)), more = dims.sub(total, less);
  pads->before[i] = upper ? less : more;
  pads->after[i] = upper ? more : less;
}

// SAME: ceil(size / stride) results, odd padding at the end (upper) or the beginning (lower). Padding that depends on a symbolic
// dim goes to `open`, which then has an entry per axis; null: an error.
bool windows(Op& op, const std::vector<Dim>& spatial, Windows* w, PadAttrs* open) {
  const size_t n = spatial.size();
  if (!fill(op, "strides", n, 1, 1, &w->strides) || !fill(op, "dilations", n, 1, 1, &w->dilations)) return false;
  std::vector<int64_t> pads;
  if (!fill(op, "pads", 2 * n, 0, 0, &pads)) return false;
  w->begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w->end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  const std::string_view mode = op.s("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return true;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID")
    return op.fail(Code::BadAttribute, "auto_pad " + quote(mode) + " is unknown");
  for (size_t i = 0; i < n; ++i) {
    w->begin[i] = w->end[i] = 0;
    if (mode == "VALID") continue;
    const int64_t reach = (w->kernel[i] - 1) * w->dilations[i] + 1;
    const auto size = op.dims().constant_value(spatial[i]);
    int64_t total = 0;
    if (size) total = std::max<int64_t>(((*size + w->strides[i] - 1) / w->strides[i] - 1) * w->strides[i] + reach - *size, 0);
    else if (w->strides[i] == 1 || reach == 1) total = reach - 1;
    else if (open) {
      open_padding(op.dims(), spatial, i, reach, w->strides[i], mode == "SAME_UPPER", open);
      continue;
    } else {
      return op.unsupported("auto_pad " + std::string(mode) + " with strides needs known sizes");
    }
    w->begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w->end[i] = total - w->begin[i];
  }
  return true;
}

bool kernel_of_weights(Op& op, std::span<const Dim> sizes, std::vector<int64_t>* kernel) {
  for (Dim d : sizes) {
    const auto k = op.dims().constant_value(d);
    if (!k || *k < 1 || *k > kMaxEntry) return op.fail(Code::BadShape, "kernel sizes must be known and positive: " + op.show(1));
    kernel->push_back(*k);
  }
  const auto given = op.ints("kernel_shape");
  if (!given.empty() && given != *kernel)
    return op.fail(Code::BadAttribute, "kernel_shape differs from the weights " + op.show(1));
  return true;
}

bool spatial_operands(Op& op, size_t weights) {
  if (op.rank(0) >= 3 && op.rank(weights) == op.rank(0)) return true;
  return op.fail(Code::BadShape, "needs x [N,C,...] and w of the same rank >= 3: " + op.show(0) + ", " + op.show(weights));
}

}  // namespace

std::optional<ConvAttrs> conv_attrs(Op& op, std::vector<Dim> spatial, std::span<const Dim> kernel, PadAttrs* open) {
  Windows w;
  if (!kernel_of_weights(op, kernel, &w.kernel) || !windows(op, spatial, &w, open)) return std::nullopt;
  ConvAttrs a{w.strides, w.begin, w.end, w.dilations, std::vector<int64_t>(w.strides.size(), 0), op.i("group", 1)};
  if (a.groups < 1 || a.groups > kMaxEntry) {
    op.fail(Code::BadAttribute, "group is " + std::to_string(a.groups) + ", must be >= 1");
    return std::nullopt;
  }
  return a;
}

std::optional<ConvAttrs> conv_attrs(Op& op, size_t weights, PadAttrs* open) {
  if (!spatial_operands(op, weights)) return std::nullopt;
  return conv_attrs(op, {op.sizes(0).begin() + 2, op.sizes(0).end()}, std::span(op.sizes(weights)).subspan(2), open);
}

// Returns p of LpPool and GlobalLpPool. The first version has a float.
std::optional<double> order_of(Op& op) {
  const double p = op.opset < 2 ? op.f("p", 2) : static_cast<double>(op.i("p", 2));
  if (p >= 1) return p;
  op.fail(Code::BadAttribute, "p must be >= 1");
  return std::nullopt;
}

std::optional<PoolAttrs> pool_attrs(Op& op, std::vector<Dim> spatial, ReduceOp how, PadAttrs* open) {
  Windows w;
  if (!op.has_attr("kernel_shape")) {
    op.fail(Code::BadAttribute, "kernel_shape is missing");
    return std::nullopt;
  }
  if (!fill(op, "kernel_shape", spatial.size(), 1, 1, &w.kernel) || !windows(op, spatial, &w, open)) return std::nullopt;
  PoolAttrs a;
  a.op = how;
  a.kernel = w.kernel;
  a.strides = w.strides;
  a.pads_begin = w.begin;
  a.pads_end = w.end;
  a.dilations = w.dilations;
  a.ceil_mode = op.i("ceil_mode", 0) != 0;
  a.count_include_pad = op.i("count_include_pad", 0) != 0;
  a.column_major = op.i("storage_order", 0) != 0;
  if (a.op != ReduceOp::L2) return a;
  const auto p = order_of(op);
  if (!p) return std::nullopt;
  a.p = *p;
  return a;
}

ValueId padded(Op& op, ValueId x, PadAttrs pads, ValueId fill) {
  if (pads.before.empty()) return x;
  for (auto* list : {&pads.before, &pads.after}) list->insert(list->begin(), 2, Dim(0));
  std::vector<ValueId> operands{x};
  if (fill.valid()) operands.push_back(fill);
  return op.b.create(OpKind::Pad, operands, std::move(pads));
}

void conv(Op& op) {
  PadAttrs open;
  const auto a = conv_attrs(op, 1, &open);
  if (!a) return;
  std::vector<ValueId> operands{padded(op, op.in(0), std::move(open), {}), op.in(1)};
  if (op.has(2)) operands.push_back(op.in(2));
  op.set(0, op.b.create(OpKind::Conv, operands, *a));
}

std::optional<ConvAttrs> conv_transpose_attrs(Op& op, size_t weights, std::optional<size_t> pads_operand) {
  const auto fail = [&](std::string why, Code code = Code::BadAttribute) {
    op.fail(code, std::move(why));
    return std::nullopt;
  };
  Windows w;
  if (!spatial_operands(op, weights) || !kernel_of_weights(op, std::span(op.sizes(weights)).subspan(2), &w.kernel))
    return std::nullopt;
  const std::vector<Dim> spatial(op.sizes(0).begin() + 2, op.sizes(0).end());
  const size_t n = spatial.size();
  ConvAttrs a;
  a.groups = op.i("group", 1);
  if (a.groups < 1 || a.groups > kMaxEntry) return fail("group is " + std::to_string(a.groups) + ", must be >= 1");
  std::vector<int64_t> pads;
  if (!fill(op, "strides", n, 1, 1, &a.strides) || !fill(op, "dilations", n, 1, 1, &a.dilations) ||
      !fill(op, "output_padding", n, 0, 0, &a.output_padding) || !fill(op, "pads", 2 * n, 0, -kMaxEntry, &pads))
    return std::nullopt;
  if (pads_operand && op.has(*pads_operand)) {
    const auto given = op.need_ints(*pads_operand, "pads");
    if (!given) return std::nullopt;
    if (given->size() != 2 * n) return fail("pads needs " + std::to_string(2 * n) + " entries", Code::BadShape);
    pads = *given;
  }
  a.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  a.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  const std::string_view mode = op.s("auto_pad", "NOTSET");
  std::vector<int64_t> want = op.ints("output_shape");
  if (want.size() == n + 2) want.erase(want.begin(), want.begin() + 2);
  if (!want.empty() && want.size() != n) return fail("output_shape needs one entry per spatial axis");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  for (size_t i = 0; i < n && (same || mode == "VALID" || !want.empty()); ++i) {
    const int64_t reach = (w.kernel[i] - 1) * a.dilations[i] + 1;
    // SAME: (size-1)*stride + output_padding + reach - size*stride, for any size.
    int64_t total = same ? a.output_padding[i] + reach - a.strides[i] : 0;
    if (!want.empty()) {
      const auto size = op.dims().constant_value(spatial[i]);
      if (!size) {
        op.unsupported("output_shape needs known sizes");
        return std::nullopt;
      }
      if (want[i] < 0 || want[i] > Dim::kMax / 4 || *size > Dim::kMax / (4 * kMaxEntry))
        return fail("output_shape is out of range");
      total = (*size - 1) * a.strides[i] + a.output_padding[i] + reach - want[i];
    }
    if (total < 0) {
      a.output_padding[i] -= total;
      total = 0;
    }
    a.pads_begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    a.pads_end[i] = total - a.pads_begin[i];
  }
  return a;
}

// Row alpha: pads are operand 2, and the bias is operand 3.
void conv_transpose(Op& op) {
  const bool by_operand = op.row.alpha != 0;
  const size_t bias = by_operand ? 3 : 2;
  const auto a = conv_transpose_attrs(op, 1, by_operand ? std::optional<size_t>(2) : std::nullopt);
  if (!a) return;
  std::vector<ValueId> operands{op.in(0), op.in(1)};
  if (op.has(bias)) operands.push_back(op.in(bias));
  op.set(0, op.b.create(OpKind::ConvTranspose, operands, *a));
}

namespace {

// Pools with symbolic padding: pads with the lowest value for maxima and zeros for sums. Averages exclude padding: they are
// divided by the averages of ones.
ValueId open_pool(Op& op, const PoolAttrs& a, const PadAttrs& open) {
  const DType t = op.dtype(0);
  if (a.op == ReduceOp::Max) {
    const double least = is_float(t) ? -std::numeric_limits<double>::infinity() : t == DType::I8 ? -128 : 0;
    return op.b.create(OpKind::Pool, {padded(op, op.in(0), open, op.b.scalar(t, least))}, a);
  }
  const ValueId y = op.b.create(OpKind::Pool, {padded(op, op.in(0), open, {})}, a);
  if (a.op != ReduceOp::Mean || a.count_include_pad) return y;
  std::vector<Dim> sizes = op.sizes(0);
  sizes[0] = sizes[1] = Dim(1);
  const ValueId ones = padded(op, op.b.expand(op.b.scalar(t, 1), std::move(sizes)), open, {});
  return op.b.div(y, op.b.create(OpKind::Pool, {ones}, a));
}

}  // namespace

// MaxPool, AveragePool, LpPool: the row's alpha is the ReduceOp.
void pool(Op& op) {
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs [N,C,...] of rank >= 3: " + op.show(0));
  PadAttrs open;
  const auto a = pool_attrs(op, {op.sizes(0).begin() + 2, op.sizes(0).end()},
                            static_cast<ReduceOp>(static_cast<int>(op.row.alpha)), op.wants(1) ? nullptr : &open);
  if (!a) return;
  if (!open.before.empty()) return op.set(0, open_pool(op, *a, open));
  if (!op.wants(1)) return op.set(0, op.b.create(OpKind::Pool, {op.in(0)}, *a));
  const NodeId n = op.b.create_node(OpKind::MaxPoolIndices, std::array{op.in(0)}, *a);
  if (!n.valid()) return;
  op.set(0, op.graph().result(n, 0));
  op.set(1, op.graph().result(n, 1));
}

void global_pool(Op& op) {
  if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "needs [N,C,...]: " + op.show(0));
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < op.rank(0); ++i) axes.push_back(i);
  const auto how = static_cast<ReduceOp>(static_cast<int>(op.row.alpha));
  if (how == ReduceOp::L2) {
    const auto p = order_of(op);
    if (!p) return;
    if (*p == 1) return op.set(0, op.b.reduce(ReduceOp::L1, op.in(0), axes, true));
    if (*p != 2) {
      const DType t = op.dtype(0);
      const ValueId powers = op.b.create(OpKind::Pow, {op.b.unary(OpKind::Abs, op.in(0)), op.b.scalar(t, *p)});
      return op.set(0, op.b.create(OpKind::Pow, {op.b.reduce(ReduceOp::Sum, powers, axes, true), op.b.scalar(t, 1 / *p)}));
    }
  }
  op.set(0, op.b.reduce(how, op.in(0), axes, true));
}

}  // namespace rlxc::onnx_import
