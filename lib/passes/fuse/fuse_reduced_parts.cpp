// Computes the parts of a concatenation together with the reductions of the rows that they are slices of. In a graph with Q/DQ
// pairs the norm of a head and its rotation are rounded step by step: a ReduceRegion stores the row, and a ConcatRegion reads its
// halves.
//   y = reduce_region(x / rms(x)); concat_region(-y[n/2..], y[..n/2])  ->  concat_region(rms(x), x[n/2..], x[..n/2])
// The slices reach the ConcatRegion through Narrow along the last axis, which is the one of the rows, and Transpose. What the
// region of the rows reads is transposed and cut in the same way; steps that do not vary along a row are computed once. Declines
// if others read the rows (`multi_consumer`) and beyond the limits of the target (`step_limit`, `operand_limit`). O(nodes *
// steps).
#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kReducedParts = "reduced_parts";

class ReducedParts {
 public:
  ReducedParts(Graph& g, PassContext& context) : g_(g), context_(context) {}

  // concat: a ConcatRegion.
  bool take(NodeId concat) {
    concat_ = concat;
    const auto rank = g_.rank(g_.result(concat));
    const auto& a = g_.attrs<ConcatRegionAttrs>(concat);
    if (a.axis + 1 != rank || reduces_rows(a.steps)) return false;
    for (ValueId v : g_.operands(concat))
      if (find_slices(v, rank)) return fuse();
    return false;
  }

 private:
  static constexpr size_t kMostMoves = 4, kMostUses = 16;
  using Codes = std::vector<uint16_t>;  // by step

  // An operand of the ConcatRegion: a slice along the last axis of the transposed rows.
  struct Slice {
    ValueId value;
    Dim start, size;
  };

  // Finds the rows that v is a slice of, and all their slices.
  bool find_slices(ValueId v, int rank) {
    for (size_t i = 0; i < kMostMoves && g_.def(v).valid(); ++i) {
      const OpKind op = g_.op(g_.def(v));
      if (op != OpKind::Narrow && op != OpKind::Transpose) break;
      v = g_.operand(g_.def(v), 0);
    }
    rows_ = g_.def(v);
    if (!rows_.valid() || g_.op(rows_) != OpKind::ReduceRegion || g_.rank(v) != rank) return false;
    if (reduced_axes(g_.attrs<FusionAttrs>(rows_).steps) != std::vector<int64_t>{rank - 1}) return false;
    const std::vector<Dim> whole = whole_dims(g_, rows_);
    if (whole.back() == Dim(1) || whole != std::vector<Dim>(g_.dims(v).begin(), g_.dims(v).end())) return false;
    slices_.clear();
    perm_.clear();
    std::vector<int64_t> same(static_cast<size_t>(rank));
    std::iota(same.begin(), same.end(), 0);
    if (follow(v, Dim(0), same, 0)) return !slices_.empty();
    return decline_end(context_, g_, kReducedParts, concat_, "multi_consumer",
                       std::to_string(g_.use_count(v)) + " readers of the rows");
  }

  // Follows a slice from `start` on, whose axes are `perm` of the rows, to the ConcatRegion. Returns false if others read it.
  bool follow(ValueId v, Dim start, const std::vector<int64_t>& perm, size_t moves) {
    if (g_.is_output(v) || g_.use_count(v) > kMostUses || moves > kMostMoves) return false;
    for (const Graph::Use& use : g_.uses(v)) {
      const NodeId n = use.user;
      const ValueId y = g_.result(n);
      if (n == concat_) {
        if (!perm_.empty() && perm != perm_) return false;
        perm_ = perm;
        if (std::ranges::find(slices_, v, &Slice::value) == slices_.end()) slices_.push_back({v, start, g_.dims(v).back()});
      } else if (g_.op(n) == OpKind::Transpose) {
        std::vector<int64_t> all;
        for (int64_t axis : g_.attrs<PermAttrs>(n).perm) all.push_back(perm[static_cast<size_t>(axis)]);
        if (all.back() + 1 != std::ssize(all) || !follow(y, start, all, moves + 1)) return false;
      } else if (g_.op(n) == OpKind::Narrow) {
        const auto& a = g_.attrs<NarrowAttrs>(n);
        if (a.axis + 1 != g_.rank(v) || !follow(y, g_.module().dims.add(start, a.start), perm, moves + 1)) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  bool fuse() {
    Builder b(g_, nullptr, concat_);
    const size_t before = g_.node_capacity();
    const std::vector<RegionStep> of_rows = g_.attrs<FusionAttrs>(rows_).steps;
    ConcatRegionAttrs a = g_.attrs<ConcatRegionAttrs>(concat_);
    RegionProgram p(g_);
    // The reductions, then the steps after them for each slice.
    std::vector<bool> needed(of_rows.size());
    for (size_t i = of_rows.size(); i-- > 0;) {
      needed[i] = needed[i] || is_core(of_rows[i]);
      for (uint16_t arg : of_rows[i].args)
        if (needed[i] && is_step(arg)) needed[arg & ~RegionStep::kStep] = true;
    }
    Codes rows(of_rows.size(), RegionStep::kNone);
    append(
        &p, of_rows, needed, [&](size_t k) { return p.code(moved(b, g_.operand(rows_, k), std::nullopt)); }, &rows);
    for (const Slice& s : slices_) {
      Codes own(of_rows.size(), RegionStep::kNone);
      for (size_t i = 0; i < of_rows.size(); ++i)
        if (is_core(of_rows[i])) own[i] = rows[i];
      append(
          &p, of_rows, needed_steps(of_rows, of_rows.size() - 1),
          [&](size_t k) { return p.code(moved(b, g_.operand(rows_, k), s)); }, &own);
      p.give(s.value, own.back());
    }
    Codes parts(a.steps.size(), RegionStep::kNone);
    append(
        &p, a.steps, std::vector<bool>(a.steps.size(), true), [&](size_t k) { return p.code(g_.operand(concat_, k)); }, &parts);
    for (int64_t& step : a.parts) step = parts[static_cast<size_t>(step)] & ~RegionStep::kStep;
    a.steps = p.steps;
    if (const auto reason = over_limit(p, a.parts); !reason.empty()) {
      erase_since(before);
      return decline_end(context_, g_, kReducedParts, concat_, reason,
                         std::to_string(p.steps.size()) + " steps and " + std::to_string(p.operands.size()) + " operands");
    }
    const NodeId whole = b.create_node(OpKind::ConcatRegion, p.operands, std::move(a));
    if (!whole.valid()) {
      erase_since(before);
      return false;
    }
    const NodeId members[] = {concat_, rows_};
    context_.decisions.push_back(fused(g_, kReducedParts, concat_, members, bytes(g_, g_.result(rows_))));
    merge_origins_since(g_, before, members);
    for (size_t r = g_.result_count(concat_); r-- > 1;) g_.replace_all_uses(g_.result(concat_, r), g_.result(whole, r));
    replace(g_, g_.result(concat_), g_.result(whole));
    return true;
  }

  // Appends the steps that are needed and not there yet. `operand`: the code of an operand of these steps.
  template <class F>
  static void append(RegionProgram* p, std::span<const RegionStep> steps, const std::vector<bool>& needed, const F& operand,
                     Codes* codes) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!needed[i] || (*codes)[i] != RegionStep::kNone) continue;
      RegionStep s = steps[i];
      for (uint16_t& arg : s.args)
        if (arg != RegionStep::kNone) arg = is_step(arg) ? (*codes)[arg & ~RegionStep::kStep] : operand(arg);
      const auto known = std::ranges::find(p->steps, s);
      (*codes)[i] = known == p->steps.end() ? p->add(s) : static_cast<uint16_t>(RegionStep::kStep | (known - p->steps.begin()));
    }
  }

  // An operand of the rows, transposed like them and cut like a slice of them.
  ValueId moved(Builder& b, ValueId v, const std::optional<Slice>& s) {
    const ValueId slice = s ? s->value : ValueId();
    for (const Moved& m : moved_)
      if (m.from == v && m.slice == slice) return m.to;
    ValueId y = v;
    if (s) {
      y = moved(b, v, std::nullopt);
      if (g_.rank(y) > 0 && g_.dims(y).back() != Dim(1)) y = b.narrow(y, g_.rank(y) - 1, s->start, s->size);
    } else if (varies_over_rows(v) && !std::ranges::is_sorted(perm_)) {
      std::vector<Dim> dims(g_.dims(v).begin(), g_.dims(v).end());
      dims.insert(dims.begin(), perm_.size() - dims.size(), Dim(1));
      y = b.transpose(b.reshape(v, dims), perm_);
    }
    moved_.push_back({v, slice, y});
    return y;
  }
  bool varies_over_rows(ValueId v) const {
    const auto d = g_.dims(v);
    return std::ranges::any_of(d.first(d.empty() ? 0 : d.size() - 1), [](Dim size) { return size != Dim(1); });
  }

  // Why the program is too large. Each region fits by itself, both may have twice as many steps at an element of a part, and
  // operands. What does not vary along a row is read once for it.
  std::string_view over_limit(const RegionProgram& p, std::span<const int64_t> parts) const {
    const RegionLimits limits = region_limits(context_.target, false);
    std::vector<bool> operands, needed(p.steps.size());
    for (ValueId v : p.operands) operands.push_back(g_.rank(v) > 0 && g_.dims(v).back() != Dim(1));
    for (const int64_t part : parts) {
      const std::vector<bool> own = needed_steps(p.steps, static_cast<size_t>(part));
      for (size_t i = 0; i < own.size(); ++i) needed[i] = needed[i] || own[i];
    }
    const std::vector<bool> varying = varying_steps(p.steps, operands);
    size_t steps = 0;
    for (size_t i = 0; i < needed.size(); ++i) steps += needed[i] && varying[i];
    if (steps > size_t{2} * limits.steps) return "step_limit";
    const auto arrays = static_cast<size_t>(std::ranges::count(operands, true));
    return arrays > limits.inputs || p.operands.size() > size_t{2} * limits.inputs ? "operand_limit" : "";
  }

  void erase_since(size_t before) {
    for (size_t i = before; i < g_.node_capacity(); ++i)
      if (g_.alive(NodeId(i))) erase_dead(g_, NodeId(i));
  }

  struct Moved {
    ValueId from, slice, to;
  };

  Graph& g_;
  PassContext& context_;
  NodeId concat_, rows_;
  std::vector<Slice> slices_;
  std::vector<int64_t> perm_;  // of the rows, on the way to the slices
  std::vector<Moved> moved_;
};

}  // namespace

PassResult fuse_reduced_parts(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::ConcatRegion))) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::ConcatRegion) found += context.rewrite([&] { return ReducedParts(g, context).take(n); });
  });
  return {found > 0, {{"reduced_parts", found}}};
}

}  // namespace rlxc
