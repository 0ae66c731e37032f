// Control flow and quantized values in all transforms: tangents, gradients and batches of the same graphs.
#include <array>
#include <cmath>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/rule_samples.h"
#include "transform/batch.h"
#include "transform/coverage.h"
#include "transform/gradients.h"
#include "transform/paths.h"
#include "transform/stage.h"
#include "transform/tangents.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// Of every float input in f64: the tangents, the gradients of the weighted outputs, and a batch over all inputs. Quantized values
// have neither differences nor this batch, and derivatives in f32.
void check_text(const char* text, bool batched = true) {
  INFO(text);
  Diagnostics d;
  const auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  REQUIRE_MESSAGE(verify(*m, d), d.text());
  Graph& g = m->main();
  Builder b(g, &d);
  std::vector<ValueId> xs, dxs, ys(g.outputs().begin(), g.outputs().end()), seeds;
  std::vector<HostValue> in, directions, weights;
  for (NodeId n : std::vector<NodeId>(g.inputs().begin(), g.inputs().end())) {
    const ValueId v = g.result(n);
    std::vector<int64_t> dims;
    for (Dim k : g.dims(v)) dims.push_back(k.size());
    if (g.dtype(v) != DType::F64) {
      in.push_back(tensor_of(g.dtype(v), dims, std::vector<double>{1}));
      continue;
    }
    in.push_back(reals(dims, 10 + v.raw));
    directions.push_back(reals(dims, 20 + v.raw));
    xs.push_back(v);
  }
  const std::vector<HostValue> plain = in;
  for (size_t i = 0; i < xs.size(); ++i) {
    dxs.push_back(b.input("d" + std::to_string(i), g.type(xs[i])));
    in.push_back(directions[i]);
  }
  for (ValueId y : ys) {
    std::vector<int64_t> dims;
    for (Dim k : g.dims(y)) dims.push_back(k.size());
    weights.push_back(reals(dims, 30 + y.raw));
    seeds.push_back(b.constant(weights.back().tensor));
  }
  const auto t = transform::tangents(b, ys, xs, dxs, {}, d);
  REQUIRE_MESSAGE(t, d.text());
  const auto back = transform::gradients(b, ys, seeds, xs, {}, d);
  REQUIRE_MESSAGE(back, d.text());
  std::vector<ValueId> outputs = ys;
  outputs.insert(outputs.end(), t->begin(), t->end());
  outputs.insert(outputs.end(), back->begin(), back->end());
  g.set_outputs(outputs);
  REQUIRE_MESSAGE(verify(*m, d), d.text());
  const auto run = [&](const Module& module, const std::vector<HostValue>& at) {
    auto r = eval::evaluate(module, at, d);
    REQUIRE_MESSAGE(r, d.text());
    return std::move(*r);
  };
  const auto dot = [](const HostValue& a, const HostValue& c) {
    const auto p = numbers(a), q = numbers(c);
    REQUIRE(p.size() == q.size());
    double sum = 0;
    for (size_t i = 0; i < p.size(); ++i) sum += p[i] * q[i];
    return sum;
  };
  const auto r = run(*m, in);
  double forward = 0, reverse = 0;
  for (size_t i = 0; i < ys.size(); ++i) forward += dot(weights[i], r[ys.size() + i]);
  for (size_t i = 0; i < xs.size(); ++i) reverse += dot(directions[i], r[2 * ys.size() + i]);
  CHECK_MESSAGE(std::abs(forward - reverse) <= (batched ? 1e-9 : 1e-6) * (1 + std::abs(forward)), forward, " and ", reverse);
  if (!batched) return;
  std::vector<HostValue> moved = in;
  for (size_t i = 0, k = 0; i < plain.size(); ++i) {
    if (plain[i].tensor.dtype != DType::F64) continue;
    auto v = numbers(plain[i]);
    const auto by = numbers(directions[k++]);
    for (size_t e = 0; e < v.size(); ++e) v[e] += 1e-6 * by[e];
    moved[i] = tensor_of(DType::F64, plain[i].tensor.dims, v);
  }
  const auto later = run(*m, moved);
  double difference = 0;
  for (size_t i = 0; i < ys.size(); ++i) difference += (dot(weights[i], later[i]) - dot(weights[i], r[i])) / 1e-6;
  CHECK_MESSAGE(std::abs(forward - difference) <= 1e-4 * (1 + std::abs(forward)), forward, " and by difference ", difference);

  // The same model at two points at once, whichever inputs differ.
  for (size_t only = 0; only <= plain.size(); ++only) {
    auto batch = parse_text(text, d);
    std::vector<transform::BatchAxis> axes;
    std::vector<HostValue> both, second = plain;
    for (size_t i = 0; i < plain.size(); ++i) {
      if (only < plain.size() && i != only) {
        axes.emplace_back(), both.push_back(plain[i]);
        continue;
      }
      auto v = numbers(plain[i]), all = v;
      for (double& e : v) e = plain[i].tensor.dtype == DType::F64 ? 0.5 - e : 0;
      second[i] = tensor_of(plain[i].tensor.dtype, plain[i].tensor.dims, v);
      all.insert(all.end(), v.begin(), v.end());
      std::vector<int64_t> dims = plain[i].tensor.dims;
      dims.insert(dims.begin(), 2);
      axes.emplace_back(0), both.push_back(tensor_of(plain[i].tensor.dtype, dims, all));
    }
    REQUIRE_MESSAGE(transform::batch_main(*batch, axes, Dim(2), nullptr, d), d.text());
    REQUIRE_MESSAGE(verify(*batch, d), d.text());
    const auto one = parse_text(text, d);
    const auto got = run(*batch, both), first = run(*one, plain), other = run(*one, second);
    for (size_t i = 0; i < got.size(); ++i) {
      auto want = numbers(first[i]);
      const auto rest = numbers(other[i]), values = numbers(got[i]);
      want.insert(want.end(), rest.begin(), rest.end());
      REQUIRE(values.size() == want.size());
      for (size_t e = 0; e < want.size(); ++e) CHECK(values[e] == doctest::Approx(want[e]).epsilon(1e-12));
    }
  }
}

}  // namespace

TEST_CASE("scans, loops and branches") {
  check_text(
      "module \"m\" mir {\ngraph @main {\n%0 = input \"s\" : f64[2]\n%1 = input \"x\" : f64[2,3]\n%2 = input \"w\" : f64[2]\n"
      "%3, %4 = scan(%0, %1, %2) [@step] {states = 1, scan_inputs = 1, input_axes = [1], input_reverse = [1], output_axes = [1], "
      "output_reverse = [0]} : f64[2], f64[2,3]\nreturn %3 \"last\", %4 \"all\"\n}\n"
      "graph @step {\n%0 = input \"s\" : f64[2]\n%1 = input \"x\" : f64[2]\n%2 = input \"w\" : f64[2]\n%3 = mul(%0, %1) : "
      "f64[2]\n"
      "%4 = mul(%3, %2) : f64[2]\n%5 = tanh(%4) : f64[2]\n%6 = add(%5, %1) : f64[2]\nreturn %6 \"n\", %5 \"y\"\n}\n}\n");
  check_text(
      "module \"m\" mir {\ngraph @main {\n%0 = constant {data = dense [3]} : i64[]\n%1 = input \"s\" : f64[2]\n"
      "%2 = input \"w\" : f64[2]\n%3 = loop(%0, _, %1, %2) [@step] {carries = 1} : f64[2]\nreturn %3 \"last\"\n}\n"
      "graph @step {\n%0 = input \"i\" : i64[]\n%1 = input \"c\" : bool[]\n%2 = input \"s\" : f64[2]\n%3 = input \"w\" : f64[2]\n"
      "%4 = mul(%2, %3) : f64[2]\n%5 = sin(%4) : f64[2]\nreturn %1 \"c\", %5 \"n\"\n}\n}\n");
  check_text(
      "module \"m\" mir {\ngraph @main {\n%0 = input \"c\" : bool[]\n%1 = input \"x\" : f64[2,3]\n%2 = input \"w\" : f64[3]\n"
      "%3 = if(%0, %1, %2) [@a, @b] : f64[2,3]\nreturn %3 \"y\"\n}\n"
      "graph @a {\n%0 = input \"x\" : f64[2,3]\n%1 = input \"w\" : f64[3]\n%2 = mul(%0, %1) : f64[2,3]\nreturn %2 \"y\"\n}\n"
      "graph @b {\n%0 = input \"x\" : f64[2,3]\n%1 = input \"w\" : f64[3]\n%2 = exp(%0) : f64[2,3]\nreturn %2 \"y\"\n}\n}\n");
}

TEST_CASE("quantized values pass derivatives straight through, in both directions") {
  // Values that stay in the range, and one beyond.
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[4]\n%1 = constant {data = dense [0.25]} : f64[]\n"
      "%2 = constant {data = dense [3]} : i8[]\n%3 = quantize(%0, %1, %2) {to = \"i8\"} : i8[4]\n%4 = reshape(%3) {dims = [2, "
      "2]} : i8[2,2]\n"
      "%5 = dequantize(%4, %1, %2) {to = \"f64\"} : f64[2,2]\n%6 = mul(%5, %5) : f64[2,2]\nreturn %6 \"y\"\n}\n}\n";
  check_text(text, false);
  Diagnostics d;
  const auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  Builder b(m->main(), &d);
  const auto g = transform::gradients(b, m->main().outputs()[0], {}, std::array{m->main().result(m->main().inputs()[0])}, {}, d);
  REQUIRE_MESSAGE(g, d.text());
  m->main().set_outputs(std::array{(*g)[0]});
  const auto r = eval::evaluate(*m, std::array{tensor_of(DType::F64, {4}, {0.3, -1.1, 100, 2})}, d);
  REQUIRE_MESSAGE(r, d.text());
  check_values((*r)[0], {0.5, -2, 0, 4});  // twice the rounded value; 100 is clamped
}

TEST_CASE("products of integers are differentiated as those of numbers") {
  check_text(
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[2,3]\n%1 = input \"w\" : f64[3,2]\n"
      "%2 = constant {data = dense [0.01]} : f64[]\n%3 = constant {data = dense [2]} : i8[]\n"
      "%4 = quantize(%0, %2, %3) {to = \"i8\"} : i8[2,3]\n%5 = quantize(%1, %2, %3) {to = \"i8\"} : i8[3,2]\n"
      "%6 = q_matmul(%4, %5, %3, %3) : i32[2,2]\n%7 = dequantize(%6, %2) {to = \"f64\"} : f64[2,2]\nreturn %7 \"y\"\n}\n}\n",
      false);
}

TEST_CASE("most kinds are known to all three transforms") {
  for (transform::Table table : {transform::Table::Gradient, transform::Table::Tangent, transform::Table::Batch}) {
    int unknown = 0;
    std::string names;
    for (int k = 0; k < kOpCount; ++k) {
      // The expansions of other kinds are in another room: driver/transform_rules_test.cpp tries them.
      const auto op = static_cast<OpKind>(k);
      const bool expands = has_trait(op, kFused) || op == OpKind::Lrn || op == OpKind::Cumprod || op == OpKind::SelectiveScan ||
                           op == OpKind::Lstm || op == OpKind::Gru || op == OpKind::Rnn;
      if (transform::is_covered(transform::coverage(op, table, expands))) continue;
      names += std::string(name(op)) + " ";
      ++unknown;
    }
    CHECK_MESSAGE(unknown <= kOpCount - 170, names);
  }
}
