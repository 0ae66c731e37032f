#include "memory/patches.h"

#include <doctest/doctest.h>

#include "eval/equivalence.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"

using namespace rlxc;

namespace {

Type f32(std::vector<Dim> dims) { return tensor_type(DType::F32, std::move(dims)); }

// A net of convolutions; `x` is an image of 3 channels and 48x20.
struct Net {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Graph& g = m->main();
  Builder b{g};
  ValueId x = b.input("x", f32({1, 3, 48, 20}));
  int weights = 0;

  struct Window {
    int64_t kernel = 3, stride = 1, before = 1, after = 1, dilation = 1, groups = 1;
  };
  ValueId conv(ValueId v, int64_t channels, Window w, ValueId residual = {}) {
    FusedConvAttrs a;
    a.conv.strides = {w.stride, w.stride};
    a.conv.dilations = {w.dilation, w.dilation};
    a.conv.pads_begin = {w.before, w.before};
    a.conv.pads_end = {w.after, w.after};
    a.conv.groups = w.groups;
    a.act = {true, OpKind::Relu};
    const Dim in(g.dims(v)[1].size() / w.groups);
    const ValueId weight = b.param("w" + std::to_string(weights++), f32({Dim(channels), in, Dim(w.kernel), Dim(w.kernel)}));
    return b.create(OpKind::FusedConvBiasAct, {v, weight, ValueId(), residual}, a);
  }
  ValueId conv(ValueId v, int64_t channels) { return conv(v, channels, {}); }
  ValueId point(ValueId v, int64_t channels, ValueId residual = {}) { return conv(v, channels, {1, 1, 0, 0}, residual); }
  // Large images between small ones, which is what parts of rows are for.
  ValueId end(ValueId v) { return b.reduce(ReduceOp::Mean, v, {2, 3}, true); }

  std::unique_ptr<Module> done(ValueId v) {
    g.add_output(v, {});
    return std::move(m);
  }
};

LirModule plan(std::unique_ptr<Module> m, uint64_t limit) {
  Diagnostics d;
  PlanOptions options;
  options.verify = true;
  options.max_arena = limit;
  auto lir = plan_lir(std::move(m), options, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  return std::move(*lir);
}

uint64_t arena(const LirModule& lir) { return static_cast<uint64_t>(lir.plans[0].arena_size.size()); }

using Make = std::unique_ptr<Module> (*)();

// Plans with a fraction of the memory, in parts, and compares the results.
LirModule in_parts(Make make, double fraction) {
  const uint64_t before = arena(plan(make(), 0));
  const auto limit = static_cast<uint64_t>(fraction * static_cast<double>(before));
  LirModule lir = plan(make(), limit);
  CHECK(arena(lir) <= limit);
  CHECK(lir.plans[0].patched.size() >= 1);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*make(), *lir.module, 1, 1e-4, 1e-5, &why), why);
  return lir;
}

int count(const LirModule& lir, OpKind op) {
  int n = 0;
  for (NodeId each : lir.module->main().nodes()) n += lir.module->main().op(each) == op;
  return n;
}

}  // namespace

TEST_CASE("a chain of convolutions runs in parts where the images between are large") {
  const LirModule lir = in_parts(
      [] {
        Net n;
        return n.done(n.end(n.conv(n.conv(n.conv(n.x, 32), 32), 4, {3, 2})));
      },
      0.5);
  const PatchedSegment& s = lir.plans[0].patched.at(0);
  CHECK(s.parts >= 2);
  CHECK(count(lir, OpKind::FusedConvBiasAct) == static_cast<int>(s.parts * s.nodes + 3 - s.nodes));
  CHECK(count(lir, OpKind::Concat) == 1);
  CHECK(s.flops_again > 0);
  CHECK(s.flops_again < s.flops);
}

TEST_CASE("the fewest parts that fit are made, and none without a limit or where it is met") {
  const Make make = [] {
    Net n;
    return n.done(n.end(n.conv(n.conv(n.x, 32), 2, {3, 2})));
  };
  const uint64_t before = arena(plan(make(), 0));
  CHECK(plan(make(), 0).plans[0].patched.empty());
  CHECK(plan(make(), before).plans[0].patched.empty());
  const LirModule lir = plan(make(), before - 64);
  REQUIRE(lir.plans[0].patched.size() == 1);
  CHECK(lir.plans[0].patched[0].parts == 2);
}

TEST_CASE("branches, windows of all kinds and results of several sizes run in parts") {
  SUBCASE("residuals") {
    in_parts(
        [] {
          Net n;
          ValueId y = n.point(n.conv(n.x, 8, {3, 2}), 64);
          for (int i = 0; i < 2; ++i) y = n.point(n.conv(n.point(y, 8), 8), 64, y);
          return n.done(n.end(n.point(n.conv(y, 8, {3, 2}), 16)));
        },
        0.6);
  }
  SUBCASE("concatenations of channels") {
    in_parts(
        [] {
          Net n;
          ValueId y = n.conv(n.x, 16);
          for (int i = 0; i < 3; ++i) y = n.b.concat(std::vector<ValueId>{y, n.conv(n.point(y, 32), 8)}, 1);
          return n.done(n.end(n.conv(y, 4, {3, 2})));
        },
        0.6);
  }
  SUBCASE("branches with pools, dilations and uneven padding") {
    in_parts(
        [] {
          Net n;
          const ValueId y = n.conv(n.x, 24);
          PoolAttrs a;
          a.op = ReduceOp::Mean;
          a.kernel = {3, 3};
          a.strides = a.dilations = a.pads_begin = a.pads_end = {1, 1};
          const ValueId pool = n.b.create(OpKind::Pool, {y}, a);
          const ValueId wide = n.conv(y, 8, {3, 1, 2, 2, 2}), even = n.conv(y, 8, {4, 1, 1, 2});
          return n.done(n.end(n.conv(n.b.concat(std::vector<ValueId>{pool, wide, even}, 1), 4, {3, 2})));
        },
        0.7);
  }
  SUBCASE("pools that round up, and groups") {
    in_parts(
        [] {
          Net n;
          PoolAttrs a;
          a.kernel = {3, 3};
          a.strides = {2, 2};
          a.dilations = {1, 1};
          a.pads_begin = a.pads_end = {0, 0};
          a.ceil_mode = true;
          const ValueId y = n.conv(n.conv(n.x, 32), 32, {3, 1, 1, 1, 1, 32});
          return n.done(n.end(n.conv(n.b.create(OpKind::Pool, {y}, a), 4, {3, 1, 1, 1, 1, 2})));
        },
        0.6);
  }
  SUBCASE("two results of a segment, of different sizes, one of which the segment reads") {
    const LirModule lir = in_parts(
        [] {
          Net n;
          const ValueId y = n.conv(n.x, 48), small = n.conv(y, 3, {3, 2}), smaller = n.b.add(n.conv(y, 3, {3, 2}), small);
          const ValueId last = n.conv(smaller, 2, {3, 2});
          return n.done(n.b.concat(std::vector<ValueId>{n.end(small), n.end(smaller), n.end(last)}, 1));
        },
        0.6);
    CHECK(count(lir, OpKind::Concat) >= 3);  // one of the whole results
  }
  SUBCASE("elementwise operands that are whole, or vary along rows") {
    in_parts(
        [] {
          Net n;
          const ValueId y = n.conv(n.x, 32), gate = n.b.input("gate", f32({1, 32, 1, 1})), rows = n.b.input("rows", f32({48, 1}));
          return n.done(n.end(n.conv(n.b.add(n.b.mul(y, gate), n.b.unary(OpKind::Exp, rows)), 3, {3, 2})));
        },
        0.6);
  }
  SUBCASE("several images") {
    in_parts(
        [] {
          Net n;
          const ValueId x = n.b.input("images", f32({3, 3, 24, 10}));
          return n.done(n.end(n.conv(n.conv(x, 32), 4, {3, 2})));
        },
        0.6);
  }
}

TEST_CASE("a gate for all rows may come first, and signals are cut along their length") {
  SUBCASE("gate") {
    in_parts(
        [] {
          Net n;
          const ValueId gate = n.point(n.b.reduce(ReduceOp::Mean, n.conv(n.x, 4), {2, 3}, true), 32);
          const ValueId y = n.conv(n.conv(n.x, 32), 32);
          return n.done(n.end(n.conv(n.b.mul(gate, y), 3, {3, 2})));
        },
        0.6);
  }
  SUBCASE("signal") {
    in_parts(
        [] {
          Net n;
          ConvAttrs a;
          a.strides = {2};
          a.dilations = a.pads_begin = a.pads_end = {1};
          const auto conv = [&](ValueId v, Dim from, Dim to) {
            return n.b.create(OpKind::Conv, {v, n.b.param("w" + std::to_string(n.weights++), f32({to, from, 3}))}, a);
          };
          const ValueId y = conv(n.b.unary(OpKind::Exp, n.b.input("signal", f32({1, 2, 400}))), 2, 32);
          return n.done(n.b.reduce(ReduceOp::Mean, conv(n.b.unary(OpKind::Tanh, y), 32, 4), {2}, true));
        },
        0.6);
  }
}

TEST_CASE("rows of products run in parts that are joined in place") {
  const Make make = [] {
    Net n;
    const ValueId x = n.b.input("tokens", f32({1, 50, 16})), up = n.b.param("up", f32({16, 128})),
                  down = n.b.param("down", f32({128, 16})), table = n.b.param("table", f32({16, 16}));
    const ValueId y = n.b.matmul(x, table);
    const ValueId wide = n.b.unary(OpKind::Tanh, n.b.matmul(y, up));
    return n.done(n.b.create(OpKind::Softmax, {n.b.add(n.b.matmul(wide, down), y)}, AxisAttrs{1}));
  };
  const LirModule lir = in_parts(make, 0.6);
  CHECK(lir.plans[0].patched[0].flops_again == 0);
}

TEST_CASE("what is not understood stays, and a limit that cannot be met is an error with the least arena that was found") {
  const auto refused = [](std::unique_ptr<Module> m, uint64_t limit) {
    Diagnostics d;
    PlanOptions options;
    options.max_arena = limit;
    CHECK_FALSE(plan_lir(std::move(m), options, d));
    return d.text();
  };
  const Make make = [] {
    Net n;
    return n.done(n.end(n.conv(n.conv(n.x, 32), 4, {3, 2})));
  };
  const std::string text = refused(make(), 64);
  const uint64_t before = arena(plan(make(), 0));
  CHECK(text.find("--max-arena allows 64") != std::string::npos);
  CHECK(text.find("the arena takes " + std::to_string(before)) == std::string::npos);
  // Rows that all others depend on.
  const auto whole = [] {
    Net n;
    const ValueId y = n.b.create(OpKind::Softmax, {n.conv(n.x, 32)}, AxisAttrs{2});
    return n.done(n.end(n.conv(y, 4, {3, 2})));
  };
  const uint64_t least = arena(plan(whole(), 0));
  CHECK(refused(whole(), least / 4).find("the arena takes") != std::string::npos);
}

TEST_CASE("an image with symbolic rows stays") {
  Net n;
  const ValueId x = n.b.input("images", f32({1, 3, n.b.dims().symbol("h"), 10}));
  const LirModule lir = plan(n.done(n.end(n.conv(n.conv(x, 32), 4, {3, 2}))), 64);
  CHECK(lir.plans[0].symbolic);
  CHECK(lir.plans[0].patched.empty());
}
