#include "kernel/simplify.h"

#include <doctest/doctest.h>

#include "kernel/verify.h"
#include "support/kernel_text.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::test;

namespace {

// Returns the value of the kernel's only store, after simplify_indices.
std::string simplified(const IndexFn& f) {
  Kernel k = index_kernel(f);
  simplify_indices(k);
  for (const std::string& line : lines(k))
    if (line.starts_with("y[")) return line.substr(line.find(" = ") + 3);
  return "";
}

}  // namespace

TEST_CASE("indices: quotients and remainders of sums whose parts divide") {
  CHECK(simplified([](Expr i, Expr j, Expr) { return (i * 8 + j) / lit(i, 8); }) == "i");
  CHECK(simplified([](Expr i, Expr j, Expr) { return (i * 8 + j) % lit(i, 8); }) == "j");
  CHECK(simplified([](Expr i, Expr j, Expr) { return (i * 16 + j * 2 + 1) / lit(i, 2); }) == "add(mul(i, 8), j)");
  CHECK(simplified([](Expr i, Expr, Expr) { return i / lit(i, 2) / lit(i, 3); }) == "0");
  CHECK(simplified([](Expr, Expr, Expr n) { return n / lit(n, 4) / lit(n, 5); }) == "div(n, 20)");
  CHECK(simplified([](Expr, Expr, Expr n) { return n % lit(n, 12) % lit(n, 4); }) == "mod(n, 4)");
  CHECK(simplified([](Expr i, Expr j, Expr) { return i + j - i; }) == "j");
}

TEST_CASE("indices: what may be negative or does not divide stays") {
  CHECK(simplified([](Expr i, Expr j, Expr) { return (i * 8 - j) / lit(i, 8); }) == "div(sub(mul(i, 8), j), 8)");
  CHECK(simplified([](Expr, Expr, Expr n) { return n % lit(n, 12) % lit(n, 5); }) == "mod(mod(n, 12), 5)");
  CHECK(simplified([](Expr i, Expr j, Expr) { return (i * 7 + j) / lit(i, 7); }) != "i");
}

TEST_CASE("indices: minima, comparisons and branches that are known") {
  CHECK(simplified([](Expr i, Expr, Expr) { return min(i, lit(i, 5)); }) == "i");
  CHECK(simplified([](Expr i, Expr, Expr) { return min(i, lit(i, 4)); }) == "min(i, 4)");
  CHECK(simplified([](Expr i, Expr j, Expr) { return select(j < lit(j, 8), i, j); }) == "i");
  CHECK(simplified([](Expr i, Expr j, Expr) { return select(j < lit(j, 7), i, j); }) == "select(lt(j, 7), i, j)");

  kernel::Builder b("k");
  const Buf y = b.output("y", DType::I64, 8);
  b.loop("i", 8, [&](Expr i) {
    b.when(i < lit(i, 4), [&] {
      b.when(
          i < lit(i, 6), [&] { y.store(i, i); }, [&] { y.store(i, i + 1); });
    });
  });
  Kernel k = b.finish();
  simplify_indices(k);
  CHECK(has_line(k, "if lt(i, 4) {"));
  CHECK_FALSE(has_line(k, "if lt(i, 6) {"));
  CHECK(has_line(k, "y[i] = i"));
  CHECK_FALSE(has_line(k, "y[i] = add(i, 1)"));
}

TEST_CASE("indices: loops of one iteration and of none") {
  kernel::Builder b("k");
  const Buf y = b.output("y", DType::I64, 2);
  b.loop("once", 1, [&](Expr i) { y.store(i, i + 7); });
  b.loop("never", 0, [&](Expr i) { y.store(i + 1, i); });
  Kernel k = b.finish();
  CHECK(simplify_indices(k) > 0);
  CHECK(has_line(k, "y[once] = 7"));
  CHECK_FALSE(has_line(k, "for once < 1 {"));
  CHECK_FALSE(has_line(k, "for never < 0 {"));
}

TEST_CASE("lets: copies are followed and what nothing uses goes") {
  kernel::Builder b("k");
  const Expr n = b.symbol("n", 0, 100);
  const Buf y = b.output("y", DType::I64, 1);
  const Expr used = b.let("used", n + 1);
  b.let("unused", used * 2);
  y.store(0, used);
  Kernel k = b.finish();
  CHECK(remove_dead_lets(k) == 1);
  CHECK(has_line(k, "used = add(n, 1)"));
  CHECK_FALSE(has_line(k, "unused = mul(used, 2)"));
}

TEST_CASE("registers that nothing reads go, with what is stored in them") {
  kernel::Builder b("k");
  const Buf y = b.output("y", DType::I64, 4);
  const Buf written = b.variable("written", b.i64(1)), read = b.variable("read", b.i64(2));
  b.loop("i", b.i64(4), [&](const Expr& i) {
    y.store(i, read.get());
    written.set(i), read.set(i + 1);
  });
  const Buf chain = b.variable("chain", read.get());
  b.let("unused", chain.get() + 1);
  Kernel k = b.finish();
  CHECK(remove_dead_lets(k) == 8);
  CHECK_FALSE(has_line(k, "chain[0] = load<i64>(read, 0)"));
  CHECK_FALSE(has_line(k, "written[0] = i"));
  CHECK(has_line(k, "read[0] = add(i, 1)"));
}

TEST_CASE("reads of mutable memory go to their one use, but not past a store") {
  kernel::Builder b("k");
  const Buf x = b.inout("x", DType::F32, 4);
  const Expr first = x[0];
  x.store(1, first + 1);  // the read moves here
  const Expr second = x[1];
  x.store(2, b.f32(5));
  x.store(3, second);  // but not past this store
  Kernel k = b.finish();
  CHECK(sink_reads(k) == 1);
  CHECK(has_line(k, "x[1] = add(load<f32>(x, 0), 1f32)"));
  CHECK(has_line(k, "x_at_2 = load<f32>(x, 1)"));
  CHECK(has_line(k, "x[3] = x_at_2"));
}

TEST_CASE("deep expressions are split into named parts") {
  kernel::Builder b("k");
  const Buf x = b.input("x", DType::F32, 64), y = b.output("y", DType::F32, 1);
  Expr sum = x[0];
  for (int i = 1; i < 64; ++i) sum = sum + x[i];
  y.store(0, sum);
  Kernel k = b.finish();
  CHECK(split_deep(k, 16) == 4);
  CHECK(verify(k).empty());
  CHECK(split_deep(k, 16) == 0);
}

TEST_CASE("i64 arithmetic that fits becomes i32, and what may not stays") {
  Kernel k = index_kernel([](Expr i, Expr j, Expr n) { return i * j + n; });
  CHECK(narrow_indices(k) > 0);
  CHECK(verify(k).empty());
  for (const Var& v : k.vars) CHECK(v.type == kernel::Type(DType::I32));

  Kernel wide = index_kernel([](Expr i, Expr, Expr n) { return n * (int64_t{1} << 40) + i; });
  const std::vector<int64_t> expected = stored(wide, 9);
  narrow_indices(wide);
  CHECK(stored(wide, 9) == expected);
}

TEST_CASE("compact drops expressions that no statement uses") {
  Kernel k = index_kernel([](Expr i, Expr j, Expr n) { return i + j + n; });
  const std::string text = to_text(k);
  const size_t used = k.exprs.size();
  constant_int(&k, DType::I64, 123456);
  compact(k);
  CHECK(k.exprs.size() <= used);
  CHECK(to_text(k) == text);
}

TEST_CASE("random index expressions keep their values through every pass") {
  Random r(5);
  for (int round = 0; round < 200; ++round) {
    const Random before = r;
    const auto make = [&](Expr i, Expr j, Expr n) {
      r = before;
      return random_index(r, 4, i, j, n);
    };
    const Kernel k = index_kernel(make);
    REQUIRE(verify(k).empty());
    const int64_t n = r.integer(0, 100);
    const std::vector<int64_t> expected = stored(k, n);
    for (auto pass : {+[](Kernel& x) { return simplify_indices(x); }, +[](Kernel& x) { return name_shared(x); },
                      +[](Kernel& x) { return split_deep(x, 3); }, +[](Kernel& x) { return simplify(x); },
                      +[](Kernel& x) { return simplify(x) + narrow_indices(x); }}) {
      Kernel copy = k;
      pass(copy);
      INFO(to_text(k), to_text(copy));
      for (const std::string& problem : verify(copy)) FAIL_CHECK(problem);
      CHECK(stored(copy, n) == expected);
    }
  }
}
