#include "kernel/builder.h"

#include <doctest/doctest.h>

#include "kernel/verify.h"
#include "support/kernel_text.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::test;

TEST_CASE("names are unique and legal in every target") {
  kernel::Builder b("k");
  for (const char* name : {"x", "x", "for", "float.4", "3d", "", "rlxc_x", "a__b", "x_2", "x"}) b.input(name, DType::F32, 1);
  const Kernel k = b.finish();
  std::vector<std::string> names;
  for (const Buffer& buffer : k.buffers) names.push_back(buffer.name);
  CHECK(names == std::vector<std::string>{"x", "x_2", "for_v", "float_4", "v3d", "v", "vrlxc_x_v", "a_b", "x_2_2", "x_3"});
}

TEST_CASE("a read of memory that the kernel writes has the value of where it is written") {
  kernel::Builder b("k");
  const Buf x = b.inout("x", DType::I64, 2);
  const Expr before = x[0];
  x.store(0, lit(before, 7));
  x.store(1, before);
  const Kernel k = b.finish();
  int64_t data[] = {3, 0};
  void* arguments[] = {data};
  CHECK(interpret(k, arguments, {}).ok());
  CHECK(data[0] == 7);
  CHECK(data[1] == 3);
}

TEST_CASE("statements nest as the calls do") {
  kernel::Builder b("k");
  const Expr n = b.symbol("n", 0, 9);
  const Buf y = b.output("y", DType::I64, n);
  const Buf sum = b.variable("sum", b.i64(0));
  b.loop("i", n, [&](Expr i) {
    b.when(
        i < lit(i, 2), [&] { sum.add(0, i); }, [&] { sum.set(i); });
    y.store(i, sum.get());
  });
  b.comment({"done", {}});
  CHECK(to_text(b.finish()) ==
        "kernel k(out y: i64[n], n: 0..9) {\n"
        "  register sum: i64[1]\n"
        "  sum[0] = 0\n"
        "  for i < n {\n"
        "    if lt(i, 2) {\n"
        "      sum_at = load<i64>(sum, 0)\n"
        "      sum[0] = add(sum_at, i)\n"
        "    } else {\n"
        "      sum[0] = i\n"
        "    }\n"
        "    sum_at_2 = load<i64>(sum, 0)\n"
        "    y[i] = sum_at_2\n"
        "  }\n"
        "  // done\n"
        "}\n");
}

TEST_CASE("equal expressions are one node, and free arithmetic is folded") {
  kernel::Builder b("k");
  const Expr n = b.symbol("n"), f = b.input("x", DType::F32, 8)[0];
  CHECK((n * 2 + 1).id == (n * 2 + 1).id);
  CHECK((n + 0).id == n.id);
  CHECK((n * 1).id == n.id);
  CHECK((0 * n).id == b.i64(0).id);
  CHECK((n % 1).id == b.i64(0).id);
  CHECK((b.i64(7) / 2).id == b.i64(3).id);
  CHECK(select(b.i64(1) < 2, n, n + 1).id == n.id);
  CHECK((f + 0).id != f.id);  // floats are not folded: -0 + 0 is 0
  CHECK((f * 1).id != f.id);
}

TEST_CASE("scalars meet vectors by broadcast") {
  kernel::Builder b("k");
  const Buf x = b.input("x", DType::F32, 8), y = b.output("y", DType::F32, 8);
  const Expr v = x.load(0, 4) * 2 + x[7];
  CHECK(v.lanes() == 4);
  y.store(0, v);
  y.store(4, ramp(b.i64(1), 2, 4).lanes() == 4 ? cast_to(ramp(b.i64(1), 2, 4), DType::F32) : v);
  const Kernel k = b.finish();
  CHECK(verify(k).empty());
  float in[] = {1, 2, 3, 4, 5, 6, 7, 100}, out[8] = {};
  void* arguments[] = {in, out};
  CHECK(interpret(k, arguments, {}).ok());
  CHECK(std::vector<float>(out, out + 8) == std::vector<float>{102, 104, 106, 108, 1, 3, 5, 7});
}
