// Gives each of several integer contractions whose sums one region reads its own rounding. One of them becomes the kernel of the
// region (fuse_integer_matmul). Without this pass the others would store sums of 32 bits instead of the codes that the region
// rounds them to, as in a residual block whose shortcut has a convolution.
//   region(sums, others, ..)  ->  region(sums, region(others, ..) in 8 bits, ..)
// O(steps of regions).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

class Splitter {
 public:
  Splitter(Graph& g, NodeId n) : g_(g), n_(n), steps_(g.attrs<FusionAttrs>(n).steps) {}

  bool split() {
    std::vector<uint16_t> sums;
    for (size_t i = 0; i < g_.operands(n_).size(); ++i)
      if (is_sums(g_.operand(n_, i))) sums.push_back(static_cast<uint16_t>(i));
    for (size_t i = 0; i + 1 < sums.size(); ++i)
      if (const auto rounded = rounding_of(sums[i]); rounded && !has_same_rows(sums, i)) return take(*rounded);
    return false;
  }

 private:
  // The step that rounds, and those that only it reads, through each other too.
  struct Rounding {
    size_t step;
    std::vector<bool> before;
    DType type;
  };

  bool is_sums(ValueId v) const {
    const OpKind op = g_.op(g_.def(v));
    return (op == OpKind::QMatMul || op == OpKind::QConv) && g_.has_one_use(v) && same_dims(g_, v, g_.result(n_));
  }

  // Whether one kernel computes these sums and others (fuse_integer_gate).
  bool has_same_rows(std::span<const uint16_t> sums, size_t i) const {
    const auto rows = [&](uint16_t operand) { return g_.operand(g_.def(g_.operand(n_, operand)), 0); };
    return std::ranges::any_of(sums, [&](uint16_t other) { return other != sums[i] && rows(other) == rows(sums[i]); });
  }

  std::optional<Rounding> rounding_of(uint16_t sums) const {
    for (size_t i = 0; i + 1 < steps_.size(); ++i) {
      const auto type = type_of_codes(i);
      if (!type) continue;
      Rounding r{i, std::vector<bool>(steps_.size()), *type};
      r.before[i] = true;
      bool reads = false, fits = true;
      for (size_t k = i + 1; k-- > 0;)
        for (const uint16_t a : steps_[k].args) {
          if (!r.before[k] || a == kNone) continue;
          if (is_step(a)) r.before[a & ~kStep] = true;
          else if (a == sums) reads = true;
          else fits = fits && is_weight(g_, g_.operand(n_, a));
        }
      if (reads && fits && is_apart(r, sums)) return r;
    }
    return std::nullopt;
  }

  // Whether nothing else reads the sums or a step before the rounding.
  bool is_apart(const Rounding& r, uint16_t sums) const {
    for (size_t k = 0; k < steps_.size(); ++k)
      for (const uint16_t a : steps_[k].args) {
        if (r.before[k] || a == kNone) continue;
        if (a == sums || (is_step(a) && (a & ~kStep) != r.step && r.before[a & ~kStep])) return false;
      }
    return true;
  }

  // The type whose range a step limits integers to.
  std::optional<DType> type_of_codes(size_t i) const {
    const RegionStep& s = steps_[i];
    if (s.op != OpKind::Clamp || s.dtype != DType::F32 || !is_step(s.args[0])) return std::nullopt;
    size_t rounds = s.args[0] & ~kStep;
    if (const RegionStep& add = steps_[rounds]; add.op == OpKind::Add) {
      if (!is_step(add.args[0]) || is_step(add.args[1]) || !has_integers(g_, g_.operand(n_, add.args[1]))) return std::nullopt;
      rounds = add.args[0] & ~kStep;
    }
    if (steps_[rounds].op != OpKind::Round) return std::nullopt;
    if (s.alpha() == 0 && s.beta() == 255) return DType::U8;
    return s.alpha() == -128 && s.beta() == 127 ? std::optional(DType::I8) : std::nullopt;
  }

  bool take(const Rounding& r) {
    Builder b(g_, nullptr, n_);
    b.set_node_name(g_.node_name(n_));
    RegionProgram rounding(g_), rest(g_);
    std::vector<uint16_t> codes(steps_.size()), of_rest(steps_.size());
    for (size_t i = 0; i <= r.step; ++i)
      if (r.before[i]) codes[i] = rounding.copy(n_, steps_[i], codes);
    rounding.add(OpKind::Cast, r.type, codes[r.step]);
    const ValueId rounded = b.create(OpKind::ElementwiseRegion, rounding.operands, FusionAttrs{rounding.steps});
    if (!rounded.valid()) return false;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (i == r.step) of_rest[i] = rest.add(OpKind::Cast, DType::F32, rest.code(rounded));
      else if (!r.before[i]) of_rest[i] = rest.copy(n_, steps_[i], of_rest);
    }
    const ValueId y = b.create(OpKind::ElementwiseRegion, rest.operands, FusionAttrs{rest.steps});
    if (!y.valid()) {
      erase_dead(g_, g_.def(rounded));
      return false;
    }
    const NodeId members[] = {n_};
    for (ValueId v : {rounded, y}) merge_origins(g_, g_.def(v), members);
    replace(g_, g_.result(n_), y);
    return true;
  }

  Graph& g_;
  const NodeId n_;
  const std::vector<RegionStep> steps_;
};

}  // namespace

PassResult split_rounded_sums(Module& m, PassContext& context) {
  int64_t found = 0;
  const auto native = [&](OpKind op) { return context.target.native.test(static_cast<size_t>(op)); };
  if (!native(OpKind::FusedQMatMul) || !native(OpKind::FusedQConv)) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::ElementwiseRegion && g.attrs<FusionAttrs>(n).also.empty())
        found += context.rewrite([&] { return Splitter(g, n).split(); });
  });
  return {found > 0, {{"rounded_sums", found}}};
}

}  // namespace rlxc
