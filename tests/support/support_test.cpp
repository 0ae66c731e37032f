#include <doctest/doctest.h>

#include "support/golden.h"
#include "support/random.h"

using namespace rlxc::test;

TEST_CASE("the diff of golden files shows the differing middle") {
  CHECK(small_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\ne\nf\n") == "@@ line 4 @@\n a\n b\n c\n-d\n+X\n e\n f\n");
  CHECK(small_diff("a\n", "a\nb\n") == "@@ line 2 @@\n a\n+b\n");
  CHECK(small_diff("", "x") == "@@ line 1 @@\n+x\n\\ no line feed at the end\n");
  CHECK(small_diff("a\na\n", "a\n") == "@@ line 2 @@\n a\n-a\n");
}

TEST_CASE("the test generator gives the published sequence and fills its ranges") {
  Random random(1234567);
  CHECK(random.bits() == 6457827717110365317u);
  CHECK(random.bits() == 3203168211198807973u);
  double sum = 0, squares = 0;
  for (float x : random.normal_floats(100000)) sum += x, squares += x * x;
  CHECK(std::abs(sum / 100000) < 0.02);
  CHECK(std::abs(squares / 100000 - 1) < 0.02);
  int seen[5] = {};
  for (int i = 0; i < 1000; ++i) ++seen[random.integer(-2, 2) + 2];
  for (int n : seen) CHECK(n > 120);
  CHECK(random.integer(INT64_MIN, INT64_MAX) != random.integer(INT64_MIN, INT64_MAX));
}
