#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("named parameters become inputs after the declared ones, and keep name and type") {
  PassFixture f;
  const ValueId x = f32_input(f.b, "x", {2, 3}), w = f32_param(f.b, "w", {3, 2}), v = f32_param(f.b, "v", {2});
  f.g.add_output(f.b.add(f.b.matmul(x, w), v), {});
  f.run.options.promoted_params = {"v"};
  CHECK(f.run(f.m, "promote_params").changed);
  REQUIRE(f.g.inputs().size() == 2);
  CHECK(f.m.text(f.g.value_name(f.g.result(f.g.inputs()[1]))) == "v");
  CHECK(ops(f.g) == "input param input matmul add");
  CHECK_FALSE(f.run(f.m, "promote_params").changed);
  CHECK(f.run.diagnostics.ok());
  f.run.options.promoted_params = {"wx"};
  f.run(f.m, "promote_params");
  CHECK(f.run.diagnostics.text().find("did you mean w?") != std::string::npos);
}
