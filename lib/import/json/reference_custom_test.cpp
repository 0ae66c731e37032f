// Functions of the reference format that bring derivatives of their own.
#include "support/reference_run.h"
#include "transform/stage.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// x*x, whose vjp_body says x*g*y and whose jvp_body says t*y: neither is the derivative.
std::vector<Reals> derived(const std::vector<std::string>& words, const std::vector<HostValue>& in) {
  const std::string square = ReferenceLines().input("x", {2}).add(R"({"Binary":"Mul"})", {0, 0}, {2}).graph();
  const std::string back = ReferenceLines()
                               .input("x", {2})
                               .input("primal_output", {2})
                               .input("d_output", {2})
                               .add(R"({"Binary":"Mul"})", {0, 2}, {2})
                               .add(R"({"Binary":"Mul"})", {3, 1}, {2})
                               .graph();
  const std::string forward = ReferenceLines()
                                  .input("x", {2})
                                  .input("tangent_0", {2})
                                  .input("primal_output", {2})
                                  .add(R"({"Binary":"Mul"})", {1, 2}, {2})
                                  .graph();
  const std::string op =
      R"({"CustomFn":{"fwd_body":)" + square + R"(,"vjp_body":)" + back + R"(,"jvp_body":)" + forward + R"(,"num_inputs":1}})";
  Diagnostics d;
  const auto m = import_json::parse_json(ReferenceLines().input("x", {2}).add(op, {0}, {2}).graph(), "", {}, d);
  REQUIRE_MESSAGE(m, d.text());
  m->main().set_output_name(0, m->symbol("y"));
  transform::Ledger ledger;
  const auto steps = transform::parse_steps(words, d);
  REQUIRE_MESSAGE((steps && transform::apply_steps(*m, *steps, nullptr, &ledger, d) && verify(*m, d)), d.text());
  const auto out = eval::evaluate(*m, in, d);
  REQUIRE_MESSAGE(out, d.text());
  std::vector<Reals> all;
  for (const auto& v : *out) all.push_back(numbers(v));
  return all;
}

}  // namespace

TEST_CASE("vjp_body and jvp_body are the derivatives") {
  const HostValue x = tensor_of(DType::F32, {2}, {3, 5}), t = tensor_of(DType::F32, {2}, {1, 2});
  const auto gradient = derived({"grad y", "wrt x"}, {x});
  CHECK(gradient == std::vector<Reals>{{9, 25}, {27, 125}});  // x * g * y
  const auto tangent = derived({"jvp x"}, {x, t});
  CHECK(tangent == std::vector<Reals>{{9, 25}, {9, 50}});  // t * y
}
