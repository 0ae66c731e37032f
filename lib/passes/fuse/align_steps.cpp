#include "passes/fuse/align_steps.h"

#include <algorithm>
#include <optional>

#include "ir/region.h"

namespace rlxc::fuse {
namespace {

constexpr uint16_t kStep = RegionStep::kStep, kNone = RegionStep::kNone;
constexpr size_t kNowhere = SIZE_MAX;

bool is_step(uint16_t arg) { return arg != kNone && (arg & kStep) != 0; }
bool is_operand(uint16_t arg) { return arg != kNone && (arg & kStep) == 0; }

AlignedSteps program_of(const Graph& g, NodeId n) {
  AlignedSteps p;
  p.steps =
      g.op(n) == OpKind::FusedQMatMul ? g.attrs<RegionAttrs>(n).steps : std::vector<RegionStep>{{OpKind::QMatMul, DType::I32}};
  for (RegionStep& s : p.steps) {
    if (has_trait(s.op, kCommutative) && is_operand(s.args[0]) && is_step(s.args[1])) std::swap(s.args[0], s.args[1]);
    for (uint16_t& a : s.args)
      if (is_operand(a)) {
        const AlignedSteps::Operand o{{g.operand(n, a)}, s.op};
        a = static_cast<uint16_t>(std::ranges::find(p.operands, o) - p.operands.begin());
        if (a == p.operands.size()) p.operands.push_back(o);
      }
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
      : g_(g), side_{&a, &b}, members_(members) {}

  AlignedSteps run() {
    const auto pairs = longest_match();
    if (pairs.empty()) return {};
    for (const auto& [i, j] : pairs)
      if (!(j == kNowhere ? put_own(0, i) : i == kNowhere ? put_own(1, j) : put_both(i, j))) return {};
    const auto last = [&](int s) { return side_[s]->steps.size() - 1; };
    return value_[0].back() == last(0) && value_[1].back() == last(1) ? std::move(out_) : AlignedSteps();
  }

 private:
  using Pair = std::pair<size_t, size_t>;

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

  // Pairs of steps that have most in common, in order; kNowhere: of one program only. Empty: there are none.
  std::vector<Pair> longest_match() const {
    const size_t n = side_[0]->steps.size(), m = side_[1]->steps.size();
    constexpr int kImpossible = -1;
    std::vector<int> most((n + 1) * (m + 1), kImpossible);
    const auto at = [&](size_t i, size_t j) -> int& { return most[i * (m + 1) + j]; };
    for (size_t i = n + 1; i-- > 0;)
      for (size_t j = m + 1; j-- > 0;) {
        int& best = at(i, j);
        if (i == n && j == m) best = 0;
        if (i < n && j < m && alike(side_[0]->steps[i], side_[1]->steps[j]) && at(i + 1, j + 1) >= 0) best = at(i + 1, j + 1) + 1;
        if (i < n && can_be_neutral(0, i)) best = std::max(best, at(i + 1, j));
        if (j < m && can_be_neutral(1, j)) best = std::max(best, at(i, j + 1));
      }
    std::vector<Pair> pairs;
    if (at(0, 0) < 0) return pairs;
    for (size_t i = 0, j = 0; i < n || j < m;) {
      const int best = at(i, j);
      if (i < n && j < m && alike(side_[0]->steps[i], side_[1]->steps[j]) && at(i + 1, j + 1) >= 0 &&
          best == at(i + 1, j + 1) + 1)
        pairs.emplace_back(i++, j++);
      else if (i < n && can_be_neutral(0, i) && at(i + 1, j) == best) pairs.emplace_back(i++, kNowhere);
      else pairs.emplace_back(kNowhere, j++);
    }
    return pairs;
  }

  // The last step of the result that has these steps' values in both programs; kNowhere: any.
  std::optional<uint16_t> holder(size_t first, size_t second) const {
    for (size_t k = out_.steps.size(); k-- > 0;)
      if ((first == kNowhere || value_[0][k] == first) && (second == kNowhere || value_[1][k] == second))
        return static_cast<uint16_t>(kStep | k);
    return std::nullopt;
  }

  uint16_t operand(const AlignedSteps::Operand& o) {
    const auto at = std::ranges::find(out_.operands, o) - out_.operands.begin();
    if (at == std::ssize(out_.operands)) out_.operands.push_back(o);
    return static_cast<uint16_t>(at);
  }
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

  const Graph& g_;
  const AlignedSteps* side_[2];
  const size_t members_;  // of the first program
  AlignedSteps out_;
  std::vector<size_t> value_[2];  // by step of the result: the step of either program whose value it has
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
