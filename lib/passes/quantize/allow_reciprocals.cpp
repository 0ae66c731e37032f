// Marks divisions of regions that may be computed as products with a reciprocal: the divisor is a known number, the quotient is
// only rounded and clamped to a few hundred integers, and these are the same (kernel/divisor.h).
//   y = clamp(round(x / 0.02) + 3, 0, 255)
// The mark is alpha = 1 of the step. The meaning remains the division. Quantization divides each result of a contraction by a
// scale, and processors take longer for divisions than for all else that they do to the result. O(steps).
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <variant>

#include "ir/region.h"
#include "kernel/divisor.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

constexpr int kMost = 256;  // magnitude of a rounded quotient: 8 bits with any zero point

class Divisions {
 public:
  Divisions(const Graph& g, NodeId n, const std::vector<RegionStep>& steps, std::span<const int64_t> results)
      : g_(g), n_(n), steps_(steps), users_(steps.size()), is_result_(steps.size()) {
    is_result_.back() = true;
    for (const int64_t r : results) is_result_[static_cast<size_t>(r)] = true;
    for (size_t i = 0; i < steps_.size(); ++i)
      for (const uint16_t a : steps_[i].args)
        if (is_step(a)) users_[a & ~RegionStep::kStep].push_back(i);
  }

  // Calls f(step, divisor) for each division by a known number whose quotient is rounded to at most kMost in magnitude.
  template <class F>
  void each_rounded(const F& f) const {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const RegionStep& s = steps_[i];
      if (!is_division(s) || !all_users(i, [&](size_t user) { return steps_[user].op == OpKind::Round && is_clamped(user); }))
        continue;
      if (const auto divisor = match::scalar(g_, g_.operand(n_, s.args[1]))) f(i, static_cast<float>(*divisor));
    }
  }

  static bool is_division(const RegionStep& s) {
    return s.op == OpKind::Div && s.alpha() == 0 && s.dtype == DType::F32 && !is_step(s.args[1]);
  }

 private:
  template <class F>
  bool all_users(size_t i, const F& fits) const {
    return !is_result_[i] && !users_[i].empty() && std::ranges::all_of(users_[i], fits);
  }

  // Whether step `i` is only clamped, with a known zero point added or without, so that at most kMost of it remains.
  bool is_clamped(size_t i) const {
    return all_users(i, [&](size_t user) {
      const RegionStep& s = steps_[user];
      if (s.op != OpKind::Add) return clamps(user, 0);
      const uint16_t other = s.args[0] == (RegionStep::kStep | i) ? s.args[1] : s.args[0];
      const auto zero = is_step(other) ? std::nullopt : match::scalar(g_, g_.operand(n_, other));
      return zero && all_users(user, [&](size_t clamp) { return clamps(clamp, *zero); });
    });
  }

  // Whether step `i` clamps v + zero to bounds that v meets at most kMost from 0.
  bool clamps(size_t i, double zero) const {
    const RegionStep& s = steps_[i];
    return s.op == OpKind::Clamp && std::fabs(s.alpha() - zero) <= kMost && std::fabs(s.beta() - zero) <= kMost;
  }

  const Graph& g_;
  NodeId n_;
  const std::vector<RegionStep>& steps_;
  std::vector<std::vector<size_t>> users_;
  std::vector<bool> is_result_;
};

}  // namespace

PassResult allow_reciprocals(Module& m, PassContext& context) {
  if (!context.target.splits_divisors) return {};
  int64_t marked = 0;
  std::map<uint32_t, bool> allowed;                         // by the bits of a divisor
  const auto allow = [&](Graph& g, NodeId n, auto attrs) {  // a copy
    std::vector<int64_t> results;
    if constexpr (requires { attrs.also; }) results = attrs.also;
    if constexpr (requires { attrs.parts; }) results = attrs.parts;
    bool changed = false;
    const Divisions divisions(g, n, attrs.steps, results);
    divisions.each_rounded([&](size_t step, float divisor) {
      const auto [known, is_new] = allowed.try_emplace(std::bit_cast<uint32_t>(divisor));
      if (is_new) known->second = kernel::rounds_alike(divisor, kMost);
      if (!known->second) return;
      attrs.steps[step].attrs = AlphaBetaAttrs{1, 0};
      changed = true;
    });
    if (!changed) return;
    marked += context.rewrite([&] {
      g.set_attrs(n, g.module().attrs.intern(attrs));
      return true;
    });
  };
  match::each_graph(m, [&](Graph& g) {
    for (const NodeId n : g.nodes())
      std::visit(
          [&](const auto& attrs) {
            if constexpr (requires { attrs.steps.front().dtype; })
              if (std::ranges::any_of(attrs.steps, Divisions::is_division)) allow(g, n, attrs);
          },
          g.module().attrs[g.attr_id(n)]);
  });
  return {marked > 0, {{"marked", marked}}};
}

}  // namespace rlxc
