// Reductions, and ops that scan rows: arg-reductions, cumulative sums, determinants, state-space scans.
#include <algorithm>
#include <cmath>

#include "codegen/fused_bodies.h"
#include "codegen/lower_blocked.h"
#include "ir/region.h"
#include "kernel/builders/generate.h"
#include "kernel/builders/map.h"
#include "kernel/builders/reduce.h"
#include "kernel/builders/reduce_rows.h"

namespace rlxc::codegen {
namespace {

using kernel::ExprOp;
using kernel::LoadInput;
using Roots = std::span<const Expr>;

struct Rule {
  ReduceOp op;
  ExprOp combine;
  Expr (*prepare)(Expr);
  Expr (*finish)(Expr, Expr);
  bool real = false;  // finish requires a real type
};
Expr square(Expr x) { return x * x; }
Expr magnitude(Expr x) { return abs(x); }
Expr root(Expr x, Expr) { return sqrt(x); }
Expr logarithm(Expr x, Expr) { return log(x); }
Expr mean(Expr x, Expr n) { return x / cast_to(n, x.dtype()); }
constexpr Rule kRules[] = {
    {ReduceOp::Sum, ExprOp::Add, nullptr, nullptr},     {ReduceOp::Mean, ExprOp::Add, nullptr, mean},
    {ReduceOp::Max, ExprOp::Max, nullptr, nullptr},     {ReduceOp::Min, ExprOp::Min, nullptr, nullptr},
    {ReduceOp::Prod, ExprOp::Mul, nullptr, nullptr},    {ReduceOp::L1, ExprOp::Add, magnitude, nullptr},
    {ReduceOp::L2, ExprOp::Add, square, root, true},    {ReduceOp::LogSum, ExprOp::Add, nullptr, logarithm, true},
    {ReduceOp::SumSquare, ExprOp::Add, square, nullptr}};

const Rule* rule_of(ReduceOp op) {
  const auto* r = std::ranges::find(kRules, op, &Rule::op);
  return r == std::end(kRules) ? nullptr : r;
}

// Returns the spec of a reduction of these dims with element type t, without operands.
kernel::ReduceSpec reduce_spec(Scope& s, std::span<const Dim> dims, const std::vector<int64_t>& axes, DType t) {
  kernel::ReduceSpec spec;
  spec.shape = s.shape(dims);
  spec.reduced.assign(spec.shape.size(), false);
  for (int64_t axis : axes) spec.reduced[static_cast<size_t>(axis)] = true;
  // Narrow integers overflow in counts and sums, and bools are unordered.
  spec.accumulate = !is_float(t) && rlxc::bits(t) < 32 ? DType::I32 : kernel::compute_dtype(t);
  return spec;
}

// Sets how the rule reduces the values that `load` returns.
void apply_rule(Node& node, const Rule& r, kernel::ReduceSpec* spec, std::function<Expr(const LoadInput&)> load) {
  spec->combine = r.combine;
  spec->prologue.body = [prepare = r.prepare, load](Roots, const LoadInput& in) -> std::vector<Expr> {
    return {prepare ? prepare(load(in)) : load(in)};
  };
  if (!r.finish) return;
  const bool widens = r.real && !is_float(spec->accumulate);
  spec->epilogue.body = [f = r.finish, widens, t = node.wide()](Roots x, const LoadInput&) -> std::vector<Expr> {
    return {widens ? cast_to(f(cast_to(x[0], t), x[1]), x[0].dtype()) : f(x[0], x[1])};
  };
}
Expr first_input(const LoadInput& load) { return load(0); }

// Reduces the positions of images whose channels are in blocks; changes nothing if the block is 0.
void by_blocks(int64_t block, kernel::ReduceSpec* spec) {
  if (block == 0) return;
  split_channels(block, &spec->shape);
  for (Operand& o : spec->inputs) split_channels(block, &o);
  spec->reduced = {false, false, true, true, false};
}

// max + log(sum(exp(x - max))). Stores the maximum and the exponentials.
bool log_sum_exp(Node& node) {
  const DType t = kernel::compute_dtype(node.dtype(0));
  DimTable& table = node.table();
  const uint32_t top = node.scratch(t, table.product(node.result_dims())), all = node.scratch(t, table.product(node.dims(0))),
                 sum = node.scratch(t, table.product(node.result_dims()));
  std::vector<Dim> kept(node.dims(0).begin(), node.dims(0).end());
  const std::vector<int64_t>& axes = node.attrs<ReduceAttrs>().axes;
  for (int64_t axis : axes) kept[static_cast<size_t>(axis)] = Dim(1);
  {
    Scope s(node, "max");
    kernel::ReduceSpec spec = reduce_spec(s, node.dims(0), axes, node.dtype(0));
    spec.combine = ExprOp::Max;
    spec.inputs = {s.in(0)};
    spec.output = s.scratch(top);
    kernel::build_reduce(s.builder(), spec, node.mapping());
    s.finish();
  }
  auto finite = [](Expr m) { return select(isinf(m), kernel::lit(m, 0.0), m); };
  {
    Scope s(node, "exp");
    const Dims shape = s.shape(node.dims(0));
    Operand x = s.in(0), m = s.scratch(top), y = s.scratch(all);
    m.strides = kernel::broadcast_operand(s.kernel(), "m", t, s.shape(kept), shape).strides;
    y.strides = x.strides;
    auto body = [&](const std::vector<Expr>& v) -> std::vector<Expr> { return {exp(v[0] - finite(v[1]))}; };
    kernel::build_map(s.builder(), {shape, {x, m}, {y}, body}, node.mapping());
    s.finish();
  }
  {
    Scope s(node, "sum");
    kernel::ReduceSpec spec = reduce_spec(s, node.dims(0), axes, t);
    spec.inputs = {kernel::dense(s.kernel(), "x", t, spec.shape)};
    spec.inputs[0].extent = s.scratch(all).extent;
    spec.output = s.scratch(sum);
    kernel::build_reduce(s.builder(), spec, node.mapping());
    s.finish();
  }
  Scope s(node, "log");
  Operand v = s.scratch(sum), m = s.scratch(top), y = s.out();
  v.strides = m.strides = y.strides = {1};
  auto body = [&](const std::vector<Expr>& x) -> std::vector<Expr> { return {log(x[0]) + finite(x[1])}; };
  kernel::build_map(s.builder(), {{y.extent}, {v, m}, {y}, body}, node.mapping());
  s.finish();
  return true;
}

}  // namespace

bool lower_reduce(Node& node) {
  const auto& a = node.attrs<ReduceAttrs>();
  if (a.op == ReduceOp::LogSumExp) return log_sum_exp(node);
  Scope s(node);
  kernel::ReduceSpec spec = reduce_spec(s, node.dims(0), a.axes, node.dtype(0));
  apply_rule(node, *rule_of(a.op), &spec, first_input);
  spec.inputs = {s.in(0)};
  spec.output = s.out();
  by_blocks(block_of(node, node.in(0)), &spec);
  kernel::build_reduce(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

namespace {

// Returns whether the step arguments of step i are known and step i is no reduction itself.
bool is_ready(std::span<const RegionStep> list, size_t i, const std::vector<bool>& known) {
  for (uint16_t arg : list[i].args)
    if (arg != RegionStep::kNone && arg & RegionStep::kStep && !known[arg & ~RegionStep::kStep]) return false;
  return !is_core(list[i]);
}

// Lowers a region with a single reduction, one value per result.
bool reduce_once(Node& node, std::span<const RegionStep> list, size_t core, const std::vector<Dim>& whole) {
  const RegionSteps steps(list);
  Scope s(node);
  kernel::ReduceSpec spec = reduce_spec(s, whole, reduced_axes(list), list[core].dtype);
  apply_rule(node, *rule_of(list[core].as<ReduceAttrs>().op), &spec,
             [&](const LoadInput& load) { return steps.value(list[core].args[0], {}, load); });
  if (core + 1 < list.size())
    spec.epilogue.body = [after = steps_body(list, {core}, result_args(list, {})), finish = spec.epilogue.body,
                          t = kernel::compute_dtype(list[core].dtype)](Roots roots, const LoadInput& load) {
      const Expr x = cast_to(finish ? finish(roots, load)[0] : roots[0], t);
      return after({&x, 1}, load);
    };
  int64_t block = 0;
  for (size_t i = 0; i < node.graph.operands(node.id).size(); ++i) {
    spec.inputs.push_back(s.in(i, whole));
    block = std::max(block, block_of(node, node.in(i)));
  }
  spec.output = s.out();
  by_blocks(block, &spec);
  kernel::build_reduce(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

// The walks over rows that compute the reductions of a region, and afterwards the steps that are invariant along a row. The
// values of a row are those of the steps `found_`.
class RowReductions {
 public:
  RowReductions(Node& node, Scope& s, std::span<const RegionStep> list, std::vector<bool> varying)
      : node_(node), s_(s), list_(list), steps_(list), varying_(std::move(varying)) {}

  // Sets all but the inputs and outputs. The rows are along the axes of `whole`, the outputs are the steps `wanted`.
  void set(kernel::ReduceRowsSpec* spec, const std::vector<Dim>& whole, const std::vector<int64_t>& axes,
           std::span<const size_t> wanted) {
    spec->shape = s_.shape(whole);
    spec->axis = whole.size() - axes.size();
    for (const RegionStep& step : list_)
      if (const DType t = kernel::compute_dtype(step.dtype); rlxc::bits(t) > rlxc::bits(spec->compute)) spec->compute = t;
    const std::vector<RowWalk> walks = row_walks(list_, varying_);
    for (const RowWalk& walk : std::span(walks).first(walks.size() - 1))
      spec->walks.push_back(reduction(walk.reductions, whole, axes));
    std::vector<uint16_t> args;
    for (const size_t step : wanted) args.push_back(step_arg(step));
    spec->epilogue.body = steps_body(list_, found_, std::move(args));
  }

  // Reduces several rows before the outputs are computed.
  void reduce_together(kernel::ReduceRowsSpec* spec, std::span<const size_t> wanted) const {
    std::vector<bool> needed(list_.size());
    for (const size_t step : wanted) needed[step] = true;
    for (size_t i = list_.size(); i-- > 0;) {
      if (!needed[i]) continue;
      if (is_core(list_[i]) || !varying_[i]) {
        const auto root = static_cast<size_t>(std::ranges::find(found_, i) - found_.begin());
        spec->kept.push_back({root, kernel::compute_dtype(list_[i].dtype)});
        continue;
      }
      for (uint16_t arg : list_[i].args)
        if (is_step(arg)) needed[arg & ~RegionStep::kStep] = true;
    }
  }

 private:
  kernel::RowReduction reduction(const std::vector<size_t>& cores, const std::vector<Dim>& whole,
                                 const std::vector<int64_t>& axes) {
    std::vector<kernel::ReduceSpec> parts;
    std::vector<uint16_t> arguments;
    kernel::RowReduction row;
    for (size_t i : cores) {
      arguments.push_back(list_[i].args[0]);
      parts.push_back(reduce_spec(s_, whole, axes, list_[i].dtype));
      apply_rule(node_, *rule_of(list_[i].as<ReduceAttrs>().op), &parts.back(), first_input);
      row.terms.push_back({parts.back().combine, parts.back().accumulate});
    }
    row.prologue.body = [arguments = steps_body(list_, found_, arguments), parts](Roots roots, const LoadInput& load) {
      std::vector<Expr> all = arguments(roots, load);
      for (size_t i = 0; i < all.size(); ++i) all[i] = parts[i].prologue.body({}, [&, i](size_t) { return all[i]; })[0];
      return all;
    };
    const std::vector<size_t> before = found_;
    found_.insert(found_.end(), cores.begin(), cores.end());
    std::vector<bool> known(list_.size());
    for (const size_t step : found_) known[step] = true;
    for (size_t i = 0; i < list_.size(); ++i)
      if (!varying_[i] && !known[i] && is_ready(list_, i, known)) {
        known[i] = true;
        found_.push_back(i);
      }
    const std::vector<size_t> invariant(found_.begin() + static_cast<std::ptrdiff_t>(before.size() + cores.size()), found_.end());
    row.epilogue.body = [this, before, cores, invariant, parts](Roots roots, const LoadInput& load) {
      RegionSteps::Known values(list_.size());
      for (size_t i = 0; i < before.size(); ++i) values[before[i]] = roots[i];
      std::vector<Expr> all;
      const auto add = [&](size_t step, Expr v) { all.push_back(values[step] = s_.builder().let("r", v)); };
      for (size_t i = 0; i < cores.size(); ++i) {
        const Expr ends[] = {roots[before.size() + i], roots.back()};
        const Expr v = parts[i].epilogue.body ? parts[i].epilogue.body(ends, load)[0] : ends[0];
        add(cores[i], cast_to(v, kernel::compute_dtype(list_[cores[i]].dtype)));
      }
      for (const size_t step : invariant) add(step, steps_.value(step_arg(step), values, load));
      return all;
    };
    return row;
  }

  Node& node_;
  Scope& s_;
  const std::span<const RegionStep> list_;
  const RegionSteps steps_;
  const std::vector<bool> varying_;
  std::vector<size_t> found_;  // reductions, and steps on them that are invariant along a row, in the order of computation
};

// Lowers a region over rows along the last axes.
bool reduce_rows(Node& node, std::span<const RegionStep> list, const std::vector<bool>& varying, const std::vector<Dim>& whole) {
  Scope s(node);
  kernel::ReduceRowsSpec spec;
  RowReductions rows(node, s, list, varying);
  const size_t last[] = {list.size() - 1};
  rows.set(&spec, whole, reduced_axes(list), last);
  spec.one = !varying.back();
  for (size_t i = 0; i < node.graph.operands(node.id).size(); ++i) spec.inputs.push_back(s.in(i, whole));
  spec.outputs = {s.out()};
  if (spec.one)
    for (size_t d = spec.axis; d < whole.size(); ++d) spec.outputs[0].strides[d] = 0;
  kernel::build_reduce_rows(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

}  // namespace

bool lower_reduce_region(Node& node) {
  const auto& list = node.attrs<FusionAttrs>().steps;
  const std::vector<Dim> whole = whole_dims(node.graph, node.id);
  const std::vector<bool> varying = varying_steps(node.graph, node.id);
  const std::vector<RowWalk> walks = row_walks(list, varying);
  if (!varying.back() && walks.size() == 2 && walks[0].reductions.size() == 1)
    return reduce_once(node, list, walks[0].reductions[0], whole);
  return reduce_rows(node, list, varying, whole);
}

bool lower_reduced_parts(Node& node) {
  const auto& a = node.attrs<ConcatRegionAttrs>();
  const std::vector<Dim> whole = row_dims(node.graph, node.id);
  const std::vector<Dim> part = part_dims(node.graph, node.id, static_cast<size_t>(a.parts[0]));
  const std::vector<bool> of_rows = operands_of_rows(a.steps, node.graph.operands(node.id).size());
  std::vector<bool> operands;
  for (ValueId v : node.graph.operands(node.id))
    operands.push_back(!node.graph.dims(v).empty() && node.graph.dims(v).back() != Dim(1));
  Scope s(node);
  kernel::ReduceRowsSpec spec;
  RowReductions rows(node, s, a.steps, varying_steps(a.steps, operands));
  const std::vector<size_t> wanted(a.parts.begin(), a.parts.end());
  rows.set(&spec, whole, {a.axis}, wanted);
  rows.reduce_together(&spec, wanted);
  spec.result = s.size(part.back());
  for (size_t i = 0; i < of_rows.size(); ++i) {
    spec.inputs.push_back(s.in(i, of_rows[i] ? whole : part));
    if (of_rows[i] && operands[i] && !spec.order) spec.order = i;
  }
  const auto results = static_cast<size_t>(a.results);
  const size_t count = a.parts.size() / results;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    Operand y = s.out(i / count);
    y.name += "_" + std::to_string(i % count);
    start_at(s.kernel(), static_cast<size_t>(a.axis), s.size(node.table().mul(part.back(), Dim(static_cast<int64_t>(i % count)))),
             &y);
    spec.outputs.push_back(std::move(y));
  }
  kernel::build_reduce_rows(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

bool lower_arg_reduce(Node& node) {
  const auto& a = node.attrs<ArgAttrs>();
  Scope s(node);
  const Dims x = s.shape(node.dims(0));
  const auto axis = static_cast<size_t>(a.axis);
  const DType t = kernel::compute_dtype(node.dtype(0));
  Buf data = s.in_buf(0), y = s.out_buf();
  kernel::for_each_row(s.builder(), node.mapping(), x, axis, 4096, [&](Expr row, Expr base, Expr stride) {
    auto& b = s.builder();
    Buf best = b.variable("best", cast_to(data[base], t)), at = b.variable("at", b.i64(0));
    b.loop("i", x[axis].in(s.kernel()) - 1, [&](Expr i) {
      const Expr v = b.let("v", cast_to(data[base + (i + 1) * stride], t)), old = best.get();
      const Expr better = a.largest ? (a.select_last ? v >= old : v > old) : (a.select_last ? v <= old : v < old);
      b.when(better, [&] {
        best.set(v);
        at.set(i + 1);
      });
    });
    y.store(row, at.get());
  });
  s.finish();
  return true;
}

bool lower_cumulative(Node& node) {
  const bool product = node.op() == OpKind::Cumprod;
  const auto& a = node.attrs<CumAttrs>();
  Scope s(node);
  const Dims x = s.shape(node.dims(0));
  const auto axis = static_cast<size_t>(a.axis);
  const DType t = kernel::compute_dtype(node.dtype(0));
  Buf data = s.in_buf(0), y = s.out_buf();
  kernel::for_each_row_vector(s.builder(), node.mapping(), x, axis, t, 4096, [&](Expr base, Expr stride, int lanes) {
    auto& b = s.builder();
    const Expr n = x[axis].in(s.kernel());
    Buf sum = b.variable("sum", broadcast(cast_to(b.i64(product ? 1 : 0), t), lanes));
    b.loop("i", n, [&](Expr i) {
      const Expr at = b.let("at", base + (a.reverse ? n - 1 - i : i) * stride), v = cast_to(data.load(at, lanes), t);
      const Expr next = b.let("next", product ? sum.get() * v : sum.get() + v);
      y.store(at, cast_to(a.exclusive ? sum.get() : next, node.result_dtype()));
      sum.set(next);
    });
  });
  s.finish();
  return true;
}

// LU decomposition with partial pivoting, on a copy.
bool lower_det(Node& node) {
  const DType t = node.wide();
  const uint32_t copies = node.scratch(t, node.table().product(node.dims(0)));
  Scope s(node);
  auto& b = s.builder();
  const Expr n = s.size(node.dims(0).back()).in(s.kernel());
  Buf data = s.in_buf(0);
  const Operand own = s.scratch(copies);
  Buf a = b.inout(own.name, own.dtype, own.extent);
  Buf y = s.out_buf();
  kernel::for_each(b, node.mapping(), "matrix", kernel::product(s.kernel(), s.shape(node.result_dims())), 4096, [&](Expr matrix) {
    const Expr base = b.let("base", matrix * n * n);
    b.loop("i", n * n, [&](Expr i) { a.store(base + i, cast_to(data[base + i], t)); });
    Buf det = b.variable("det", b.value(t, 1));
    b.loop("k", n, [&](Expr k) {
      const Expr row = b.let("row", base + k * n);
      Buf pivot = b.variable("pivot", row), best = b.variable("best", abs(a[row + k]));
      b.loop("i", n - 1 - k, [&](Expr i) {
        const Expr other = b.let("other", row + (i + 1) * n), size = b.let("size", abs(a[other + k]));
        b.when(size > best.get(), [&] {
          best.set(size);
          pivot.set(other);
        });
      });
      b.when(pivot.get() != row, [&] {
        det.set(-det.get());
        b.loop("j", n, [&](Expr j) {
          const Expr u = b.let("u", a[row + j]), v = b.let("v", a[pivot.get() + j]);
          a.store(row + j, v);
          a.store(pivot.get() + j, u);
        });
      });
      const Expr d = b.let("d", a[row + k]);
      det.set(det.get() * d);
      b.when(d != kernel::lit(d, 0), [&] {
        b.loop("i", n - 1 - k, [&](Expr i) {
          const Expr other = b.let("other", row + (i + 1) * n), f = b.let("f", a[other + k] / d);
          b.loop("j", n - k, [&](Expr j) { a.add(other + k + j, -f * a[row + k + j]); });
        });
      });
    });
    y.store(matrix, cast_to(det.get(), node.result_dtype()));
  });
  s.finish();
  return true;
}

// h[n] = exp(delta * A[n]) * h[n] + delta * B[n] * x; y = sum_n h[n] * C[n], sequentially over positions.
bool lower_selective_scan(Node& node) {
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const auto x = node.dims(0);
  const Expr seq = s.size(x[1]).in(k), hidden = s.size(x[2]).in(k);
  const auto states = node.table().constant_value(node.dims(2)[1]);
  if (!states || *states > 1024) return node.fail("the number of states must be a constant up to 1024");
  Buf in = s.in_buf(0), delta = s.in_buf(1), A = s.in_buf(2), B = s.in_buf(3), C = s.in_buf(4), y = s.out_buf();
  const DType t = kernel::compute_dtype(node.dtype(0));
  auto& b = s.builder();
  auto wide = [&](Expr v) { return cast_to(v, t); };
  kernel::for_each(b, node.mapping(), "channel", s.size(x[0]).in(k)*hidden, 1 << 16, [&](Expr i) {
    const Expr batch = b.let("batch", i / hidden), h = b.let("h", i % hidden);
    Buf state = b.registers("state", t, *states);
    b.loop("n", *states, [&](Expr n) { state.store(n, kernel::constant(k, t, 0)); });
    b.loop("t", seq, [&](Expr p) {
      const Expr at = b.let("at", (batch * seq + p) * hidden + h), row = b.let("row", (batch * seq + p) * *states);
      const Expr d = b.let("d", wide(delta[at])), v = b.let("v", wide(in[at]));
      Buf sum = b.variable("sum", kernel::constant(k, t, 0));
      b.loop("n", *states, [&](Expr n) {
        const Expr next = b.let("next", exp(d * wide(A[h * *states + n])) * state.load(n) + d * wide(B[row + n]) * v);
        state.store(n, next);
        sum.set(sum.get() + next * wide(C[row + n]));
      });
      y.store(at, cast_to(sum.get(), node.result_dtype()));
    });
  });
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
