#include "report/arena_svg.h"

#include <doctest/doctest.h>

#include "support/bump_plan.h"
#include "support/deep_module.h"
#include "support/example_module.h"
#include "support/golden.h"
#include "support/xml.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("the arena as a picture") {
  const std::string svg = report::arena_svg(bump_lir(example_module()));
  CHECK(is_well_formed(svg));
  check_golden("report/arena.svg", svg);
  CHECK(svg.find("fc1 &lt;&amp;&quot;1&quot;&gt;") != svg.npos);
}

TEST_CASE("a symbolic arena is drawn for stated sizes") {
  const std::string svg = report::arena_svg(bump_lir(example_module(true)));
  CHECK(is_well_formed(svg));
  CHECK(svg.find("drawn for batch=128") != svg.npos);
}

TEST_CASE("an arena of very many tensors stays small") {
  const std::string svg = report::arena_svg(bump_lir(deep_module(20000)));
  CHECK(is_well_formed(svg));
  CHECK(svg.size() < 4'000'000);
  CHECK(svg.find("small slots") != svg.npos);
  // The centred label of the last step is inside the page.
  const std::string step = "class=\"step\" x=\"";
  const size_t last = svg.rfind(step) + step.size();
  CHECK(std::stod(svg.substr(last, 8)) + 24 <= 1308);
}

TEST_CASE("an empty graph and sizes beyond 4 GiB have pictures") {
  CHECK(is_well_formed(report::arena_svg(bump_lir(std::make_unique<Module>()))));
  auto m = std::make_unique<Module>("large");
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(int64_t{1} << 34)}));
  m->main().add_output(b.unary(OpKind::Tanh, b.unary(OpKind::Exp, x)), {});
  const std::string svg = report::arena_svg(bump_lir(std::move(m)));
  CHECK(svg.find("64.0 GiB (68,719,476,736 bytes) at offset 68,719,476,736") != svg.npos);
}
