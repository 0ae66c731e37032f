// Warns of computations that give infinities or NaN for all inputs: constants with these values (except a mask of -inf that only
// reaches a softmax), operands outside the domain of their op by interval arithmetic over the whole graph, and epsilons that
// round to 0 in their type. Changes nothing. O(nodes + elements of constants of up to 64 Ki elements).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ir/graphs.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kReadElements = 1 << 16;

// Bounds of all finite values of a tensor.
struct Interval {
  double low = -kInf, high = kInf;
  bool within(double a, double b) const { return low >= a && high <= b; }
};

Interval products(Interval a, Interval b) {
  const double p[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
  for (double v : p)
    if (std::isnan(v)) return {};
  return {*std::ranges::min_element(p), *std::ranges::max_element(p)};
}

// Result range of a unary op that depends on nothing but its operand's interval.
struct Range {
  OpKind op;
  Interval result;
};
constexpr Range kRanges[] = {
    {OpKind::Relu, {0, kInf}},     {OpKind::Abs, {0, kInf}},    {OpKind::Sqrt, {0, kInf}},  {OpKind::Exp, {0, kInf}},
    {OpKind::Sigmoid, {0, 1}},     {OpKind::Softmax, {0, 1}},   {OpKind::Tanh, {-1, 1}},    {OpKind::Erf, {-1, 1}},
    {OpKind::Sin, {-1, 1}},        {OpKind::Cos, {-1, 1}},      {OpKind::Sign, {-1, 1}},    {OpKind::HardSigmoid, {0, 1}},
    {OpKind::Softplus, {0, kInf}}, {OpKind::Softsign, {-1, 1}}, {OpKind::Rsqrt, {0, kInf}},
};

constexpr double kAboveOne = 1 + std::numeric_limits<double>::epsilon();

// Operand values for which every result element is infinite or NaN.
struct Domain {
  OpKind op;
  size_t operand;
  Interval bad;
  std::string_view reason, fix;
};
constexpr Domain kDomains[] = {
    {OpKind::Sqrt,
     0,
     {-kInf, -std::numeric_limits<double>::denorm_min()},
     "the square root of what is negative",
     "take the absolute value or clamp at 0 first"},
    {OpKind::Rsqrt, 0, {-kInf, 0}, "the reciprocal root of what is not positive", "add a small positive number first"},
    {OpKind::Log, 0, {-kInf, 0}, "the logarithm of what is not positive", "add a small positive number first"},
    {OpKind::Recip, 0, {0, 0}, "the reciprocal of 0", "add a small number first"},
    {OpKind::Div, 1, {0, 0}, "a division by 0", "add a small number to the divisor"},
    {OpKind::Acos, 0, {kAboveOne, kInf}, "the arc cosine of what is above 1", "clamp to -1 .. 1 first"},
    {OpKind::Asin, 0, {kAboveOne, kInf}, "the arc sine of what is above 1", "clamp to -1 .. 1 first"},
    {OpKind::Atanh, 0, {1, kInf}, "the inverse hyperbolic tangent of what is not below 1", "clamp to (-1, 1) first"},
};

class Linter {
 public:
  Linter(const Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), known_(g.value_capacity()), masks_(g.value_capacity()) {}

  int64_t run() {
    std::vector<NodeId> order;
    for (NodeId n : g_.nodes()) order.push_back(n);
    for (auto n = order.rbegin(); n != order.rend(); ++n)
      if (g_.result_count(*n) == 1) masks_[g_.result(*n).raw] = hides(*n);
    for (NodeId n : g_.nodes())
      if (g_.result_count(n) > 0 && g_.type(g_.result(n)).kind == TypeKind::Tensor && is_float(g_.dtype(g_.result(n)))) visit(n);
    return findings_;
  }

 private:
  void warn(NodeId n, std::string message, std::string_view fix) {
    ctx_.diagnostics.warning(Code::NumericHazard, std::move(message),
                             "node " + g_.label(n).quoted() + " (" + std::string(kind_name(g_.op(n))) + ")", std::string(fix));
    ++findings_;
  }

  Interval of(ValueId v) const { return v.valid() ? known_[v.raw] : Interval{}; }

  void visit(NodeId n) {
    const OpKind op = g_.op(n);
    if (op == OpKind::Constant) return constant(n);
    for (const Domain& d : kDomains)
      if (d.op == op && of(g_.operand(n, d.operand)).within(d.bad.low, d.bad.high)) warn(n, std::string(d.reason), d.fix);
    if (const auto* a = std::get_if<NormAttrs>(&g_.module().attrs[g_.attr_id(n)])) epsilon(n, a->eps);
    known_[g_.result(n).raw] = result(n, op);
  }

  void constant(NodeId n) {
    const TensorData& d = g_.module().data[g_.attrs<DataAttrs>(n).data];
    const int64_t count = d.splat ? std::min<int64_t>(1, d.elements()) : d.elements();
    if (count == 0 || count > kReadElements) return;
    Interval all{kInf, -kInf};
    bool infinite = false;
    for (int64_t i = 0; i < count; ++i) {
      const double v = element_as_double(d, i);
      if (std::isnan(v)) return warn(n, folded(n) + "not-a-number", "look at what it is computed from");
      infinite = infinite || std::isinf(v);
      all = {std::min(all.low, v), std::max(all.high, v)};
    }
    if (infinite && !masks_[g_.result(n).raw]) warn(n, folded(n) + "an infinity", "use the largest finite number");
    known_[g_.result(n).raw] = all;
  }

  std::string folded(NodeId n) const {
    const bool made = g_.origin(n).valid() && !g_.module().origin(g_.origin(n)).passes.empty();
    return made ? "its operands are constants and give " : "the constant holds ";
  }

  // Returns whether all users of the result only mask with it: every path leads through selections, sums and layout ops into a
  // softmax, a maximum, a comparison or an attention.
  bool hides(NodeId n) const {
    for (const auto use : g_.uses(g_.result(n))) {
      const OpKind op = g_.op(use.user);
      if (op == OpKind::Softmax || op == OpKind::LogSoftmax || op == OpKind::Attention || has_trait(op, kCompare)) continue;
      if (op == OpKind::Pool && g_.attrs<PoolAttrs>(use.user).op == ReduceOp::Max) continue;  // padding that never wins
      if (op == OpKind::MaxPoolIndices) continue;
      const bool passes =
          op == OpKind::Where || op == OpKind::Add || op == OpKind::Max || op == OpKind::Min || has_trait(op, kMovement);
      if (!passes || !masks_[g_.result(use.user).raw]) return false;
    }
    return g_.use_count(g_.result(n)) > 0;
  }

  void epsilon(NodeId n, double eps) {
    // Smallest positive numbers of f16 and bf16. Norm kernels compute in f32, but chains of primitive ops do not.
    const DType t = g_.dtype(g_.result(n));
    const double least = t == DType::F16 ? 5.9604644775390625e-08 : t == DType::BF16 ? 9.2e-41 : 0;
    if (eps > 0 && eps < least)
      warn(n, "its epsilon is 0 in " + std::string(name(t)), "use one of at least 1e-7, or compute in f32");
  }

  Interval result(NodeId n, OpKind op) const {
    const Interval a = of(g_.operand(n, 0)), b = g_.operands(n).size() > 1 ? of(g_.operand(n, 1)) : Interval{};
    switch (op) {
      case OpKind::Neg: return {-a.high, -a.low};
      case OpKind::Add: return {a.low + b.low, a.high + b.high};
      case OpKind::Sub: return {a.low - b.high, a.high - b.low};
      case OpKind::Mul:
        if (g_.operand(n, 0) == g_.operand(n, 1)) return {0, std::max(a.low * a.low, a.high * a.high)};
        return products(a, b);
      case OpKind::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case OpKind::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case OpKind::Pow: {
        const auto e = match::scalar(g_, g_.operand(n, 1));
        return e && std::fmod(*e, 2) == 0 ? Interval{*e > 0 ? 0.0 : -kInf, kInf} : Interval{};
      }
      case OpKind::Clamp: {
        const auto& c = g_.attrs<ClampAttrs>(n);
        return {std::clamp(a.low, c.min, std::max(c.min, c.max)), std::min(std::max(a.high, c.min), c.max)};
      }
      case OpKind::Reduce: {
        const ReduceOp r = g_.attrs<ReduceAttrs>(n).op;
        if (r == ReduceOp::SumSquare || r == ReduceOp::L1 || r == ReduceOp::L2) return {0, kInf};
        if (r == ReduceOp::Mean || r == ReduceOp::Max || r == ReduceOp::Min) return a;
        return r == ReduceOp::Sum ? Interval{a.low >= 0 ? 0 : -kInf, a.high <= 0 ? 0 : kInf} : Interval{};
      }
      case OpKind::Reshape:
      case OpKind::Transpose:
      case OpKind::Narrow:
      case OpKind::Slice:
      case OpKind::Expand: return a;
      case OpKind::Cast: return is_float(g_.dtype(g_.operand(n, 0))) ? a : Interval{};
      default: break;
    }
    const auto range = std::ranges::find(kRanges, op, &Range::op);
    return range == std::end(kRanges) ? Interval{} : range->result;
  }

  const Graph& g_;
  PassContext& ctx_;
  std::vector<Interval> known_;  // by value
  std::vector<bool> masks_;      // by value
  int64_t findings_ = 0;
};

}  // namespace

PassResult numeric_lint(Module& m, PassContext& ctx) {
  int64_t findings = 0;
  for (GraphId id : graphs_in_use(m)) findings += Linter(m.graph(id), ctx).run();
  return {false, {{"findings", findings}}};
}

}  // namespace rlxc
