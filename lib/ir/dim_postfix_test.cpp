#include "ir/dim_postfix.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace rlxc;

TEST_CASE("dims are expressions of Python") {
  DimTable dims;
  CHECK(dim_python(dims, *dims.parse("2*seq+1"), "n") == "((2 * n['seq']) + 1)");
  CHECK(dim_python(dims, *dims.parse("floordiv(seq,2)"), "n") == "(n['seq'] // 2)");
}

TEST_CASE("no Python expression of a dim is nested more deeply than Python's parser takes") {
  DimTable dims;
  Dim d = *dims.parse("n"), product = d;
  for (int i = 0; i < 20; ++i) d = dims.max(dims.add(dims.floor_div(d, Dim(2)), Dim(3)), *dims.parse("b"));
  for (int i = 0; i < 60; ++i) product = dims.mul(product, *dims.parse("n"));
  for (const std::string& text : {dim_python(dims, d, "n"), dim_python(dims, product, "n")}) {
    int depth = 0, deepest = 0;
    for (char c : text) {
      depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
      deepest = std::max(deepest, depth);
    }
    CHECK(depth == 0);
    CHECK(deepest < 50);
    CHECK(text.starts_with("[_0 := "));
    CHECK(text.ends_with("][-1]"));
  }
}
