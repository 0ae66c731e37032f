#include <doctest/doctest.h>

#include "kernel/simplify.h"
#include "kernel/verify.h"
#include "support/kernel_text.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::test;

TEST_CASE("an expression with two uses is named once, before the first of them") {
  kernel::Builder b("k");
  const Buf x = b.input("x", DType::F32, 8), y = b.output("y", DType::F32, 16);
  b.loop("i", 8, [&](Expr i) {
    const Expr e = exp(x[i]);
    y.store(i, e);
    y.store(i + 8, e * 2);
  });
  Kernel k = b.finish();
  CHECK(name_shared(k) == 1);
  CHECK(position(k, "t0 = exp(load<f32>(x, i))") < position(k, "y[i] = t0"));
  CHECK(has_line(k, "y[add(i, 8)] = mul(t0, 2f32)"));
  CHECK(verify(k).empty());
  CHECK(name_shared(k) == 0);
}

TEST_CASE("what two blocks share is named in the innermost block around both") {
  kernel::Builder b("k");
  const Expr n = b.symbol("n", 1, 64);
  const Buf y = b.output("y", DType::I64, 128);
  b.loop("i", 8, [&](Expr i) {
    const Expr shared = n * n + i;
    b.loop("j", 4, [&](Expr j) { y.store(j, shared); });
    b.loop("l", 4, [&](Expr l) { y.store(l, shared); });
  });
  Kernel k = b.finish();
  CHECK(name_shared(k) == 1);
  const size_t at = position(k, "t0 = add(mul(n, n), i)");
  CHECK(position(k, "for i < 8 {") < at);
  CHECK(at < position(k, "for j < 4 {"));
}

TEST_CASE("a read moves only to where it was evaluated anyway") {
  kernel::Builder b("k");
  const Expr n = b.symbol("n", 0, 8);
  const Buf x = b.input("x", DType::F32, 8), y = b.output("y", DType::F32, 8);
  const Expr read = x[n];  // out of bounds for n == 8
  b.when(n < lit(n, 8), [&] {
    y.store(0, read + 1);
    y.store(1, read * 2);
  });
  b.when(n < lit(n, 7), [&] { y.store(2, read); });
  Kernel k = b.finish();
  name_shared(k);
  const size_t named = position(k, "t0 = load<f32>(x, n)");
  CHECK(position(k, "if lt(n, 8) {") < named);
  CHECK(named < position(k, "if lt(n, 7) {"));
  CHECK(has_line(k, "y[2] = load<f32>(x, n)"));  // no block contains both branches and certainly reads
}

TEST_CASE("reads of memory that is written are not moved, and constants are not named") {
  kernel::Builder b("k");
  const Buf x = b.inout("x", DType::F32, 4);
  const Expr c = b.f32(3);
  x.store(0, x[1] + c);
  x.store(1, x[1] + c);
  Kernel k = b.finish();
  CHECK(name_shared(k) == 0);
  CHECK(has_line(k, "x_at = load<f32>(x, 1)"));
  CHECK(has_line(k, "x_at_2 = load<f32>(x, 1)"));
}
