#include "ir/region.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ir/verify.h"

using namespace rlxc;

namespace {

// A ReduceRegion of x [3,4] and y [3,1], not verified.
std::unique_ptr<Module> region(const std::string& steps, const std::string& axes, const std::string& type, Diagnostics& d) {
  return parse_text(
      "module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[3,4]\n  %1 = input \"y\" : f32[3,1]\n"
      "  %2 = reduce_region(%0, %1) {steps = [" +
          steps + "], axes = [" + axes + "]} : " + type + "\n  return %2\n}\n}\n",
      d);
}

}  // namespace

TEST_CASE("a row is walked once for all reductions that are known by then, and at last for the result") {
  Diagnostics d;
  const auto m = region(R"("mul(i0,i1):f32", "reduce_max(s0):f32", "reduce_sum(i0):f32", "sub(s0,s1):f32", "exp(s3):f32",
                           "reduce_sum(s4):f32", "add(s5,s2):f32", "div(s4,s6):f32")",
                        "1", "f32[3,4]", d);
  REQUIRE(m);
  REQUIRE_MESSAGE(verify(*m, d), d.text());
  const Graph& g = m->main();
  const NodeId n = g.def(g.outputs()[0]);
  CHECK(whole_dims(g, n) == std::vector{Dim(3), Dim(4)});
  const std::vector<bool> varying = varying_steps(g, n);
  CHECK(varying == std::vector{true, false, false, true, true, false, false, true});
  const auto walks = row_walks(g.attrs<FusionAttrs>(n).steps, varying);
  REQUIRE(walks.size() == 3);
  CHECK(walks[0].reductions == std::vector<size_t>{1, 2});
  CHECK(walks[0].steps == std::vector{true, false, false, false, false, false, false, false});
  CHECK(walks[1].reductions == std::vector<size_t>{5});
  CHECK(walks[1].steps == std::vector{true, false, false, true, true, false, false, false});
  CHECK(walks[2].reductions.empty());
  CHECK(walks[2].steps == std::vector{true, false, false, true, true, false, false, true});
}

TEST_CASE("a region around reductions says what is wrong with it") {
  struct Case {
    const char *steps, *axes, *type, *message;
  };
  for (const Case& c :
       {Case{R"("add(i0,i1):f32")", "1", "f32[3,4]", "needs a step that reduces"},
        {R"("reduce_sum(i0):f32", "mul(i0,s5):f32")", "1", "f32[3,4]", "reads a value that does not exist"},
        {R"("reduce_sum(i0):f32", "mul(i0,s0):f32")", "0", "f32[3,4]", "need the last axes"},
        {R"("reduce_sum(i0):f32", "reduce_max(i0):f32", "add(s0,s1):f32")", "0", "f32[1,4]", "need the last axes"},
        {R"("reduce_sum(i0):f32")", "1, 1", "f32[3,1]", "listed twice"},
        {R"("reduce_sum(i0):f32")", "2", "f32[3,1]", "axis 2"},
        {R"("reduce_sum(i0):f16")", "1", "f16[3,1]", "neither is elementwise nor reduces"},
        {R"("reduce_log_sum_exp(i0):f32")", "1", "f32[3,1]", "neither is elementwise nor reduces"},
        {R"("layer_norm(i0;1e-5,0):f32", "reduce_sum(s0):f32")", "1", "f32[3,1]", "neither is elementwise nor reduces"}}) {
    Diagnostics d;
    const auto m = region(c.steps, c.axes, c.type, d);
    REQUIRE(m);
    CHECK_FALSE(verify(*m, d));
    CHECK_MESSAGE(d.text().find(c.message) != std::string::npos, c.steps << ": " << d.text());
  }
}

TEST_CASE("products that are added before they are rounded to integers") {
  const auto products = [](const std::string& steps) {
    Diagnostics d;
    const auto m = parse_text(
        "module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[3,4]\n  %1 = input \"y\" : f32[]\n"
        "  %2 = elementwise_region(%0, %1) {steps = [" +
            steps + "]} : f32[3,4]\n  return %2\n}\n}\n",
        d);
    REQUIRE_MESSAGE(m, d.text());
    std::string found;
    for (const bool p : rounded_products(m->main().attrs<FusionAttrs>(m->main().def(m->main().outputs()[0])).steps))
      found += p ? '1' : '0';
    return found;
  };
  CHECK(products(R"("mul(i0,i1):f32", "mul(i0,i0):f32", "add(s0,s1):f32", "div(s2,i1):f32", "round(s3):f32")") == "11000");
  CHECK(products(R"("mul(i0,i1):f32", "round(s0):f32", "mul(s1,i1):f32", "sub(s2,i1):f32", "exp(s3):f32")") == "00000");
  CHECK(products(R"("mul(i0,i1):f32", "sub(i1,s0):f32", "cast(s1):i8", "cast(s2):f32")") == "1000");
}
