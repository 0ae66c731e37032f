// Forces of a pair potential, and a loss on them: second derivatives agree with differences of the first ones.
#include "ir/term.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/eval.h"
#include "transform/stage.h"

using namespace rlxc;
using namespace rlxc::test;
using transform::Term;

namespace {

// energy = depth * sum over pairs i < j of (1 - exp(-width * (|p_i - p_j| - 1)))^2, a Morse potential of 4 atoms. `apart` is 1 on
// the diagonal, where a distance would have no derivative; `once` picks each pair once.
constexpr const char* kEnergy =
    "module \"m\" mir {\ngraph @main {\n"
    "%0 = input \"positions\" : f64[4,3]\n%1 = input \"depth\" : f64[]\n%2 = input \"width\" : f64[]\n"
    "%3 = constant {data = dense [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]} : f64[4,4]\n"
    "%4 = constant {data = dense [0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0]} : f64[4,4]\n"
    "%5 = constant {data = dense [1]} : f64[]\n"
    "%6 = reshape(%0) {dims = [4, 1, 3]} : f64[4,1,3]\n%7 = reshape(%0) {dims = [1, 4, 3]} : f64[1,4,3]\n"
    "%8 = sub(%6, %7) : f64[4,4,3]\n%9 = mul(%8, %8) : f64[4,4,3]\n"
    "%10 = reduce(%9) {op = \"sum\", axes = [2]} : f64[4,4]\n%11 = add(%10, %3) : f64[4,4]\n%12 = sqrt(%11) : f64[4,4]\n"
    "%13 = sub(%12, %5) : f64[4,4]\n%14 = mul(%13, %2) : f64[4,4]\n%15 = neg(%14) : f64[4,4]\n%16 = exp(%15) : f64[4,4]\n"
    "%17 = sub(%5, %16) : f64[4,4]\n%18 = mul(%17, %17) : f64[4,4]\n%19 = mul(%18, %4) : f64[4,4]\n"
    "%20 = reduce(%19) {op = \"sum\", axes = [0, 1]} : f64[]\n%21 = mul(%20, %1) : f64[]\n"
    "return %21 \"energy\"\n}\n}\n";

void apply(Module& m, const std::vector<std::string>& words) {
  Diagnostics d;
  transform::Ledger ledger;
  const auto steps = transform::parse_steps(words, d);
  REQUIRE_MESSAGE((steps && transform::apply_steps(m, *steps, nullptr, &ledger, d) && verify(m, d)), d.text());
}

std::vector<double> output(const Module& m, const std::vector<std::vector<double>>& in, const std::string& name) {
  std::vector<HostValue> values;
  for (size_t i = 0; i < in.size(); ++i)
    values.push_back(tensor_of(DType::F64, in[i].size() == 12 ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{}, in[i]));
  Diagnostics d;
  const auto out = eval::evaluate(m, values, d);
  REQUIRE_MESSAGE(out, d.text());
  for (size_t i = 0; i < out->size(); ++i)
    if (m.text(m.main().output_name(i)) == name) return numbers((*out)[i]);
  FAIL("no output ", name);
  return {};
}

const std::vector<std::vector<double>> kAt{{0, 0, 0.1, 1.1, 0.2, 0, 0.3, 1.2, -0.2, -0.4, 0.5, 1.3}, {0.7}, {1.4}};

// Differences of the sum of an output by each element of an input.
void check_by_differences(const Module& m, const std::string& of, size_t input, const std::string& derivative) {
  const std::vector<double> got = output(m, kAt, derivative);
  REQUIRE(got.size() == kAt[input].size());
  for (size_t k = 0; k < got.size(); ++k) {
    double difference = 0;
    constexpr double kStep = 1e-5;
    for (double side : {1.0, -1.0}) {
      auto at = kAt;
      at[input][k] += side * kStep;
      for (double v : output(m, at, of)) difference += side * v / (2 * kStep);
    }
    CHECK(std::abs(got[k] - difference) <= 1e-6 * (1 + std::abs(difference)));
  }
}

}  // namespace

TEST_CASE("forces are the gradient of the energy, and a loss on them has one by positions and parameters") {
  Diagnostics d;
  const auto m = parse_text(kEnergy, d);
  REQUIRE_MESSAGE(m, d.text());
  apply(*m, {"grad energy", "wrt positions"});
  check_by_differences(*m, "energy", 0, "grad:positions");

  // sum((gradient + 0.3)^2): forces of 0.3 everywhere are what the potential shall give.
  Graph& g = m->main();
  Builder b(g);
  const Term off = Term{&b, g.outputs()[1]} + 0.3, loss = transform::sum(off * off, {0, 1}, false);
  g.add_output(loss.v, m->symbol("loss"));
  apply(*m, {"grad loss", "wrt positions,depth,width"});
  check_by_differences(*m, "loss", 0, "grad2:positions");
  check_by_differences(*m, "loss", 1, "grad:depth");
  check_by_differences(*m, "loss", 2, "grad:width");
}
