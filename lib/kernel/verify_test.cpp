#include "kernel/verify.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "kernel/builder.h"

using namespace rlxc;
using namespace rlxc::kernel;

namespace {

// Returns the errors of a kernel over these buffers: f32 x [8] to read, f32 y [8] to write.
std::string problems(const std::function<void(kernel::Builder&, Buf x, Buf y)>& body, const VerifyLimits& limits = {}) {
  kernel::Builder b("k");
  const Buf x = b.input("x", DType::F32, 8), y = b.output("y", DType::F32, 8);
  body(b, x, y);
  std::string all;
  for (const std::string& p : verify(b.finish(), limits)) all += p + "\n";
  return all;
}

bool finds(const std::string& what, const std::function<void(kernel::Builder&, Buf x, Buf y)>& body,
           const VerifyLimits& limits = {}) {
  const std::string all = problems(body, limits);
  INFO(all);
  CHECK(all.find(what) != std::string::npos);
  return all.find(what) != std::string::npos;
}

Expr odd(Expr lane) { return (lane & lit(lane, 1)) == 1; }

}  // namespace

TEST_CASE("a good kernel has no problems") {
  CHECK(problems([](kernel::Builder& b, Buf x, Buf y) { b.loop("i", 8, [&](Expr i) { y.store(i, x[i] * 2); }); }) == "");
  CHECK(problems([](kernel::Builder& b, Buf x, Buf y) {
          const Expr l = b.threads("l", 0, 8);
          const Buf s = b.shared("s", DType::F32, 8);
          s.store(l, x[l]);
          b.barrier();
          y.store(l, s[7 - l] + b.shuffle_xor(x[l], 1));
        }) == "");
}

TEST_CASE("types of expressions") {
  CHECK(
      finds("operands of different types", [](kernel::Builder& b, Buf x, Buf y) { y.store(0, x[0] + b.value(DType::F64, 1)); }));
  CHECK(finds("not defined on f16",
              [](kernel::Builder& b, Buf, Buf) { b.let("v", cast_to(b.symbol("n"), DType::F16) + b.value(DType::F16, 1)); }));
  CHECK(finds("not defined on i64", [](kernel::Builder& b, Buf, Buf) { b.let("v", exp(b.symbol("n"))); }));
  CHECK(finds("condition is not bool", [](kernel::Builder& b, Buf x, Buf y) { y.store(0, select(b.symbol("n"), x[0], x[1])); }));
  CHECK(finds("changes the width", [](kernel::Builder& b, Buf x, Buf) { b.let("v", bitcast_to(x[0], DType::I64)); }));
  CHECK(finds("the lanes are no groups of its size",
              [](kernel::Builder& b, Buf x, Buf) { b.let("v", even_lanes(x.load(0, 4), x.load(4, 4), 4)); }));
  CHECK(finds("no such lane", [](kernel::Builder& b, Buf x, Buf) { b.let("v", lane(x.load(0, 4), 4)); }));
  CHECK(finds("index is no integer", [](kernel::Builder& b, Buf x, Buf) { b.let("v", x[x[0]]); }));
  CHECK(finds("lanes are not a power of two", [](kernel::Builder& b, Buf x, Buf) { b.let("v", x.load(0, 3)); }));
}

TEST_CASE("statements") {
  CHECK(finds("store to input x", [](kernel::Builder& b, Buf x, Buf) { x.store(0, b.f32(1)); }));
  CHECK(finds("store of f64 to y", [](kernel::Builder& b, Buf, Buf y) { y.store(0, b.value(DType::F64, 1)); }));
  CHECK(finds("condition is not bool",
              [](kernel::Builder& b, Buf, Buf y) { b.when(b.symbol("n"), [&] { y.store(0, b.f32(1)); }); }));
  CHECK(finds("variable i is used out of scope", [](kernel::Builder& b, Buf x, Buf y) {
    Expr kept;
    b.loop("i", 8, [&](Expr i) { kept = i; });
    y.store(kept, x[0]);
  }));
  CHECK(finds("argument z comes after an allocation", [](kernel::Builder& b, Buf, Buf) {
    b.registers("r", DType::F32, 1);
    b.input("z", DType::F32, 1);
  }));
  CHECK(finds("atomic add of a vector", [](kernel::Builder&, Buf x, Buf y) { y.atomic_add(0, x.load(0, 4)); }));
}

TEST_CASE("indices that are certainly out of bounds") {
  CHECK(finds("store to y out of bounds", [](kernel::Builder& b, Buf, Buf y) { y.store(8, b.f32(1)); }));
  CHECK(finds("load of x out of bounds", [](kernel::Builder&, Buf x, Buf y) { y.store(0, x.load(5, 4)); }));
  CHECK(finds("load of x out of bounds", [](kernel::Builder&, Buf x, Buf y) { y.store(0, x[-1]); }));
  CHECK(problems([](kernel::Builder& b, Buf, Buf y) { y.store(0, b.input("none", DType::F32, 0)[-2]); }) == "");
  CHECK(problems([](kernel::Builder& b, Buf x, Buf y) {  // never reached
          const Expr n = b.symbol("n", 0, 7);
          b.when(n > lit(n, 7), [&] { y.store(0, x[n + 1]); });
        }) == "");
}

TEST_CASE("the launch nest") {
  CHECK(finds("is not part of the launch nest", [](kernel::Builder& b, Buf x, Buf y) {
    y.store(0, x[0]);
    b.grid("g", 0, 8);
  }));
  CHECK(finds("thread loop l has no constant extent", [](kernel::Builder& b, Buf, Buf) {
    const Expr n = b.symbol("n");
    b.loop(
        "l", n, [](Expr) {}, LoopKind::Thread);
  }));
  CHECK(finds("parallel loop p is not at the top level",
              [](kernel::Builder& b, Buf, Buf) { b.loop("i", 8, [&](Expr) { b.parallel("p", 8, 1, [](Expr) {}); }); }));
  CHECK(finds("shared buffer s outside a workgroup", [](kernel::Builder& b, Buf, Buf) { b.shared("s", DType::F32, 8); }));
}

TEST_CASE("barriers and shuffles that only some lanes reach") {
  CHECK(finds("a barrier outside a workgroup", [](kernel::Builder& b, Buf, Buf) { b.barrier(); }));
  CHECK(finds("a barrier that not all threads of a workgroup reach", [](kernel::Builder& b, Buf, Buf) {
    const Expr l = b.threads("l", 0, 8);
    b.when(odd(l), [&] { b.barrier(); });
  }));
  CHECK(finds("a barrier that not all threads of a workgroup reach", [](kernel::Builder& b, Buf, Buf) {
    const Expr l = b.threads("l", 0, 8);
    b.loop("i", l, [&](Expr) { b.barrier(); });
  }));
  CHECK(finds("that not all threads of a workgroup reach", [](kernel::Builder& b, Buf x, Buf y) {
    const Expr l = b.threads("l", 0, 8);
    b.when(odd(l), [&] { y.store(l, b.shuffle_xor(x[l], 1)); });
  }));
  CHECK(problems([](kernel::Builder& b, Buf, Buf) {  // the condition is uniform
          const Expr n = b.symbol("n");
          b.threads("l", 0, 8);
          b.when(n < lit(n, 4), [&] { b.barrier(); });
        }) == "");
}

TEST_CASE("products that go on until their sums are settled") {
  static constexpr MatrixUnit kUnit = {.m = 2,
                                       .n = 2,
                                       .k = 2,
                                       .warp = 1,
                                       .operand = DType::F32,
                                       .accumulator = DType::F32,
                                       .a = {},
                                       .b = {},
                                       .c = {{}, {columns(1), rows(1)}, 2},
                                       .a_from = Source::AlongK,
                                       .b_from = Source::AlongK,
                                       .later = true};
  const auto product = [](const std::function<void(kernel::Builder&, Buf sums, Buf y)>& then) {
    return [then](kernel::Builder& b, Buf, Buf y) {
      b.threads("l", 0, 8);
      const Buf tiles = b.shared("tiles", DType::F32, 64), sums = b.registers("sum", DType::F32, 4);
      sums.store(0, broadcast(b.f32(0), 4));
      b.loop("i", 3, [&](Expr) {
        sums.store(0, b.matrix_multiply(kUnit, b.tile(tiles, b.i64(0)), b.tile(tiles, b.i64(32)), sums.load(0, 4)));
        then(b, sums, y);
      });
      y.store(0, sums.load(0));
    };
  };
  CHECK(problems(product([](kernel::Builder& b, Buf sums, Buf) { b.settle(sums); })) == "");
  CHECK(finds("sum is read before its sums are settled", product([](kernel::Builder& b, Buf sums, Buf y) {
                y.store(0, sums.load(0));
                b.settle(sums);
              })));
  CHECK(finds("the sums of sum are not settled at a barrier", product([](kernel::Builder& b, Buf sums, Buf) {
                b.barrier();
                b.settle(sums);
              })));
  CHECK(finds("the sums of sum are not settled where the loop i ends", product([](kernel::Builder&, Buf, Buf) {})));
  CHECK(finds("sum has no sums to settle", product([](kernel::Builder& b, Buf sums, Buf) {
                b.settle(sums);
                b.settle(sums);
              })));
}

TEST_CASE("limits of a device") {
  const auto kernel = [](kernel::Builder& b, Buf, Buf) {
    b.threads("l", 0, 64);
    b.shared("s", DType::F32, 64);
  };
  CHECK(problems(kernel, {256, 64}) == "");
  CHECK(finds("256 bytes of shared memory, the limit is 255", kernel, {255, 64}));
  CHECK(finds("groups of 64 threads, the limit is 63", kernel, {256, 63}));
}
