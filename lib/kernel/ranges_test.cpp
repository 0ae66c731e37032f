#include "kernel/ranges.h"

#include <doctest/doctest.h>

#include "support/kernel_text.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::test;

namespace rlxc::kernel {
static bool operator==(const Interval& a, const Interval& b) { return a.min == b.min && a.max == b.max; }
}  // namespace rlxc::kernel

namespace {

// Symbols 2 <= n <= 10 and -3 <= m <= 4 of a kernel.
struct Symbols {
  kernel::Builder b{"k"};
  Expr n = b.symbol("n", 2, 10), m = b.symbol("m", -3, 4);
  Ranges of() { return Ranges(*b.kernel()); }
  Interval of(Expr e) { return of().of(e.id); }
};

}  // namespace

TEST_CASE("intervals of arithmetic") {
  Symbols s;
  CHECK(s.of(s.n + s.m) == Interval{-1, 14});
  CHECK(s.of(s.n - s.m) == Interval{-2, 13});
  CHECK(s.of(s.n * s.m) == Interval{-30, 40});
  CHECK(s.of(-s.m) == Interval{-4, 3});
  CHECK(s.of(s.n / lit(s.n, 3)) == Interval{0, 3});
  CHECK(s.of(s.n % lit(s.n, 4)) == Interval{0, 3});
  CHECK(s.of(s.n % lit(s.n, 20)) == Interval{2, 10});
  CHECK(s.of(min(s.n, s.m)) == Interval{-3, 4});
  CHECK(s.of(max(s.n, s.m)) == Interval{2, 10});
  CHECK(s.of(select(s.n < s.m, s.n, s.m)) == Interval{-3, 10});
  CHECK(s.of(ramp(s.n, 2, 4)) == Interval{2, 16});
}

TEST_CASE("quotients and remainders of what may be negative are unknown") {
  Symbols s;
  CHECK_FALSE(s.of(s.m / lit(s.m, 2)).bounded());
  CHECK_FALSE(s.of(s.m % lit(s.m, 2)).bounded());
}

TEST_CASE("arithmetic saturates") {
  Symbols s;
  const Expr huge = s.n * lit(s.n, INT64_MAX);
  CHECK(s.of(huge).max == Interval::kMax);
  CHECK(s.of(huge + 1).max == Interval::kMax);
  CHECK(s.of(lit(s.n, 0) - huge).min == Interval::kMin);
}

TEST_CASE("conditions narrow what they bound, until the scope closes") {
  Symbols s;
  const Expr below = s.n < lit(s.n, 5), both = below & (s.m >= lit(s.m, 0));
  Ranges r = s.of();
  r.open();
  r.assume(both.id, true);
  CHECK(r.of(s.n.id) == Interval{2, 4});
  CHECK(r.of(s.m.id) == Interval{0, 4});
  CHECK(r.of((s.n + s.m).id) == Interval{2, 8});
  r.close();
  CHECK(r.of(s.n.id) == Interval{2, 10});
  r.open();
  r.assume(below.id, false);
  CHECK(r.of(s.n.id) == Interval{5, 10});
  r.close();
  r.open();
  r.assume(both.id, false);  // at least one is false, but not known which
  CHECK(r.of(s.n.id) == Interval{2, 10});
  r.close();
}

TEST_CASE("loop variables lie below the extent, and impossible conditions leave nothing") {
  Symbols s;
  s.b.loop("i", s.n, [&](Expr i) {
    Ranges r(*s.b.kernel());
    r.open();
    r.bind_loop(s.b.kernel()->body[0]);
    CHECK(r.of(i.id) == Interval{0, 9});
    r.assume((i < lit(i, 0)).id, true);
    CHECK(r.of(i.id).empty());
  });
}

TEST_CASE("random expressions: every value lies in the interval") {
  Random r(11);
  for (int round = 0; round < 300; ++round) {
    Interval found;
    const Kernel k = index_kernel([&](Expr i, Expr j, Expr n) {
      const Expr e = random_index(r, 4, i, j, n);
      Ranges ranges(*e.kernel);
      const Stmt& outer = e.kernel->body[0];
      ranges.open();
      ranges.bind_loop(outer);
      ranges.bind_loop(outer.body[0]);
      found = ranges.of(e.id);
      return e;
    });
    for (int64_t n : {int64_t{0}, int64_t{100}, r.integer(1, 99)})
      for (int64_t v : stored(k, n)) {
        CHECK(v >= found.min);
        CHECK(v <= found.max);
      }
  }
}
