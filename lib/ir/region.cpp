#include "ir/region.h"

#include <algorithm>

namespace rlxc {
namespace {

size_t index_of(uint16_t arg) { return arg & ~RegionStep::kStep; }

// Extends `needed` to all steps that needed steps read, up to cores.
void close(std::span<const RegionStep> steps, std::vector<bool>* needed) {
  for (size_t i = steps.size(); i-- > 0;)
    if ((*needed)[i] && !is_core(steps[i]))
      for (uint16_t arg : steps[i].args)
        if (is_step(arg)) (*needed)[index_of(arg)] = true;
}

}  // namespace

ConvAttrs* conv_attrs(Attrs& attrs) {
  if (auto* a = std::get_if<ConvAttrs>(&attrs)) return a;
  if (auto* a = std::get_if<FusedConvAttrs>(&attrs)) return &a->conv;
  auto* a = std::get_if<FusionAttrs>(&attrs);
  return a && !a->steps.empty() ? std::get_if<ConvAttrs>(&a->steps[0].attrs) : nullptr;
}

size_t last_matmul_step(std::span<const RegionStep> steps) {
  size_t last = steps.size();
  while (last > 0 && steps[last - 1].op != OpKind::QMatMul) --last;
  return last - 1;
}

std::vector<RegionStep> steps_from(std::span<const RegionStep> steps, size_t first) {
  std::vector<RegionStep> own(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end());
  for (RegionStep& s : own)
    for (uint16_t& arg : s.args)
      if (is_step(arg)) arg = static_cast<uint16_t>(arg - first);
  return own;
}

int64_t norm_axis(const RegionStep& s) {
  if (const auto* norm = std::get_if<NormAttrs>(&s.attrs)) return norm->axis;
  const auto* softmax = std::get_if<AxisAttrs>(&s.attrs);
  return softmax ? softmax->axis : 0;
}

bool keeps_operand(const FusionAttrs& a) {
  const size_t norm = last_norm_step(a.steps);
  return !a.also.empty() && norm < a.steps.size() && a.steps[norm].args[0] == (RegionStep::kStep | a.also[0]) &&
         a.also[0] < static_cast<int64_t>(norm);
}

const std::vector<int64_t>& reduced_axes(std::span<const RegionStep> steps) {
  return std::ranges::find(steps, OpKind::Reduce, &RegionStep::op)->as<ReduceAttrs>().axes;
}

bool rounds_operand(const Graph& g, NodeId n) {
  return (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv) && is_float(g.dtype(g.operand(n, 0)));
}

DType code_type(const Graph& g, NodeId n) { return g.dtype(g.operand(n, rounds_operand(g, n) ? 2 : 0)); }

bool has_two_sums(std::span<const RegionStep> steps) { return steps.size() > 1 && steps[1].op == OpKind::QMatMul; }

bool is_core(const RegionStep& s) { return !has_trait(s.op, kElementwise); }

std::vector<bool> rounded_products(std::span<const RegionStep> steps) {
  std::vector<bool> is_rounded(steps.size()), products(steps.size());
  for (size_t i = steps.size(); i-- > 0;) {
    const RegionStep& s = steps[i];
    const bool rounds = s.op == OpKind::Round || (s.op == OpKind::Cast && is_integer(s.dtype));
    for (const uint16_t arg : s.args) {
      if (!is_step(arg)) continue;
      const size_t k = index_of(arg);
      if (rounds || is_rounded[i]) is_rounded[k] = true;
      const bool sum = s.op == OpKind::Add || s.op == OpKind::Sub;
      if (sum && is_rounded[i] && steps[k].op == OpKind::Mul && is_float(steps[k].dtype)) products[k] = true;
    }
  }
  return products;
}

std::vector<bool> needed_steps(std::span<const RegionStep> steps, size_t wanted) {
  std::vector<bool> needed(steps.size());
  needed[wanted] = true;
  close(steps, &needed);
  return needed;
}

std::vector<bool> operands_of(std::span<const RegionStep> steps, size_t wanted, size_t count) {
  const std::vector<bool> needed = needed_steps(steps, wanted);
  std::vector<bool> read(count);
  for (size_t i = 0; i < steps.size(); ++i)
    for (uint16_t arg : steps[i].args)
      if (needed[i] && !is_core(steps[i]) && arg != RegionStep::kNone && !(arg & RegionStep::kStep)) read[arg] = true;
  return read;
}

bool varies(std::span<const Dim> dims, size_t rank, std::span<const int64_t> axes) {
  return std::ranges::any_of(axes, [&](int64_t axis) {
    const size_t from_end = rank - static_cast<size_t>(axis);
    return from_end <= dims.size() && dims[dims.size() - from_end] != Dim(1);
  });
}

std::vector<bool> varying_steps(std::span<const RegionStep> steps, const std::vector<bool>& operands) {
  std::vector<bool> varying(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    for (uint16_t arg : steps[i].args)
      if (arg != RegionStep::kNone && !is_core(steps[i]))
        varying[i] = varying[i] || (is_step(arg) ? varying[index_of(arg)] : operands[arg]);
  return varying;
}

std::vector<RowWalk> row_walks(std::span<const RegionStep> steps, const std::vector<bool>& varying) {
  std::vector<size_t> level(steps.size());  // by step: number of walks before its value is known
  std::vector<RowWalk> walks(1, {{}, std::vector<bool>(steps.size())});
  for (size_t i = 0; i < steps.size(); ++i) {
    for (uint16_t arg : steps[i].args)
      if (is_step(arg)) level[i] = std::max(level[i], level[index_of(arg)]);
    if (!is_core(steps[i])) continue;
    RowWalk& walk = walks[level[i]++];
    walk.reductions.push_back(i);
    if (is_step(steps[i].args[0])) walk.steps[index_of(steps[i].args[0])] = true;
    if (walks.size() == level[i]) walks.push_back({{}, std::vector<bool>(steps.size())});
  }
  walks.back().steps.back() = true;
  for (RowWalk& w : walks) {
    close(steps, &w.steps);
    for (size_t i = 0; i < steps.size(); ++i) w.steps[i] = w.steps[i] && varying[i];
  }
  return walks;
}

namespace {

// Broadcasts the first `axes` of these dims to the shape, counted from the last one of `d`.
void widen(std::span<const Dim> d, size_t axes, std::vector<Dim>* all) {
  if (d.size() > all->size()) all->insert(all->begin(), d.size() - all->size(), Dim(1));
  for (size_t k = 0; k < axes; ++k)
    if (Dim& to = (*all)[all->size() - d.size() + k]; to == Dim(1)) to = d[k];
}

// The broadcast shape of some operands of a ConcatRegion. If it reduces rows, the others count, too, but for their last axes.
std::vector<Dim> dims_of(const Graph& g, NodeId n, const std::vector<bool>& some) {
  const bool rows = reduces_rows(g.attrs<ConcatRegionAttrs>(n).steps);
  std::vector<Dim> all;
  for (size_t i = 0; i < some.size(); ++i) {
    const auto d = g.dims(g.operand(n, i));
    if (some[i] || (rows && !d.empty())) widen(d, some[i] ? d.size() : d.size() - 1, &all);
  }
  return all;
}

}  // namespace

std::vector<Dim> whole_dims(const Graph& g, NodeId n) {
  std::vector<Dim> all;
  for (ValueId v : g.operands(n))
    if (v.valid()) widen(g.dims(v), g.dims(v).size(), &all);
  return all;
}

std::vector<Dim> part_dims(const Graph& g, NodeId n, size_t step) {
  return dims_of(g, n, operands_of(g.attrs<ConcatRegionAttrs>(n).steps, step, g.operands(n).size()));
}

bool copies_operand(const Graph& g, NodeId n, size_t operand) {
  const auto& a = g.attrs<ConcatRegionAttrs>(n);
  const DType t = g.dtype(g.operand(n, operand));
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const RegionStep& s = a.steps[i];
    if (std::ranges::find(s.args, operand) == s.args.end()) continue;
    if (s.op != OpKind::Cast || s.dtype != t) return false;
    const auto reads = [&](const RegionStep& later) {
      return std::ranges::find(later.args, RegionStep::kStep | i) != later.args.end();
    };
    if (std::ranges::any_of(a.steps, reads)) return false;
  }
  return true;
}

bool reduces_rows(std::span<const RegionStep> steps) { return std::ranges::any_of(steps, is_core); }

std::vector<bool> operands_of_rows(std::span<const RegionStep> steps, size_t count) {
  std::vector<bool> all(count);
  for (const RegionStep& s : steps) {
    if (!is_core(s)) continue;
    const uint16_t arg = s.args[0];
    const std::vector<bool> read = is_step(arg) ? operands_of(steps, index_of(arg), count) : std::vector<bool>(count);
    for (size_t i = 0; i < count; ++i) all[i] = all[i] || read[i] || i == arg;
  }
  return all;
}

std::vector<Dim> row_dims(const Graph& g, NodeId n) {
  return dims_of(g, n, operands_of_rows(g.attrs<ConcatRegionAttrs>(n).steps, g.operands(n).size()));
}

std::vector<bool> varying_steps(const Graph& g, NodeId n) {
  const auto& a = g.attrs<FusionAttrs>(n);
  const size_t rank = whole_dims(g, n).size();
  std::vector<bool> operands;
  const std::vector<int64_t>& axes = reduced_axes(a.steps);
  for (ValueId v : g.operands(n)) operands.push_back(v.valid() && varies(g.dims(v), rank, axes));
  return varying_steps(a.steps, operands);
}

}  // namespace rlxc
