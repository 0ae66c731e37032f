#include "ir/dim_range.h"

#include <doctest/doctest.h>

#include <random>

#include "ir/dim_postfix.h"

using namespace rlxc;

TEST_CASE("bounds of sizes hold for all values of the symbols in their ranges") {
  DimTable t;
  const SymbolRanges ranges = {{"k", {Dim(0), t.symbol("n")}}, {"j", {Dim(0), Dim(5)}}};
  std::mt19937 random(3);
  for (const std::string text : {"k", "2*k+1", "n-k", "k*j+3", "floordiv(k,2)", "mod(k,4)", "min(k,j)", "max(k,3)", "n*k-j",
                                 "floordiv(n,j+1)", "-1*floordiv(k,3)+n", "(floordiv(n,3)-2)*j", "(j-2)*(k-3)"}) {
    const Dim d = *t.parse(text);
    const DimRange r = range_of(t, d, ranges);
    REQUIRE_MESSAGE(r.low.has_value(), text);
    REQUIRE_MESSAGE(r.high.has_value(), text);
    for (int i = 0; i < 200; ++i) {
      const auto n = static_cast<int64_t>(random() % 20 + 1);
      const DimBindings all = {{"n", n},
                               {"k", static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1))},
                               {"j", static_cast<int64_t>(random() % 6)}};
      const int64_t v = *t.evaluate(d, all);
      CHECK_MESSAGE((*t.evaluate(*r.low, {{"n", n}}) <= v && v <= *t.evaluate(*r.high, {{"n", n}})), text << " = " << v);
    }
  }
}

TEST_CASE("a size that is nothing but a symbol has its name, whatever that is") {
  DimTable t;
  const Dim s = t.symbol("seq"), odd = t.symbol("a b\"c + 1");
  CHECK(symbol_name(t, s) == "seq");
  CHECK(symbol_name(t, odd) == "a b\"c + 1");
  for (Dim d : {t.add(s, s), t.mul(s, odd), t.floor_div(s, Dim(3)), t.add(odd, Dim(1)), Dim(12)}) CHECK_FALSE(symbol_name(t, d));
}

TEST_CASE("what has no bound is absent; symbols without a range stay") {
  DimTable t;
  const SymbolRanges ranges = {{"k", {Dim(0), std::nullopt}}};
  CHECK_FALSE(range_of(t, *t.parse("k+n"), ranges).high);
  CHECK(range_of(t, *t.parse("min(k,n)"), ranges).high == t.symbol("n"));
  CHECK(exact_value(range_of(t, *t.parse("2*n+1"), ranges)) == t.parse("2*n+1"));
  CHECK(t.text(substitute(t, *t.parse("2*k+min(k,n)"), {{"k", *t.parse("3*m")}})) == t.text(*t.parse("6*m+min(3*m,n)")));
}
