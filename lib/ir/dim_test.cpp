#include "ir/dim.h"

#include <doctest/doctest.h>

using namespace rlxc;

TEST_CASE("dims have one normal form") {
  DimTable t;
  const Dim s = t.symbol("seq"), b = t.symbol("batch");
  CHECK(t.add(s, Dim(1)) == t.add(Dim(1), s));
  CHECK(t.mul(b, t.add(s, s)) == t.mul(Dim(2), t.mul(s, b)));
  CHECK(t.text(t.add(t.mul(Dim(2), s), Dim(1))) == "2*seq+1");
  CHECK(t.sub(t.add(s, Dim(3)), s) == Dim(3));
  CHECK(t.floor_div(t.mul(b, t.mul(s, Dim(64))), t.mul(b, Dim(64))) == s);
  CHECK(t.text(t.floor_div(t.add(t.mul(Dim(4), s), Dim(3)), Dim(2))) == "2*seq+1");
  CHECK(t.mod(t.mul(Dim(8), s), Dim(4)) == Dim(0));
  CHECK(t.max(t.add(s, Dim(2)), s) == t.add(s, Dim(2)));
}

TEST_CASE("without its remainder a dim divides, whatever its sign") {
  DimTable t;
  const Dim s = t.symbol("seq"), less = t.sub(Dim(1), s);
  for (const Dim d : {t.add(s, Dim(1)), less}) {
    const Dim even = t.sub(d, t.mod(d, Dim(2)));
    CHECK(t.divides(Dim(2), even));
    CHECK(t.floor_div(even, Dim(2)) == t.floor_div(d, Dim(2)));
    CHECK(t.divides(Dim(2), t.add(even, Dim(4))));
    CHECK_FALSE(t.divides(Dim(2), t.add(even, Dim(1))));
    CHECK_FALSE(t.divides(Dim(3), even));
    for (int64_t n : {1, 2, 5})
      CHECK(t.evaluate(t.floor_div(even, Dim(2)), {{"seq", n}}) == t.evaluate(t.floor_div(d, Dim(2)), {{"seq", n}}));
  }
}

TEST_CASE("max, min and mod of multiples are multiples") {
  DimTable t;
  const Dim s = t.symbol("seq"), four = t.mul(Dim(4), s), six = t.mul(Dim(6), s);
  CHECK(t.divides(Dim(4), t.max(four, Dim(24))));
  CHECK(t.divides(Dim(2), t.min(four, t.add(six, Dim(2)))));
  CHECK_FALSE(t.divides(Dim(4), t.max(four, six)));
  CHECK(t.divides(Dim(3), t.mod(six, Dim(9))));
  CHECK_FALSE(t.divides(Dim(3), t.mod(six, Dim(8))));
  CHECK(t.divides(Dim(12), t.mul(t.max(four, Dim(8)), six)));
  CHECK_FALSE(t.is_multiple(t.floor_div(t.add(four, Dim(1)), Dim(3)), 2));
  Dim deep = t.max(four, Dim(8));
  for (int i = 0; i < 4; ++i) deep = t.min(t.add(deep, Dim(4)), t.max(t.mul(deep, Dim(3)), Dim(400)));
  CHECK(t.is_multiple(deep, 4));
}

TEST_CASE("negative scalars are exact") {
  DimTable t;
  const Dim m = t.constant(-3);
  CHECK(t.constant_value(m) == -3);
  CHECK(t.add(m, Dim(5)) == Dim(2));
  CHECK(t.floor_div(t.constant(-7), Dim(2)) == t.constant(-4));
}

TEST_CASE("dims print and parse back") {
  DimTable t;
  const Dim s = t.symbol("seq"), odd = t.symbol("a b\"c");
  for (Dim d : {t.add(t.mul(Dim(3), t.mul(s, s)), t.sub(odd, Dim(7))), t.floor_div(s, Dim(3)), t.mod(t.add(s, Dim(1)), odd),
                Dim(12), t.constant(-2), t.min(s, Dim(128))}) {
    CAPTURE(t.text(d));
    REQUIRE(t.parse(t.text(d)).has_value());
    CHECK(*t.parse(t.text(d)) == d);
  }
  CHECK_FALSE(t.parse("2*").has_value());
  CHECK_FALSE(t.parse(std::string(1000, '(')).has_value());
}

TEST_CASE("the text of a dim is one line, whatever its symbols are") {
  DimTable t;
  for (const char* name : {"a\nb", "\r", "x\\", "\u2028", "?\?/", "\x1b[2J", "\xff"}) {
    const std::string text = t.text(t.add(t.symbol(name), Dim(1)));
    CHECK(text.ends_with("\"+1"));
    for (char c : text) CHECK(static_cast<unsigned char>(c) >= ' ');
  }
}

TEST_CASE("recorded equalities decide, and impossible ones are refused") {
  DimTable t;
  const Dim a = t.symbol("a"), b = t.symbol("b"), c = t.symbol("c");
  CHECK_FALSE(t.equal(a, b));
  CHECK(t.assume_equal(b, a));
  CHECK(t.equal(t.mul(b, Dim(2)), t.add(a, a)));
  CHECK(t.assume_equal(c, t.add(b, Dim(1))));
  CHECK(t.equal(c, t.add(a, Dim(1))));
  CHECK_FALSE(t.assume_equal(a, t.add(a, Dim(1))));
  CHECK_FALSE(t.assume_equal(Dim(2), Dim(3)));
  CHECK_FALSE(t.assume_equal(t.mul(a, Dim(12)), Dim(18)));
}

TEST_CASE("a function that equals the symbol it is of is that symbol, at any depth") {
  DimTable t;
  const Dim s = t.symbol("seq"), least = t.min(s, Dim(64));
  CHECK(t.assume_equal(least, s));
  CHECK(t.equal(t.add(t.min(least, Dim(64)), Dim(1)), t.add(s, Dim(1))));
  CHECK_FALSE(t.equal(t.min(s, Dim(32)), s));
  CHECK(t.assume_equal(s, t.symbol("n")));
  CHECK(t.equal(least, t.symbol("n")));
}

TEST_CASE("an equality that no substitution expresses is recorded once") {
  DimTable t;
  const Dim s = t.max(t.symbol("a"), t.symbol("b")), least = t.min(s, Dim(64));
  for (int i = 0; i < 3; ++i) {
    CHECK(t.assume_equal(least, s));
    CHECK(t.assume_equal(s, least));
  }
  CHECK(t.equalities() == std::vector<std::pair<Dim, Dim>>{{least, s}});
}

TEST_CASE("binding evaluates, and overflow is no value") {
  DimTable t;
  const Dim s = t.symbol("seq");
  const Dim e = t.floor_div(t.add(s, Dim(5)), Dim(2));
  CHECK(t.evaluate(e, {{"seq", 4}}) == 4);
  CHECK_FALSE(t.evaluate(e, {}).has_value());
  CHECK(t.bind(e, {{"seq", 7}}) == Dim(6));
  const Dim big = t.mul(s, t.mul(s, s));
  CHECK_FALSE(t.evaluate(big, {{"seq", int64_t{1} << 40}}).has_value());
  const Dim lowest = t.mul(s, t.sub(Dim(0), Dim(int64_t{1} << 56)));
  const Dim quotient = t.floor_div(lowest, t.sub(s, Dim(129)));
  CHECK(t.evaluate(lowest, {{"seq", 128}}) == INT64_MIN);
  CHECK_FALSE(t.evaluate(quotient, {{"seq", 128}}).has_value());  // -2^63 / -1
  CHECK(t.symbols_of(t.mul(s, t.symbol("batch"))) == std::vector<std::string>{"batch", "seq"});
}

TEST_CASE("a power that is squared again and again is not written out") {
  DimTable t;
  const Dim n = t.symbol("n");
  Dim power = n;
  for (int i = 0; i < 8; ++i) power = t.mul(power, power);
  CHECK(t.evaluate(power, {{"n", 1}}) == 1);
  CHECK(t.weight(power) == 256);
  for (int i = 0; i < 60; ++i) power = t.mul(power, power);
  CHECK(t.weight(power) <= 256);
  CHECK_FALSE(t.equal(power, n));
}

TEST_CASE("functions nested deeply take linear time") {
  DimTable t;
  REQUIRE(t.assume_equal(t.symbol("a"), t.add(t.symbol("b"), Dim(1))));
  Dim d = t.symbol("a");
  for (int i = 0; i < 60; ++i) d = t.max(t.min(t.add(d, t.symbol("s" + std::to_string(i))), t.symbol("limit")), t.symbol("b"));
  CHECK_FALSE(t.equal(d, t.symbol("limit")));
}
