// The three tables of transforms against each other and against the reference evaluator, for every kind: tangents with
// gradients by the dot-product test and with differences, second derivatives in both orders, batches with samples one by one.
#include <array>
#include <cmath>
#include <set>

#include "driver/transform_stage.h"
#include "ir/verify.h"
#include "passes/legalise/decompositions.h"
#include "support/rule_cases.h"
#include "support/rule_variants.h"
#include "transform/batch.h"
#include "transform/batch_rules.h"
#include "transform/coverage.h"
#include "transform/gradients.h"
#include "transform/tangents.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

bool is_real(const HostValue& v) { return v.kind == TypeKind::Tensor && v.tensor.dtype == DType::F64; }

std::vector<HostValue> run(const Module& m, const std::vector<HostValue>& inputs) {
  Diagnostics d;
  CHECK_MESSAGE(verify(m, d), d.text());
  auto r = eval::evaluate(m, inputs, d);
  REQUIRE_MESSAGE(r, d.text());
  return std::move(*r);
}

double dot(const HostValue& a, const HostValue& b) {
  const auto x = numbers(a), y = numbers(b);
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// The tensor operations of the case.
std::unique_ptr<Module> tensors_of(const RuleCase& c) {
  auto m = c.make();
  Diagnostics d;
  REQUIRE_MESSAGE(lower_to_tensors(*m, CompileOptions(), d), d.text());
  return m;
}

// The model with a direction for each real input, and a weight for each real output.
struct Derived {
  std::unique_ptr<Module> m;
  Diagnostics d;
  Graph& g;
  Builder b;
  std::vector<ValueId> xs, dxs, ys, seeds;
  std::vector<HostValue> in, directions, weights;
  explicit Derived(const RuleCase& c) : m(tensors_of(c)), g(m->main()), b(g, &d), in(c.in) {
    const std::vector<NodeId> inputs(g.inputs().begin(), g.inputs().end());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_real(c.in[i])) continue;
      xs.push_back(g.result(inputs[i]));
      directions.push_back(reals(c.in[i].tensor.dims, 200 + i));
      in.push_back(directions.back());
    }
    for (size_t i = 0; i < xs.size(); ++i) dxs.push_back(b.input("dx" + std::to_string(i), g.type(xs[i])));
    const auto y = run(*tensors_of(c), c.in);
    const std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
    for (size_t r = 0; r < outputs.size(); ++r) {
      if (!is_real(y[r])) continue;
      ys.push_back(outputs[r]);
      weights.push_back(reals(y[r].tensor.dims, 300 + r));
      seeds.push_back(b.constant(weights.back().tensor));
    }
  }
  std::vector<ValueId> tangents(std::span<const ValueId> of) {
    auto t = transform::tangents(b, of, xs, dxs, {}, d, expand_by_table);
    REQUIRE_MESSAGE(t, d.text());
    return *t;
  }
  std::vector<ValueId> gradients(std::span<const ValueId> of, std::span<const ValueId> seeds_of) {
    auto t = transform::gradients(b, of, seeds_of, xs, {}, d, expand_by_table);
    REQUIRE_MESSAGE(t, d.text());
    return *t;
  }
  // Returns the tangent v, or zeros like `like` if there is none.
  ValueId or_zeros(ValueId v, ValueId like) {
    return v.valid() ? v : b.expand(b.scalar(g.dtype(like), 0), {g.dims(like).begin(), g.dims(like).end()});
  }
};

// <g, J t> = <J^T g, t>, and J t is how the results move.
void check_derivatives(const RuleCase& c) {
  INFO(c.label);
  Derived one(c);
  if (one.xs.empty() || one.ys.empty()) return;
  const auto t = one.tangents(one.ys), g = one.gradients(one.ys, one.seeds);
  std::vector<ValueId> outputs = one.ys;
  for (size_t i = 0; i < one.ys.size(); ++i) outputs.push_back(one.or_zeros(t[i], one.ys[i]));
  outputs.insert(outputs.end(), g.begin(), g.end());
  one.g.set_outputs(outputs);
  const size_t count = one.ys.size();
  const auto r = run(*one.m, one.in);
  double forward = 0, reverse = 0, size = 1;
  for (size_t i = 0; i < count; ++i) forward += dot(one.weights[i], r[count + i]);
  for (size_t i = 0; i < one.xs.size(); ++i) {
    const double part = dot(one.directions[i], r[2 * count + i]);
    reverse += part, size += std::abs(part);
  }
  CHECK_MESSAGE(std::abs(forward - reverse) <= (c.rounds ? 1e-6 : 1e-9) * size, forward, " and ", reverse);
  if (c.rounds) return;  // passed through, by decision
  std::vector<HostValue> moved = one.in;
  for (size_t i = 0, k = 0; i < c.in.size(); ++i) {
    if (!is_real(c.in[i])) continue;
    std::vector<double> x = numbers(c.in[i]);
    const auto dx = numbers(one.directions[k++]);
    for (size_t e = 0; e < x.size(); ++e) x[e] += 1e-6 * dx[e];
    moved[i] = tensor_of(DType::F64, c.in[i].tensor.dims, x);
  }
  const auto later = run(*one.m, moved);
  double difference = 0;
  for (size_t i = 0; i < count; ++i) difference += (dot(one.weights[i], later[i]) - dot(one.weights[i], r[i])) / 1e-6;
  CHECK_MESSAGE(std::abs(forward - difference) <= 1e-4 * (size + std::abs(forward)), forward, " and by difference ", difference);
}

// How the gradient moves is the gradient of how the results move.
void check_second_order(const RuleCase& c) {
  INFO(c.label);
  Derived first(c), second(c);
  if (first.xs.empty() || first.ys.empty()) return;
  const auto g = first.gradients(first.ys, first.seeds);
  auto moves = first.tangents(g);
  for (size_t i = 0; i < moves.size(); ++i) moves[i] = first.or_zeros(moves[i], first.xs[i]);
  first.g.set_outputs(moves);
  const auto t = second.tangents(second.ys);
  std::vector<ValueId> moving, seeds;
  for (size_t i = 0; i < t.size(); ++i)
    if (t[i].valid()) moving.push_back(t[i]), seeds.push_back(second.seeds[i]);
  if (moving.empty()) return;
  second.g.set_outputs(second.gradients(moving, seeds));
  const auto a = run(*first.m, first.in), b = run(*second.m, second.in);
  if (c.rounds) return;  // what passes straight through is not the derivative of a function, whose second one would be symmetric
  for (size_t i = 0; i < a.size(); ++i) check_close(a[i], b[i], 1e-9, 1e-9);
}

HostValue stacked(const std::vector<HostValue>& rows) {
  std::vector<int64_t> dims = rows[0].tensor.dims;
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  if (rows[0].tensor.dtype == DType::String) {
    std::vector<std::string> all;
    for (const HostValue& r : rows) all.insert(all.end(), r.tensor.strings.begin(), r.tensor.strings.end());
    return eval::strings_of(dims, all);
  }
  std::vector<double> all;
  for (const HostValue& r : rows) {
    const auto v = numbers(r);
    all.insert(all.end(), v.begin(), v.end());
  }
  return tensor_of(rows[0].tensor.dtype, dims, all);
}

constexpr int64_t kSamples = 3;

// Another sample of an input: reals are scaled, truth values turned, rows of integers and strings in another order.
HostValue sample_of(const HostValue& v, int64_t k, bool keeps_integers) {
  if (v.tensor.dtype == DType::String) {
    std::vector<std::string> s = v.tensor.strings;
    std::rotate(s.begin(), s.begin() + k % std::max<int64_t>(1, static_cast<int64_t>(s.size())), s.end());
    return eval::strings_of(v.tensor.dims, s);
  }
  std::vector<double> x = numbers(v);
  if (is_real(v)) {
    for (double& e : x) e *= 1 + 0.05 * static_cast<double>(k);
  } else if (v.tensor.dtype == DType::Bool) {
    for (double& e : x) e = k % 2 ? 1 - e : e;
  } else if (!keeps_integers && k % 2 && !v.tensor.dims.empty()) {
    const auto row = x.size() / static_cast<size_t>(std::max<int64_t>(1, v.tensor.dims[0]));
    std::rotate(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(row), x.end());
  }
  return tensor_of(v.tensor.dtype, v.tensor.dims, x);
}

// A batch computes what its samples do one by one, whichever inputs differ between them.
void check_batch(const RuleCase& c, uint64_t which) {
  INFO(c.label, " operands ", which);
  const auto m = tensors_of(c);
  std::vector<transform::BatchAxis> axes;
  std::vector<HostValue> in;
  std::vector<std::vector<HostValue>> single(kSamples, c.in);
  const bool sizes = c.kinds.contains(OpKind::ReshapeTo);  // integers that are sizes
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (!(which >> i & 1)) {
      axes.emplace_back(), in.push_back(c.in[i]);
      continue;
    }
    std::vector<HostValue> rows;
    for (int64_t k = 0; k < kSamples; ++k) {
      rows.push_back(sample_of(c.in[i], k, sizes));
      single[static_cast<size_t>(k)][i] = rows.back();
    }
    axes.emplace_back(0), in.push_back(stacked(rows));
  }
  Diagnostics d;
  const bool made = transform::batch_main(*m, axes, Dim(kSamples), expand_by_table, d);
  if (std::ranges::any_of(c.kinds, [](OpKind op) { return transform::has_own_sizes(op) && !has_trait(op, kSequenceOp); })) {
    CHECK_FALSE(made);
    return;
  }
  CHECK_MESSAGE(made, d.text());
  if (!made) return;
  const auto got = run(*m, in);
  const auto one = tensors_of(c);
  std::vector<std::vector<HostValue>> results;
  for (const auto& inputs : single) results.push_back(run(*one, inputs));
  for (size_t r = 0; r < got.size(); ++r) {
    std::vector<HostValue> rows;
    for (const auto& result : results) rows.push_back(result[r]);
    check_close(got[r], stacked(rows), c.rounds ? 1e-6 : 1e-9, c.rounds ? 1e-6 : 1e-11);
  }
}

const std::vector<RuleCase>& cases() {
  static const std::vector<RuleCase> all = rule_cases();
  return all;
}

const std::vector<RuleCase>& variants() {
  static const std::vector<RuleCase> all = [] {
    std::vector<RuleCase> cases;
    for (Sample& s : variant_samples()) cases.push_back(case_of(std::move(s)));
    return cases;
  }();
  return all;
}

}  // namespace

TEST_CASE("the tables of transforms know most kinds, and what they know is tried") {
  std::set<OpKind> tried;
  for (const RuleCase& c : cases()) tried.insert(c.kinds.begin(), c.kinds.end());
  for (transform::Table table : {transform::Table::Gradient, transform::Table::Tangent, transform::Table::Batch}) {
    std::string missing, unknown;
    int covered = 0;
    for (int k = 0; k < kOpCount; ++k) {
      const auto op = static_cast<OpKind>(k);
      const std::string_view how = transform::coverage(op, table, legalise::decomposition(op) != nullptr);
      covered += transform::is_covered(how);
      if (!transform::is_covered(how)) unknown += std::string(name(op)) + " (" + std::string(how) + ") ";
      if (how == "-") missing += std::string(name(op)) + " is in no table ";
      const bool computed = how == "rule" || how == "expansion" || how == "lowered" || how == "loop";
      if (computed && !tried.contains(op)) missing += std::string(name(op)) + " ";
    }
    CHECK_MESSAGE(missing.empty(), missing);
    CHECK_MESSAGE(covered >= 170, unknown);
  }
}

TEST_CASE("tangents and gradients of every kind agree with each other and with differences") {
  for (const RuleCase& c : cases()) check_derivatives(c);
}

TEST_CASE("the tangent of the gradient is the gradient of the tangent, for every kind") {
  for (const RuleCase& c : cases()) check_second_order(c);
}

TEST_CASE("derivatives with other attributes, broadcasts, repeated indices, and axes of size 1 and 0") {
  for (const RuleCase& c : variants()) {
    INFO(print(*c.make()));
    check_derivatives(c);
    check_second_order(c);
  }
}

TEST_CASE("both directions make the same choice where a derivative is not unique") {
  for (Sample& s : kink_samples()) {
    RuleCase c = case_of(std::move(s));
    c.rounds = true;
    INFO(print(*c.make()));
    check_derivatives(c);
  }
}

TEST_CASE("a batch of every kind is its samples one by one") {
  for (const RuleCase& c : cases()) {
    std::set<uint64_t> tried;
    uint64_t all = 0, floats = 0;
    for (size_t i = 0; i < c.in.size(); ++i) {
      all |= uint64_t{1} << i;
      if (is_real(c.in[i])) floats |= uint64_t{1} << i;
      tried.insert(uint64_t{1} << i);
    }
    tried.insert(all), tried.insert(floats);
    for (uint64_t which : tried)
      if (which) check_batch(c, which);
  }
}

TEST_CASE("a batch of a loop whose samples iterate a different number of times") {
  const char* text = R"(module "m" mir {
graph @main {
  %0 = input "n" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f64[2]
  %3 = input "w" : f64[2]
  %4 = loop(%0, %1, %2, %3) [@step] {carries = 1} : f64[2]
  return %4 "last"
}
graph @step {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f64[2]
  %3 = input "w" : f64[2]
  %4 = mul(%2, %3) : f64[2]
  %5 = add(%4, %2) : f64[2]
  %6 = reduce(%5) {op = "sum", axes = [0]} : f64[]
  %7 = constant {data = dense [20]} : f64[]
  %8 = lt(%6, %7) : bool[]
  return %8 "c", %5 "s"
}
}
)";
  const auto truth = [](double v) { return bools({}, {v}); };
  const std::vector<std::vector<HostValue>> samples{
      {i64({}, {6}), truth(1), tensor_of(DType::F64, {2}, {1.0, 2.0}), tensor_of(DType::F64, {2}, {1.0, 0.5})},
      {i64({}, {2}), truth(1), tensor_of(DType::F64, {2}, {-1.0, 2.0}), tensor_of(DType::F64, {2}, {0.3, 0.2})},
      {i64({}, {0}), truth(0), tensor_of(DType::F64, {2}, {4.0, 3.0}), tensor_of(DType::F64, {2}, {0.7, 2.0})}};
  // Outputs: the result and its gradients by s and w.
  const auto differentiated = [](Module& m) {
    Graph& g = m.main();
    Diagnostics d;
    Builder b(g, &d);
    std::vector<ValueId> wrt;
    for (size_t i : {2, 3}) wrt.push_back(g.result(g.inputs()[i]));
    const auto grads = transform::gradients(b, g.outputs()[0], {}, wrt, {}, d, expand_by_table);
    REQUIRE_MESSAGE(grads, d.text());
    std::vector<ValueId> outputs{g.outputs()[0]};
    outputs.insert(outputs.end(), grads->begin(), grads->end());
    g.set_outputs(outputs);
  };
  for (uint64_t which = 1; which < 16; ++which) {
    INFO("inputs ", which);
    const RuleCase c = case_of(text, samples[0]);
    const auto batch = c.make();
    std::vector<transform::BatchAxis> axes;
    std::vector<HostValue> in;
    std::vector<std::vector<HostValue>> single(samples.size(), samples[0]);
    for (size_t i = 0; i < 4; ++i) {
      const bool varies = which >> i & 1;
      std::vector<HostValue> rows;
      for (size_t k = 0; k < samples.size(); ++k) {
        if (varies) single[k][i] = samples[k][i];
        rows.push_back(samples[k][i]);
      }
      axes.push_back(varies ? transform::BatchAxis(0) : std::nullopt);
      in.push_back(varies ? stacked(rows) : samples[0][i]);
    }
    Diagnostics d;
    REQUIRE_MESSAGE(transform::batch_main(*batch, axes, Dim(kSamples), expand_by_table, d), d.text());
    differentiated(*batch);
    const auto got = run(*batch, in);
    std::vector<std::vector<HostValue>> expected(3);
    for (const auto& inputs : single) {
      const auto one = c.make();
      differentiated(*one);
      const auto r = run(*one, inputs);
      for (size_t i = 0; i < 3; ++i) expected[i].push_back(r[i]);
    }
    check_close(got[0], stacked(expected[0]), 1e-12, 1e-12);
    for (size_t i : {2, 3})  // of inputs that all samples share, the gradient is a sum over samples
      if (which >> i & 1) check_close(got[i - 1], stacked(expected[i - 1]), 1e-12, 1e-12);
  }
}

TEST_CASE("derivatives pass straight through rows that a matmul rounds to 8 bits") {
  for (const Sample& s : quantized_samples()) {
    const auto* a = std::get_if<DequantMatMulAttrs>(&s.attrs);
    if (!a || !a->int8_x) continue;
    Sample exact = s;
    std::get<DequantMatMulAttrs>(exact.attrs).int8_x = false;
    std::vector<std::vector<double>> slopes;
    for (const Sample& of : {s, exact}) {
      Derived one(case_of(of));
      one.g.set_outputs(one.gradients(one.ys, one.seeds));
      slopes.push_back(numbers(run(*one.m, one.in)[0]));
    }
    for (size_t i = 0; i < slopes[0].size(); ++i) CHECK(std::abs(slopes[0][i] - slopes[1][i]) <= 0.05);
  }
}
