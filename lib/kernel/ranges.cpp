#include "kernel/ranges.h"

#include <algorithm>

namespace rlxc::kernel {
namespace {

using I = Interval;

int64_t clamp128(__int128 v) { return v > I::kMax ? I::kMax : v < I::kMin ? I::kMin : static_cast<int64_t>(v); }

int64_t add(int64_t a, int64_t b) {
  if (a == I::kMin || b == I::kMin) return I::kMin;
  if (a == I::kMax || b == I::kMax) return I::kMax;
  return clamp128(__int128{a} + b);
}
int64_t neg(int64_t a) { return a == I::kMin ? I::kMax : a == I::kMax ? I::kMin : -a; }

I mul(I a, I b) {
  if ((a.min == 0 && a.max == 0) || (b.min == 0 && b.max == 0)) return {0, 0};
  int64_t p[] = {clamp128(__int128{a.min} * b.min), clamp128(__int128{a.min} * b.max), clamp128(__int128{a.max} * b.min),
                 clamp128(__int128{a.max} * b.max)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

}  // namespace

Ranges::Ranges(const Kernel& k) : k_(k) {
  for (VarId v : k.symbols) bind(v, {k.var(v).min, k.var(v).max});
}

void Ranges::set(uint32_t node, Interval i) {
  auto [it, fresh] = known_.try_emplace(node, Interval{});
  undo_.push_back({node, it->second});
  it->second = i;
  derived_.clear();
}

void Ranges::close() {
  size_t mark = marks_.back();
  marks_.pop_back();
  if (undo_.size() > mark) derived_.clear();
  for (; undo_.size() > mark; undo_.pop_back()) known_[undo_.back().first] = undo_.back().second;
}

void Ranges::bind(VarId v, Interval i) {
  for (; scanned_ < k_.exprs.size(); ++scanned_)
    if (k_.exprs[scanned_].op == ExprOp::Var) var_node_[k_.exprs[scanned_].payload] = static_cast<uint32_t>(scanned_);
  auto it = var_node_.find(v.raw);
  if (it != var_node_.end()) set(it->second, i);
}

void Ranges::bind_loop(const Stmt& loop) { bind(loop.var, {0, add(of(loop.index).max, -1)}); }

void Ranges::assume(ExprId condition, bool holds) {
  const ExprNode& e = k_.expr(condition);
  if ((e.op == ExprOp::And && holds) || (e.op == ExprOp::Or && !holds)) {
    assume(e.args[0], holds);
    assume(e.args[1], holds);
    return;
  }
  if (e.op == ExprOp::Not) return assume(e.args[0], !holds);
  if ((e.op != ExprOp::Lt && e.op != ExprOp::Le) || !is_index_type(k_.expr(e.args[0]).type.dtype)) {
    if (e.op != ExprOp::Eq || !holds || !is_index_type(k_.expr(e.args[0]).type.dtype)) return;
    Interval a = of(e.args[0]), b = of(e.args[1]), both{std::max(a.min, b.min), std::min(a.max, b.max)};
    set(e.args[0].raw, both);
    set(e.args[1].raw, both);
    return;
  }
  // lower < upper or lower <= upper, after inverting a negated condition.
  ExprId lower = e.args[holds ? 0 : 1], upper = e.args[holds ? 1 : 0];
  int64_t gap = (e.op == ExprOp::Lt) == holds ? 1 : 0;
  Interval l = of(lower), u = of(upper);
  set(lower.raw, {l.min, std::min(l.max, add(u.max, -gap))});
  set(upper.raw, {std::max(u.min, add(l.min, gap)), u.max});
}

Interval Ranges::of(ExprId root) {
  std::vector<ExprId> work{root};
  while (!work.empty()) {
    ExprId id = work.back();
    if (derived_.count(id.raw)) {
      work.pop_back();
      continue;
    }
    const ExprNode& e = k_.expr(id);
    bool ready = true;
    for (ExprId a : e.args)
      if (a.valid() && is_index_type(e.type.dtype) && is_index_type(k_.expr(a).type.dtype) && !derived_.count(a.raw)) {
        work.push_back(a);
        ready = false;
      }
    if (!ready) continue;
    work.pop_back();
    Interval i = is_index_type(e.type.dtype) ? compute(e) : Interval{};
    if (e.type.dtype == DType::I32 && (i.min < INT32_MIN || i.max > INT32_MAX)) i = {INT32_MIN, INT32_MAX};
    auto fact = known_.find(id.raw);
    if (fact != known_.end()) i = {std::max(i.min, fact->second.min), std::min(i.max, fact->second.max)};
    derived_[id.raw] = i;
  }
  return derived_[root.raw];
}

Interval Ranges::compute(const ExprNode& e) {
  auto arg = [&](int n) {
    auto it = derived_.find(e.args[n].raw);
    return it == derived_.end() ? Interval{} : it->second;
  };
  switch (e.op) {
    case ExprOp::Const: return {e.payload, e.payload};
    case ExprOp::Broadcast:
    case ExprOp::Lane:
    case ExprOp::ReduceMax:
    case ExprOp::ReduceMin: return arg(0);
    case ExprOp::Ramp: {
      int64_t last = clamp128(__int128{e.payload} * (e.type.lanes - 1));
      return {add(arg(0).min, std::min<int64_t>(last, 0)), add(arg(0).max, std::max<int64_t>(last, 0))};
    }
    case ExprOp::Neg: return {neg(arg(0).max), neg(arg(0).min)};
    case ExprOp::Add: return {add(arg(0).min, arg(1).min), add(arg(0).max, arg(1).max)};
    case ExprOp::Sub: return {add(arg(0).min, neg(arg(1).max)), add(arg(0).max, neg(arg(1).min))};
    case ExprOp::Mul: return mul(arg(0), arg(1));
    case ExprOp::Min: return {std::min(arg(0).min, arg(1).min), std::min(arg(0).max, arg(1).max)};
    case ExprOp::Max: return {std::max(arg(0).min, arg(1).min), std::max(arg(0).max, arg(1).max)};
    case ExprOp::Div: {
      Interval a = arg(0), b = arg(1);
      if (a.min < 0) return {};
      if (b.min < 0) return {neg(a.max), a.max};
      return {b.max == I::kMax || b.min == 0 ? 0 : a.min / b.max,
              a.max == I::kMax ? I::kMax : a.max / std::max<int64_t>(b.min, 1)};
    }
    case ExprOp::Mod: {
      Interval a = arg(0), b = arg(1);
      if (a.min < 0) return {};
      if (b.min < 0) return {0, a.max};
      if (b.min > a.max) return a;
      return {0, std::min(a.max, b.max == I::kMax ? I::kMax : std::max<int64_t>(b.max - 1, 0))};
    }
    case ExprOp::And: return arg(0).min >= 0 && arg(1).min >= 0 ? Interval{0, std::min(arg(0).max, arg(1).max)} : Interval{};
    case ExprOp::Select: return {std::min(arg(1).min, arg(2).min), std::max(arg(1).max, arg(2).max)};
    case ExprOp::Cast: return is_index_type(k_.expr(e.args[0]).type.dtype) ? arg(0) : Interval{};
    default: return {};
  }
}

}  // namespace rlxc::kernel
