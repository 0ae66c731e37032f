// Convolutions and pooling.
#include <cmath>
#include <limits>

#include "codegen/lowerings.h"
#include "kernel/builders/window.h"

namespace rlxc::codegen {
namespace {

using kernel::WindowSpec;

WindowSpec window_of(const Node& node, Scope& s, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& begin, const std::vector<int64_t>& end, const std::vector<int64_t>& dilations) {
  WindowSpec w;
  const auto x = node.dims(0), y = node.result_dims();
  w.batch = s.size(x[0]), w.in_channels = s.size(x[1]), w.out_channels = s.size(y[1]);
  w.in_size = s.shape(x.subspan(2)), w.out_size = s.shape(y.subspan(2));
  w.kernel = kernel, w.strides = strides, w.pads_begin = begin, w.pads_end = end, w.dilations = dilations;
  w.input = node.dtype(0), w.output = node.result_dtype(), w.accumulate = kernel::compute_dtype(node.dtype(0));
  return w;
}

WindowSpec window_of(const Node& node, Scope& s, const ConvAttrs& a) {
  std::vector<int64_t> kernel;
  for (Dim d : node.dims(1).subspan(2)) kernel.push_back(node.table().constant_value(d).value_or(1));
  WindowSpec w = window_of(node, s, kernel, a.strides, a.pads_begin, a.pads_end, a.dilations);
  w.groups = a.groups, w.weight = node.dtype(1);
  return w;
}

// Binds x, w, bias and residual, and sets the epilogue.
void bind_conv(const Node& node, Scope& s, WindowSpec* w, const Epilogue& act) {
  s.in(0), s.in(1);
  if (node.has(2)) {
    Operand bias = s.in(2);
    bias.strides = {0, 1, 0};
    w->extras.push_back(std::move(bias));
  }
  if (node.has(3)) {
    Operand residual = s.in(3);
    const Expr plane = kernel::product(s.kernel(), w->out_size);
    residual.strides = {w->out_channels.in(s.kernel()) * plane, plane, 1};
    w->extras.push_back(std::move(residual));
  }
  if (!w->extras.empty() || act.has)
    w->epilogue = [act](Expr sum, const std::vector<Expr>& extra) {
      for (const Expr& e : extra) sum = sum + e;
      return activation(act, sum);
    };
}

bool emit_conv(const Node& node, const ConvAttrs& a, const Epilogue& act, bool transposed) {
  Scope s(node);
  WindowSpec w = window_of(node, s, a);
  bind_conv(node, s, &w, act);
  s.out();
  (transposed ? kernel::build_window_conv_transpose : kernel::build_window_conv)(s.builder(), w, node.mapping());
  return s.finish(), true;
}

}  // namespace

bool lower_conv(const Node& node) { return emit_conv(node, node.attrs<ConvAttrs>(), {}, false); }
bool lower_conv_transpose(const Node& node) { return emit_conv(node, node.attrs<ConvAttrs>(), {}, true); }
bool lower_fused_conv(const Node& node) {
  const auto& a = node.attrs<FusedConvAttrs>();
  return emit_conv(node, a.conv, a.act, false);
}

bool lower_q_conv(const Node& node) {
  Scope s(node);
  WindowSpec w = window_of(node, s, node.attrs<ConvAttrs>());
  w.accumulate = w.output = DType::I32;
  s.in(0), s.in(1);
  if (node.has(2)) w.x_zero = s.in(2);
  if (node.has(3)) {
    Operand zero = s.in(3);
    zero.strides = {num_elements(node.graph.type(node.in(3))) == 1 ? Index(0) : Index(1)};
    w.w_zero = std::move(zero);
  }
  s.out();
  kernel::build_window_conv(s.builder(), w, node.mapping());
  return s.finish(), true;
}

bool lower_pool(const Node& node) {
  const auto& a = node.attrs<PoolAttrs>();
  Scope s(node);
  kernel::PoolSpec p;
  p.window = window_of(node, s, a.kernel, a.strides, a.pads_begin, a.pads_end, a.dilations);
  p.count_padding = a.count_include_pad;
  const DType t = p.window.accumulate;
  s.in(0), s.out(0);
  if (node.op() == OpKind::MaxPoolIndices) {
    s.out(1);
    kernel::build_max_pool_indices(s.builder(), p.window, a.column_major, node.mapping());
    return s.finish(), true;
  }
  auto extreme = [t](kernel::Kernel* k, bool low) {
    if (is_float(t))
      return kernel::constant(k, t, low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
    const int width = rlxc::bits(t);
    const int64_t least = is_signed(t) ? std::numeric_limits<int64_t>::min() >> (64 - width) : 0;
    return kernel::constant_int(k, t, low ? least : is_signed(t) ? ~least : -1);
  };
  p.start = [t](kernel::Kernel* k) { return kernel::constant_int(k, t, 0); };
  p.step = [](Expr sum, Expr v) { return sum + v; };
  p.finish = [](Expr sum, Expr) { return sum; };
  switch (a.op) {
    case ReduceOp::Max:
      p.start = [extreme](kernel::Kernel* k) { return extreme(k, true); },
      p.step = [](Expr best, Expr v) { return max(best, v); };
      break;
    case ReduceOp::Min:
      p.start = [extreme](kernel::Kernel* k) { return extreme(k, false); },
      p.step = [](Expr best, Expr v) { return min(best, v); };
      break;
    case ReduceOp::Prod:
      p.start = [t](kernel::Kernel* k) { return kernel::constant_int(k, t, 1); },
      p.step = [](Expr product, Expr v) { return product * v; };
      break;
    case ReduceOp::Mean: p.finish = [](Expr sum, Expr count) { return sum / cast_to(count, sum.dtype()); }; break;
    case ReduceOp::L1: p.step = [](Expr sum, Expr v) { return sum + abs(v); }; break;
    case ReduceOp::SumSquare: p.step = [](Expr sum, Expr v) { return sum + v * v; }; break;
    case ReduceOp::L2: {
      const double power = a.p;
      if (power == 2) {
        p.step = [](Expr sum, Expr v) { return sum + v * v; }, p.finish = [](Expr sum, Expr) { return sqrt(sum); };
      } else {
        p.step = [power](Expr sum, Expr v) { return sum + pow(abs(v), power); },
        p.finish = [power](Expr sum, Expr) { return pow(sum, 1 / power); };
      }
      break;
    }
    case ReduceOp::Sum: break;
    default: return node.fail("no pooling by this reduction");
  }
  kernel::build_pool(s.builder(), p, node.mapping());
  return s.finish(), true;
}

}  // namespace rlxc::codegen
