#include "passes/fuse/align_steps.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/region.h"
#include "passes/match.h"

namespace rlxc::fuse {
namespace {

constexpr uint16_t kStep = RegionStep::kStep, kNone = RegionStep::kNone;
constexpr size_t kNowhere = SIZE_MAX, kHidden = SIZE_MAX - 1;
constexpr size_t kLongestPair = 6;  // divide, round, shift, clamp, shift back, multiply
constexpr double kLeastScale = 1e-30;

bool is_operand(uint16_t arg) { return arg != kNone && (arg & kStep) == 0; }

// The number of an operand. The reader matters where it is neutral.
uint16_t operand_of(AlignedSteps& p, const AlignedSteps::Operand& o) {
  const bool neutral = std::ranges::any_of(o.values, [](ValueId v) { return !v.valid(); });
  const auto same = [&](const AlignedSteps::Operand& k) { return k.values == o.values && (!neutral || k.reader == o.reader); };
  const auto at = std::ranges::find_if(p.operands, same) - p.operands.begin();
  if (at == std::ssize(p.operands)) p.operands.push_back(o);
  return static_cast<uint16_t>(at);
}

AlignedSteps program_of(const Graph& g, NodeId n) {
  AlignedSteps p;
  p.steps =
      g.op(n) == OpKind::FusedQMatMul ? g.attrs<FusionAttrs>(n).steps : std::vector<RegionStep>{{OpKind::QMatMul, DType::I32}};
  for (RegionStep& s : p.steps) {
    if (has_trait(s.op, kCommutative) && is_operand(s.args[0]) && is_step(s.args[1])) std::swap(s.args[0], s.args[1]);
    for (uint16_t& a : s.args)
      if (is_operand(a)) a = operand_of(p, {{g.operand(n, a)}, s.op});
  }
  return p;
}

// Whether the steps differ in their arguments only.
bool alike(const RegionStep& a, const RegionStep& b) {
  RegionStep x = a, y = b;
  for (RegionStep* s : {&x, &y})
    for (uint16_t& arg : s->args)
      if (arg != kNone) arg = arg & kStep;
  return x == y;
}

// Two programs, and the one that computes both.
class Alignment {
 public:
  Alignment(const Graph& g, const AlignedSteps& a, const AlignedSteps& b, size_t members)
      : g_(g), side_{&a, &b}, members_(members) {
    for (int s : {0, 1}) {
      readers_[s].resize(side_[s]->steps.size());
      for (const RegionStep& step : side_[s]->steps)
        for (uint16_t arg : step.args)
          if (is_step(arg)) ++readers_[s][arg & ~kStep];
    }
  }

  AlignedSteps run() {
    const auto matches = longest_match();
    if (matches.empty()) return {};
    for (const Match& m : matches)
      if (!(m.rounding != kNowhere ? put_pair(m)
            : m.count[0] == 0      ? put_own(1, m.at[1])
            : m.count[1] == 0      ? put_own(0, m.at[0])
                                   : put_both(m.at[0], m.at[1])))
        return {};
    const auto last = [&](int s) { return side_[s]->steps.size() - 1; };
    return value_[0].back() == last(0) && value_[1].back() == last(1) ? std::move(out_) : AlignedSteps();
  }

 private:
  // Steps of both programs, or of one. rounding: what the other program repeats beside a pair of one.
  struct Match {
    size_t at[2], count[2];
    size_t rounding = kNowhere;
  };

  // Whether the other program may have the step with a neutral operand.
  bool can_be_neutral(int s, size_t i) const {
    const RegionStep& step = side_[s]->steps[i];
    const bool op = step.op == OpKind::Mul || step.op == OpKind::Div || step.op == OpKind::Add || step.op == OpKind::Sub;
    return op && is_step(step.args[0]) && is_operand(step.args[1]) && step.dtype == type_of(s, step.args[0]) &&
           step.dtype == type_of(s, step.args[1]) && (step.op != OpKind::Div || is_float(step.dtype));
  }
  DType type_of(int s, uint16_t arg) const {
    if (is_step(arg)) return side_[s]->steps[arg & ~kStep].dtype;
    for (ValueId v : side_[s]->operands[arg].values)
      if (v.valid()) return g_.dtype(v);
    return DType::Bool;
  }

  bool reads_last(int s, size_t i) const { return i > 0 && side_[s]->steps[i].args[0] == (kStep | (i - 1)); }

  // The number of steps from i on that divide, round, shift and clamp the value before them, each reading the last; 0: other
  // steps.
  size_t rounding_at(int s, size_t i) const {
    const auto& steps = side_[s]->steps;
    size_t at = i;
    const auto next = [&](OpKind op, bool has_operand) {
      const bool found = at < steps.size() && steps[at].op == op && steps[at].dtype == DType::F32 && reads_last(s, at) &&
                         is_operand(steps[at].args[1]) == has_operand && (at == i || readers_[s][at - 1] == 1);
      at += found;
      return found;
    };
    if (!next(OpKind::Div, true) || !next(OpKind::Round, false)) return 0;
    next(OpKind::Add, true);
    return next(OpKind::Clamp, false) ? at - i : 0;
  }
  // The number of steps from i on that are a Q/DQ pair; 0: other steps.
  size_t pair_at(int s, size_t i) const {
    const auto& steps = side_[s]->steps;
    const size_t rounding = rounding_at(s, i), at = i + rounding;
    if (rounding == 0 || at + 1 >= steps.size() || readers_[s][at - 1] != 1 || readers_[s][at] != 1) return 0;
    const bool shifted = steps[at - 2].op == OpKind::Add;
    const bool fits = steps[at].op == (shifted ? OpKind::Sub : OpKind::Add) && steps[at + 1].op == OpKind::Mul;
    for (size_t k = at; k < at + 2; ++k)
      if (!fits || steps[k].dtype != DType::F32 || !reads_last(s, k) || !is_operand(steps[k].args[1])) return 0;
    return rounding + 2;
  }
  // The other program has a pair at j, beside step i of program s. Returns the rounding that s may repeat there, or kNowhere.
  size_t repeated_rounding(int s, size_t i, size_t j, size_t length) const {
    for (const size_t at : {i >= length ? i - length : kNowhere, i}) {
      if (at == kNowhere || (at == i ? readers_[s][i - 1] != 1 || rounding_at(s, i) + 2 != length : pair_at(s, at) != length))
        continue;
      const auto& own = side_[s]->steps;
      const auto& other = side_[1 - s]->steps;
      bool same = true;
      for (size_t k = 0; k + 2 < length; ++k) same = same && alike(own[at + k], other[j + k]);
      const auto values_at = [&](size_t k) { return values(s, own[at + k].args[1]); };
      if (at != i)
        same = same && values_at(0) == values_at(length - 1) && (length < kLongestPair || values_at(2) == values_at(length - 2));
      const bool shifted = length == kLongestPair;
      if (same && all(values_at(0), [](double v) { return v > kLeastScale && v < 1 / kLeastScale; }) &&
          (!shifted || all(values_at(2), [](double v) { return v == std::round(v); })))
        return at;
    }
    return kNowhere;
  }
  template <class F>
  bool all(const std::vector<ValueId>& values, F is_right) const {
    return std::ranges::all_of(values, [&](ValueId v) {
      const auto number = v.valid() ? match::scalar(g_, v) : std::nullopt;
      return number && is_right(*number);
    });
  }

  // Steps that have most in common, in order. Empty: there are none.
  std::vector<Match> longest_match() const {
    const size_t n = side_[0]->steps.size(), m = side_[1]->steps.size();
    constexpr int kImpossible = -1;
    struct Choice {
      int most = kImpossible;
      Match match = {};
    };
    std::vector<size_t> pairs[2];
    for (int s : {0, 1})
      for (size_t i = 0; i < side_[s]->steps.size(); ++i) pairs[s].push_back(pair_at(s, i));
    std::vector<Choice> choices((n + 1) * (m + 1));
    const auto at = [&](size_t i, size_t j) -> Choice& { return choices[i * (m + 1) + j]; };
    for (size_t i = n + 1; i-- > 0;)
      for (size_t j = m + 1; j-- > 0;) {
        Choice& best = at(i, j);
        if (i == n && j == m) best.most = 0;
        const auto offer = [&](size_t first, size_t second, size_t rounding = kNowhere) {
          const int rest = at(i + first, j + second).most, all = rest + static_cast<int>(std::min(first, second));
          if (rest >= 0 && all > best.most) best = {all, {{i, j}, {first, second}, rounding}};
        };
        if (i < n && j < m && alike(side_[0]->steps[i], side_[1]->steps[j])) offer(1, 1);
        if (i < n && can_be_neutral(0, i)) offer(1, 0);
        if (j < m && can_be_neutral(1, j)) offer(0, 1);
        if (i == 0 || j == 0) continue;
        if (const size_t length = i < n ? pairs[0][i] : 0; length > 0)
          if (const size_t own = repeated_rounding(1, j, i, length); own != kNowhere) offer(length, 0, own);
        if (const size_t length = j < m ? pairs[1][j] : 0; length > 0)
          if (const size_t own = repeated_rounding(0, i, j, length); own != kNowhere) offer(0, length, own);
      }
    std::vector<Match> matches;
    if (at(0, 0).most < 0) return matches;
    for (size_t i = 0, j = 0; i < n || j < m;) {
      matches.push_back(at(i, j).match);
      i += matches.back().count[0];
      j += matches.back().count[1];
    }
    return matches;
  }

  // The last step of the result that has these steps' values in both programs; kNowhere: any.
  std::optional<uint16_t> holder(size_t first, size_t second) const {
    for (size_t k = out_.steps.size(); k-- > 0;)
      if ((first == kNowhere || value_[0][k] == first) && (second == kNowhere || value_[1][k] == second))
        return static_cast<uint16_t>(kStep | k);
    return std::nullopt;
  }

  uint16_t operand(const AlignedSteps::Operand& o) { return operand_of(out_, o); }
  std::vector<ValueId> values(int s, uint16_t arg) const { return side_[s]->operands[arg].values; }

  void put(const RegionStep& step, size_t first, size_t second) {
    out_.steps.push_back(step);
    value_[0].push_back(first);
    value_[1].push_back(second);
  }

  bool put_both(size_t i, size_t j) {
    RegionStep step = side_[0]->steps[i];
    const RegionStep& second = side_[1]->steps[j];
    for (size_t a = 0; a < step.args.size(); ++a) {
      if (step.args[a] == kNone) continue;
      if (is_step(step.args[a])) {
        const auto from = holder(step.args[a] & ~kStep, second.args[a] & ~kStep);
        if (!from) return false;
        step.args[a] = *from;
        continue;
      }
      AlignedSteps::Operand o{values(0, step.args[a]), step.op};
      const auto more = values(1, second.args[a]);
      o.values.insert(o.values.end(), more.begin(), more.end());
      step.args[a] = operand(o);
    }
    put(step, i, j);
    return true;
  }

  // A step of one program, neutral in the other.
  bool put_own(int s, size_t i) {
    RegionStep step = side_[s]->steps[i];
    const size_t wanted = step.args[0] & ~kStep;
    const auto from = holder(s == 0 ? wanted : kNowhere, s == 1 ? wanted : kNowhere);
    if (!from) return false;
    AlignedSteps::Operand o{values(s, step.args[1]), step.op};
    o.values.insert(s == 0 ? o.values.end() : o.values.begin(), s == 0 ? 1 : members_, ValueId());
    const size_t before = value_[1 - s][*from & ~kStep];
    step.args = {*from, operand(o), kNone};
    put(step, s == 0 ? i : before, s == 1 ? i : before);
    return true;
  }

  // The steps of a pair of one program, beside which the other one repeats a rounding.
  bool put_pair(const Match& m) {
    const int s = m.count[0] > 0 ? 0 : 1, t = 1 - s;
    const size_t length = m.count[s], before = m.at[t] - 1;
    const bool is_next = m.rounding == m.at[t];  // of five or six steps the last two are none of a rounding
    for (size_t k = 0; k < length; ++k) {
      RegionStep step = side_[s]->steps[m.at[s] + k];
      const size_t wanted = step.args[0] & ~kStep;
      const auto from = k > 0 ? std::optional(static_cast<uint16_t>(kStep | (out_.steps.size() - 1)))
                              : holder(s == 0 ? wanted : before, s == 0 ? before : wanted);
      if (!from) return false;
      step.args[0] = *from;
      if (is_operand(step.args[1])) {
        AlignedSteps::Operand o{values(s, step.args[1]), step.op};
        std::vector<ValueId> repeated(t == 0 ? members_ : 1, o.values[0]);  // the 0 of a pair without zero points
        const size_t k_of = !is_next || k + 2 < length ? k : k + 1 == length ? 0 : length == kLongestPair ? 2 : kNowhere;
        if (k_of != kNowhere) repeated = values(t, side_[t]->steps[m.rounding + k_of].args[1]);
        o.values.insert(s == 0 ? o.values.end() : o.values.begin(), repeated.begin(), repeated.end());
        step.args[1] = operand(o);
      }
      const size_t done = k + 1 == length ? before : kHidden;
      put(step, s == 0 ? m.at[0] + k : done, s == 1 ? m.at[1] + k : done);
    }
    return true;
  }

  const Graph& g_;
  const AlignedSteps* side_[2];
  const size_t members_;  // of the first program
  AlignedSteps out_;
  std::vector<size_t> readers_[2];  // of each step
  std::vector<size_t> value_[2];    // by step of the result: the step of either program whose value it has
};

}  // namespace

AlignedSteps aligned_steps(const Graph& g, std::span<const NodeId> nodes) {
  AlignedSteps all = program_of(g, nodes[0]);
  for (size_t i = 1; i < nodes.size() && !all.steps.empty(); ++i) all = Alignment(g, all, program_of(g, nodes[i]), i).run();
  return all;
}

double neutral_operand(OpKind op, DType t) {
  if (op == OpKind::Mul || op == OpKind::Div) return 1;
  return op == OpKind::Add && is_float(t) ? -0.0 : 0;
}

}  // namespace rlxc::fuse
