#include "support/interner.h"

#include <doctest/doctest.h>

#include <string>

using namespace rlxc;

TEST_CASE("a name has one symbol, numbered in the order seen") {
  Interner names;
  CHECK_FALSE(names.find("a").valid());
  const Symbol a = names.intern("a"), empty = names.intern(""), b = names.intern("b");
  CHECK(names.intern(std::string("a")) == a);
  CHECK(a.raw == 0);
  CHECK(empty.raw == 1);
  CHECK(b.raw == 2);
  CHECK(names.find("b") == b);
  CHECK(names.view(empty).empty());
  CHECK(names.size() == 3);
}

TEST_CASE("views stay put while 200,000 names and a long one arrive, and over a move") {
  Interner names;
  const std::string_view first = names.view(names.intern("first"));
  const std::string longest(1 << 20, 'x');
  const Symbol long_symbol = names.intern(longest);
  for (int i = 0; i < 200000; ++i) names.intern("/layer/" + std::to_string(i));
  Interner moved = std::move(names);
  CHECK(moved.view(Symbol(0)).data() == first.data());
  CHECK(first == "first");
  CHECK(moved.view(long_symbol) == longest);
  size_t wrong = 0;
  for (uint32_t i = 0; i < 200000; ++i) wrong += moved.find("/layer/" + std::to_string(i)) != Symbol(i + 2);
  CHECK(wrong == 0);
}

TEST_CASE("appended names have symbols of their own") {
  Interner names;
  const Symbol a = names.append("x"), b = names.append("x"), c = names.intern("x");
  CHECK(a != b);
  CHECK(b != c);
  CHECK(names.find("x") == c);
  CHECK(names.view(b) == "x");
}
