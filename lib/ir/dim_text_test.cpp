#include <doctest/doctest.h>

#include <string>

#include "ir/dim.h"
#include "ir/dim_postfix.h"
#include "ir/dim_range.h"

using namespace rlxc;

namespace {

std::string number(int i) { return std::to_string(i); }

// max(max(n0,n1),n2) ...
Dim nested(DimTable& t, int count) {
  Dim d = t.symbol("n0");
  for (int i = 1; i < count; ++i) d = t.max(d, t.symbol("n" + number(i)));
  return d;
}

DimBindings some_sizes(int count) {
  DimBindings out;
  for (int i = 0; i < count; ++i) out["n" + number(i)] = (i * 37) % 101 + 1;
  return out;
}

// Evaluates the definitions one by one, as hosts do.
int64_t by_definitions(const DimTable& t, Dim d, const DimBindings& sizes) {
  std::map<std::string, int64_t> named;
  const auto value = [&](const std::vector<std::string>& postfix) {
    std::vector<int64_t> stack;
    for (const std::string& item : postfix) {
      if (item[0] == '$') {
        stack.push_back(sizes.at(item.substr(1)));
      } else if (item[0] == '#') {
        stack.push_back(named.at(item));
      } else if (item.size() > 1 && item[0] == '-') {
        stack.push_back(std::stoll(item));
      } else if (item[0] >= '0' && item[0] <= '9') {
        stack.push_back(std::stoll(item));
      } else {
        const int64_t b = stack.back();
        stack.pop_back();
        int64_t& a = stack.back();
        a = item == "+" ? a + b : item == "*" ? a * b : item == "max" ? std::max(a, b) : item == "min" ? std::min(a, b) : a / b;
      }
    }
    REQUIRE(stack.size() == 1);
    return stack[0];
  };
  const std::vector<Dim> whole = {d};
  for (size_t i : t.named_sizes_of(whole)) named[t.text(t.named_size(i))] = value(definition_postfix(t, t.named_size(i)));
  return value(dim_postfix(t, d));
}

}  // namespace

TEST_CASE("sizes of few symbols have no names") {
  DimTable t;
  const Dim d = nested(t, 8);
  CHECK(t.text(d) == t.terms(d));
  CHECK(t.named_sizes() == 0);
  CHECK(dim_postfix(t, d) == terms_postfix(t, d));
}

TEST_CASE("text of nested sizes is linear, and their definitions have the same value") {
  constexpr int kCount = 3000;
  DimTable t;
  Dim d = t.symbol("n0"), sum = d;
  size_t bytes = 0;
  for (int i = 1; i < kCount; ++i) {
    d = t.max(d, t.symbol("n" + number(i)));
    bytes += t.text(t.mul(d, Dim(4))).size();
    if (i < 400) sum = t.add(sum, t.mul(Dim(64), t.floor_div(d, Dim(64))));
    bytes += t.text(sum).size();
  }
  for (size_t i = 0; i < t.named_sizes(); ++i) bytes += t.definition(i).size();
  CHECK(bytes < size_t{kCount} * 2000);
  const DimBindings sizes = some_sizes(kCount);
  for (Dim each : {d, sum, t.sub(sum, d), t.mul(sum, t.add(d, Dim(1)))}) {
    const auto value = t.evaluate(each, sizes);
    REQUIRE(value.has_value());
    CHECK(by_definitions(t, each, sizes) == *value);
    CHECK(t.bind(each, sizes) == t.constant(*value));
  }
}

TEST_CASE("named sizes keep what is known of them") {
  DimTable t;
  const Dim d = nested(t, 500), more = t.add(d, Dim(1));
  CHECK(t.at_least(d, 1));
  CHECK(t.max(d, t.symbol("n499")) == d);
  CHECK(t.sub(more, d) == Dim(1));
  CHECK(t.is_multiple(t.mul(d, Dim(64)), 64));
  CHECK(t.is_multiple(t.max(t.mul(d, Dim(64)), t.mul(t.symbol("k"), Dim(64))), 64));
  CHECK(t.symbols_of(d).size() == 500);
  SymbolRanges ranges;
  for (int i = 0; i < 500; ++i) ranges["n" + number(i)] = {Dim(i), Dim(1000 + i)};
  CHECK(range_of(t, more, ranges).low == Dim(500));
  CHECK(range_of(t, more, ranges).high == Dim(1500));
  Dim same = t.symbol("n0");
  for (int i = 1; i < 500; ++i) same = t.max(same, t.symbol("n" + number(i == 7 ? 1000 : i)));
  CHECK_FALSE(t.equal(d, same));
  REQUIRE(t.assume_equal(t.symbol("n7"), t.symbol("n1000")));
  CHECK(t.equal(d, same));
}

TEST_CASE("definitions mention no symbol that a size lacks") {
  DimTable t;
  Dim sum = t.symbol("a0");
  for (int i = 1; i < 200; ++i) sum = t.add(sum, t.symbol("a" + number(i)));
  const Dim rest = t.sub(t.add(sum, t.symbol("b")), t.symbol("a3"));
  const std::vector<Dim> whole = {rest};
  std::string all = t.text(rest);
  for (size_t i : t.named_sizes_of(whole)) all += " " + t.definition(i) + " ";
  CHECK(t.symbols_of(rest).size() == 200);
  CHECK(all.find("a3+") == all.npos);
  CHECK(t.evaluate(rest, some_sizes(1)) == std::nullopt);
}

TEST_CASE("texts with definitions are read as they were written") {
  DimTable t;
  Dim d = nested(t, 400), sum = t.symbol("k");
  for (int i = 0; i < 200; ++i) sum = t.add(sum, t.mul(t.symbol("k" + number(i)), d));
  sum = t.mul(t.sub(sum, d), t.sub(t.symbol("k"), Dim(1)));
  const std::vector<Dim> whole = {sum, d};
  DimBindings sizes = some_sizes(400);
  sizes["k"] = 2;
  for (int i = 0; i < 200; ++i) sizes["k" + number(i)] = i % 7;
  DimTable read;
  for (size_t i : t.named_sizes_of(whole)) {
    CAPTURE(t.definition(i));
    REQUIRE(read.define(t.text(t.named_size(i)), t.definition(i)));
  }
  for (Dim each : whole) {
    const auto again = read.parse(t.text(each));
    REQUIRE(again.has_value());
    CHECK(read.evaluate(*again, sizes) == t.evaluate(each, sizes));
    const std::vector<Dim> one = {*again}, own = {each};
    std::vector<std::string> first, second;
    for (size_t i : t.named_sizes_of(own)) first.push_back(t.text(t.named_size(i)));
    for (size_t i : read.named_sizes_of(one)) second.push_back(read.text(read.named_size(i)));
    CHECK(first == second);
  }
  CHECK_FALSE(read.parse("#99999").has_value());
  CHECK(read.parse("\"#0\"") == read.symbol("#0"));
  CHECK_FALSE(read.define("0", "n"));
  CHECK_FALSE(read.define("#1x", "n"));
  CHECK_FALSE(read.define("#1", "max("));
  CHECK(read.define("#7", "k+1"));
  CHECK(read.parse("2*#7") == read.add(read.mul(Dim(2), read.symbol("k")), Dim(2)));
}
