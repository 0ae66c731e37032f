#include "ir/dim_bounds.h"

#include <doctest/doctest.h>

using namespace rlxc;

TEST_CASE("upper bounds hold for every binding in the ranges") {
  DimTable t;
  for (const char* text : {"a", "3*a*b+2", "a*a-2*b", "floordiv(7*a+63,64)", "mod(a,5)", "min(a,b)*b", "max(a,3)-b", "-1*a+20",
                           "floordiv(a*b,b+1)", "mod(a-9,b)"}) {
    const Dim d = *t.parse(text);
    const auto most = upper_bound(t, d, {{"a", {1, 9}}, {"b", {2, 4}}});
    REQUIRE(most);
    for (int64_t a = 1; a <= 9; ++a)
      for (int64_t b = 2; b <= 4; ++b)
        if (const auto value = t.evaluate(d, {{"a", a}, {"b", b}})) CHECK_MESSAGE(*value <= *most, text);
    CHECK_FALSE(upper_bound(t, t.mul(d, t.symbol("free")), {{"a", {1, 9}}, {"b", {2, 4}}}));
  }
  CHECK(upper_bound(t, *t.parse("64*floordiv(4*a+63,64)"), {{"a", {1, 100}}}) == 448);
  CHECK_FALSE(upper_bound(t, *t.parse("a*a"), {{"a", {1, int64_t{1} << 40}}}));
}
