// The three tables of transforms against each other and against the reference evaluator, for every kind: tangents with
// gradients by the dot-product test and with differences, batches with samples one by one.
#include <array>
#include <cmath>
#include <set>

#include "driver/transform_stage.h"
#include "ir/verify.h"
#include "support/rule_samples.h"
#include "transform/batch_rules.h"
#include "transform/duals.h"
#include "transform/tangents.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

bool is_real(const HostValue& v) { return v.kind == TypeKind::Tensor && v.tensor.dtype == DType::F64; }

std::vector<HostValue> run(SampleGraph& of, const std::vector<HostValue>& inputs) {
  CHECK_MESSAGE(verify(of.m, of.d), of.d.text());
  auto r = eval::evaluate(of.m, inputs, of.d);
  REQUIRE_MESSAGE(r, of.d.text());
  return std::move(*r);
}

double dot(const HostValue& a, const HostValue& b) {
  const auto x = numbers(a), y = numbers(b);
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// <g, J t> = <J^T g, t>, and J t is how the results move.
void check_derivatives(const Sample& s) {
  INFO(std::string(name(s.op)));
  SampleGraph one(s);
  std::vector<ValueId> xs, dxs, ys, seeds;
  std::vector<HostValue> in = one.in, moved = one.in, weights, directions;
  size_t there = 0;
  for (size_t i = 0; i < s.in.size(); ++i) {
    if (!one.operands[i].valid()) continue;
    const size_t at = there++;
    if (!is_real(s.in[i])) continue;
    xs.push_back(one.operands[i]);
    directions.push_back(reals(s.in[i].tensor.dims, 200 + i));
    dxs.push_back(one.b.input("dx" + std::to_string(i), eval::type_of(s.in[i])));
    in.push_back(directions.back());
    std::vector<double> x = numbers(s.in[i]);
    const auto dx = numbers(directions.back());
    for (size_t k = 0; k < x.size(); ++k) x[k] += 1e-6 * dx[k];
    moved[at] = tensor_of(DType::F64, s.in[i].tensor.dims, x);
  }
  const auto y = run_op(s.op, s.attrs, s.in);
  for (size_t r = 0; r < one.results.size(); ++r) {
    if (one.m.main().dtype(one.results[r]) != DType::F64) continue;
    ys.push_back(one.results[r]);
    weights.push_back(reals(y[r].tensor.dims, 300 + r));
    seeds.push_back(one.b.constant(weights.back().tensor));
  }
  const auto t = transform::tangents(one.b, ys, xs, dxs, {}, one.d, expand_by_table);
  REQUIRE_MESSAGE(t, one.d.text());
  const auto g = transform::gradients(one.b, ys, seeds, xs, {}, one.d, expand_by_table);
  REQUIRE_MESSAGE(g, one.d.text());
  std::vector<ValueId> outputs = ys;
  for (size_t i = 0; i < ys.size(); ++i)
    outputs.push_back(
        (*t)[i].valid()
            ? (*t)[i]
            : one.b.constant(tensor_of(DType::F64, y[i].tensor.dims, std::vector<double>(weights[i].tensor.elements())).tensor));
  outputs.insert(outputs.end(), g->begin(), g->end());
  one.m.main().set_outputs(outputs);
  const auto r = run(one, in);
  double forward = 0, reverse = 0, size = 1;
  for (size_t i = 0; i < ys.size(); ++i) forward += dot(weights[i], r[ys.size() + i]);
  for (size_t i = 0; i < xs.size(); ++i) {
    const double part = dot(directions[i], r[2 * ys.size() + i]);
    reverse += part, size += std::abs(part);
  }
  CHECK_MESSAGE(std::abs(forward - reverse) <= 1e-9 * size, forward, " and ", reverse);
  if (s.op == OpKind::Round) return;  // passed through, by decision
  // One-sided at the operands that are there in `moved`, which differ by 1e-6.
  std::vector<HostValue> all = moved;
  all.insert(all.end(), directions.begin(), directions.end());
  const auto later = run(one, all);
  double difference = 0;
  for (size_t i = 0; i < ys.size(); ++i) difference += (dot(weights[i], later[i]) - dot(weights[i], r[i])) / 1e-6;
  CHECK_MESSAGE(std::abs(forward - difference) <= 1e-4 * (size + std::abs(forward)), forward, " and by difference ", difference);
}

HostValue stacked(const std::vector<HostValue>& rows) {
  std::vector<int64_t> dims = rows[0].tensor.dims;
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  std::vector<double> all;
  for (const HostValue& r : rows) {
    const auto v = numbers(r);
    all.insert(all.end(), v.begin(), v.end());
  }
  return tensor_of(rows[0].tensor.dtype, dims, all);
}

constexpr int64_t kSamples = 3;

// A batch computes what its samples do one by one, whichever operands differ between them.
void check_batch(const Sample& s, uint64_t which) {
  INFO(std::string(name(s.op)), " operands ", which);
  SampleGraph one(s);
  one.set_outputs();
  std::vector<transform::BatchAxis> axes;
  std::vector<HostValue> in;
  std::vector<std::vector<HostValue>> single(kSamples, s.in);
  for (size_t i = 0; i < s.in.size(); ++i) {
    if (!one.operands[i].valid()) continue;
    if (!(which >> i & 1)) {
      axes.emplace_back(), in.push_back(s.in[i]);
      continue;
    }
    std::vector<HostValue> rows;
    for (int64_t k = 0; k < kSamples; ++k) {
      std::vector<double> v = numbers(s.in[i]);
      if (is_real(s.in[i]))
        for (double& e : v) e *= 1 + 0.05 * static_cast<double>(k);
      rows.push_back(tensor_of(s.in[i].tensor.dtype, s.in[i].tensor.dims, v));
      single[static_cast<size_t>(k)][i] = rows.back();
    }
    axes.emplace_back(0), in.push_back(stacked(rows));
  }
  const bool made = transform::batch_main(one.m, axes, Dim(kSamples), expand_by_table, one.d);
  if (transform::has_own_sizes(s.op)) {
    CHECK_FALSE(made);
    return;
  }
  CHECK_MESSAGE(made, one.d.text());
  if (!made) return;
  const auto got = run(one, in);
  for (size_t r = 0; r < got.size(); ++r) {
    std::vector<HostValue> rows;
    for (const auto& operands : single) rows.push_back(run_op(s.op, s.attrs, operands)[r]);
    check_close(got[r], stacked(rows), 1e-9, 1e-11);
  }
}

}  // namespace

TEST_CASE("tangents and gradients of every kind agree with each other and with differences") {
  for (const Sample& s : all_samples()) check_derivatives(s);
}

TEST_CASE("a batch of every kind is its samples one by one") {
  for (const Sample& s : all_samples()) {
    std::set<uint64_t> tried;
    uint64_t all = 0, floats = 0;
    for (size_t i = 0; i < s.in.size(); ++i) {
      if (s.in[i].kind != TypeKind::Tensor) continue;
      all |= uint64_t{1} << i;
      if (is_real(s.in[i])) floats |= uint64_t{1} << i;
      tried.insert(uint64_t{1} << i);
    }
    tried.insert(all), tried.insert(floats);
    for (uint64_t which : tried)
      if (which) check_batch(s, which);
  }
}
