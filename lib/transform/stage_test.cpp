// Transforms of whole modules: names, composition, the ledger, and what is refused.
#include "transform/stage.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// loss = sum(tanh(x w) ^ 2) over x [2,3], w [3,2].
constexpr const char* kLoss =
    "module \"m\" mir {\ngraph @main {\n"
    "%0 = input \"x\" : f64[2,3]\n"
    "%1 = input \"w\" : f64[3,2]\n"
    "%2 = matmul(%0, %1) \"product\" : f64[2,2]\n"
    "%3 = tanh(%2) \"act\" : f64[2,2]\n"
    "%4 = mul(%3, %3) : f64[2,2]\n"
    "%5 = reduce(%4) {op = \"sum\", axes = [0, 1]} : f64[]\n"
    "return %5 \"loss\"\n}\n}\n";

struct Made {
  std::unique_ptr<Module> m;
  Diagnostics d;
  transform::Ledger ledger;
  bool ok = false;
  Made(const char* text, const std::vector<std::string>& words) {
    m = parse_text(text, d);
    REQUIRE_MESSAGE(m, d.text());
    const auto steps = transform::parse_steps(words, d);
    ok = steps && transform::apply_steps(*m, *steps, nullptr, &ledger, d);
    if (ok) CHECK_MESSAGE(verify(*m, d), d.text());
  }
  std::vector<std::string> names(bool inputs) const {
    std::vector<std::string> out;
    const Graph& g = m->main();
    for (size_t i = 0; i < (inputs ? g.inputs().size() : g.outputs().size()); ++i)
      out.emplace_back(m->bytes(inputs ? g.value_name(g.result(g.inputs()[i])) : g.output_name(i)));
    return out;
  }
  std::vector<std::vector<double>> run(const std::vector<HostValue>& in) {
    REQUIRE_MESSAGE(ok, d.text());
    const auto r = eval::evaluate(*m, in, d);
    REQUIRE_MESSAGE(r, d.text());
    std::vector<std::vector<double>> out;
    for (const HostValue& v : *r) out.push_back(numbers(v));
    return out;
  }
};

using Words = std::vector<std::string>;
const HostValue kX = tensor_of(DType::F64, {2, 3}, {0.1, -0.4, 0.7, 0.2, 0.5, -0.3});
const HostValue kW = tensor_of(DType::F64, {3, 2}, {0.3, -0.1, 0.8, 0.2, -0.5, 0.6});
const HostValue kV = tensor_of(DType::F64, {3, 2}, {0.5, 0.1, -0.2, 0.4, 0.3, -0.7});

HostValue moved(const HostValue& x, const HostValue& by, double step) {
  std::vector<double> v = numbers(x);
  const auto d = numbers(by);
  for (size_t i = 0; i < v.size(); ++i) v[i] += step * d[i];
  return tensor_of(DType::F64, x.tensor.dims, v);
}
std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b, double step) {
  std::vector<double> out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back((a[i] - b[i]) / step);
  return out;
}
void check_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK_MESSAGE(std::abs(a[i] - b[i]) <= tolerance, a[i], " and ", b[i]);
}

}  // namespace

TEST_CASE("gradient, Hessian times vector, and their names") {
  Made made(kLoss, {"grad loss", "wrt w", "hvp"});
  CHECK(made.names(true) == Words{"x", "w", "tangent:w"});
  CHECK(made.names(false) == Words{"loss", "grad:w", "tangent:loss", "hvp:w"});
  const double h = 1e-5;
  const auto at = [&](double step) { return Made(kLoss, {"grad loss", "wrt w"}).run({kX, moved(kW, kV, step)}); };
  const auto r = made.run({kX, kW, kV});
  const auto up = at(h), down = at(-h);
  check_near(r[2], difference(up[0], down[0], 2 * h), 1e-8);
  check_near(r[3], difference(up[1], down[1], 2 * h), 1e-8);
  REQUIRE(made.ledger.steps.size() == 2);
  const transform::LedgerValue& w = made.ledger.steps[0].values.at(0);
  CHECK(w.reached);
  CHECK(w.paths == 2);  // by both factors of the square
  CHECK(w.kind == "input");
  CHECK(made.ledger.steps[1].outputs == Words{"tangent:loss", "hvp:w"});
}

TEST_CASE("names and kinds of values mix, and each value counts once") {
  Made made(kLoss, {"grad loss", "wrt w,inputs,w"});
  CHECK(made.names(false) == Words{"loss", "grad:w", "grad:x"});
  Made none(kLoss, {"grad loss", "wrt w,params"});
  CHECK(none.names(false) == Words{"loss", "grad:w"});
}

TEST_CASE("a loss of integers names the outputs that have derivatives") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[3]\n%1 = cast(%0) {to = \"i64\"} : i64[3]\n"
      "%2 = sin(%0) : f64[3]\nreturn %1 \"place\", %2 \"y\"\n}\n}\n";
  Made made(text, {"grad place"});
  CHECK_FALSE(made.ok);
  CHECK(made.d.text().find("type i64[3] has no gradient") != std::string::npos);
  CHECK(made.d.text().find("outputs with floats: \"y\"") != std::string::npos);
}

TEST_CASE("a tangent of a gradient is the gradient of a tangent") {
  Made first(kLoss, {"grad loss", "wrt w", "jvp w"});
  Made second(kLoss, {"jvp w", "grad tangent:loss", "wrt w"});
  CHECK(first.names(false) == Words{"loss", "grad:w", "tangent:loss", "tangent:grad:w"});
  CHECK(second.names(false) == Words{"loss", "tangent:loss", "grad:w"});
  check_near(first.run({kX, kW, kV})[3], second.run({kX, kW, kV})[2], 1e-13);
}

TEST_CASE("higher orders along one value") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[3]\n%1 = sin(%0) : f64[3]\nreturn %1 \"y\"\n}\n}\n";
  Made made(text, {"grad y", "order 4", "along x"});
  CHECK(made.names(false) == Words{"y", "grad:x", "grad2:x", "grad3:x", "grad4:x"});
  const auto r = made.run({tensor_of(DType::F64, {3}, {0.3, -1, 2})});
  check_near(r[4], r[0], 1e-14);
  CHECK(Made(text, {"grad y", "wrt x", "order 2", "along x"}).names(false) == Words{"y", "grad:x", "grad2:x"});
  for (size_t i = 0; i < 3; ++i) CHECK(r[2][i] == doctest::Approx(-r[0][i]));
}

TEST_CASE("a batch of a gradient is the gradients of the samples") {
  Made made(kLoss, {"grad loss", "wrt w", "vmap x:1", "size 2"});
  const HostValue x = tensor_of(DType::F64, {2, 2, 3}, {0.1, -0.4, 0.7, 1, 2, 3, 0.2, 0.5, -0.3, -1, 0.5, 0});
  const HostValue second = tensor_of(DType::F64, {2, 3}, {1, 2, 3, -1, 0.5, 0});
  const auto r = made.run({x, kW});
  Made one(kLoss, {"grad loss", "wrt w"});
  const auto a = one.run({kX, kW}), b = one.run({second, kW});
  for (size_t out : {0, 1}) {
    std::vector<double> both = a[out];
    both.insert(both.end(), b[out].begin(), b[out].end());
    check_near(r[out], both, 1e-14);
  }
  CHECK(Made(kLoss, {"vmap x", "size n"}).m->dims.has_symbol("n"));
  CHECK(Made(kLoss, {"vmap x", "size 2", "vmap x", "size 3"}).ok);
}

TEST_CASE("what is shared between samples stays where it is used") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[2]\n%1 = input \"w\" : f64[2]\n%2 = exp(%1) \"shared\" : "
      "f64[2]\n"
      "%3 = mul(%0, %2) : f64[2]\nreturn %3 \"y\", %2 \"e\"\n}\n}\n";
  Made made(text, {"vmap x", "size 2"});
  CHECK(made.names(true) == Words{"x", "w"});
  const auto r = made.run({tensor_of(DType::F64, {2, 2}, {1, 2, 3, 4}), tensor_of(DType::F64, {2}, {0, 0})});
  CHECK(r[0] == std::vector<double>{1, 2, 3, 4});
  CHECK(r[1] == std::vector<double>{1, 1, 1, 1});  // for every sample
}

TEST_CASE("what cannot be reached is named, unless the user stops the gradient") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n"
      "%0 = input \"x\" : f64[3]\n%1 = input \"t\" : f64[3]\n%2 = param \"apart\" : f64[3]\n%3 = param \"w\" : f64[3]\n"
      "%4 = lt(%0, %1) \"compare\" : bool[3]\n%5 = where(%4, %0, %3) : f64[3]\n"
      "%6 = cast(%3) {to = \"i32\"} \"chop\" : i32[3]\n%7 = cast(%6) {to = \"f64\"} : f64[3]\n%8 = add(%5, %7) : f64[3]\n"
      "return %8 \"y\"\n}\n}\n";
  const auto said = [&](const Words& words) {
    Made made(text, words);
    CHECK_FALSE(made.ok);
    return made.d.text();
  };
  const auto has = [](const std::string& all, std::string_view part) { CHECK_MESSAGE(all.find(part) != std::string::npos, all); };
  has(said({"grad y", "wrt t"}), "the first at \"compare\" (lt)");
  has(said({"grad y", "wrt w"}), "the gradient ends at \"chop\" (cast), which makes i32");
  has(said({"grad y", "wrt apart"}), "nothing that was asked for depends on it");
  has(said({"grad z"}), "names \"z\", which the model does not have");
  has(said({"grad compare"}), "has no gradient");
  has(said({"hvp"}), "--hvp says more about --grad");
  has(said({"grad y", "order 2"}), "--along NAME");
  has(said({"vmap w", "size 2"}), "which is no input");
  has(said({"vmap x", "size 0"}), "--size takes");
  has(said({"vmap x", "size 4611686018427387904"}),
      "--size takes a number from 1 to 2^56 - 1 or a name, got \"4611686018427387904\"");
  has(said({"differentiate y"}), "there is no transform \"differentiate\"");
  Made made(text, {"grad y", "wrt params", "stop-gradient chop"});
  CHECK_MESSAGE(made.ok, made.d.text());
  CHECK(made.names(false) == Words{"y", "grad:w"});
  REQUIRE(made.ledger.steps[0].values.size() == 2);
  CHECK_FALSE(made.ledger.steps[0].values[0].reached);
  CHECK(made.ledger.steps[0].values[1].paths == 1);
}
