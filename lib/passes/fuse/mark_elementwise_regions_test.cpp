#include <algorithm>

#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  Type t = tensor_type(DType::F32, {8, 4});
  ValueId x = b.input("x", t), y = b.input("y", t), row = b.input("row", tensor_type(DType::F32, {4}));
  std::string marked(std::initializer_list<ValueId> outputs) {
    for (ValueId v : outputs) g.add_output(v, {});
    run(m, "mark_elementwise_regions");
    const std::string s = ops(g);
    return s.substr(std::string("input input input ").size());
  }
  bool missed(std::string_view reason) {
    return std::ranges::any_of(run.decisions, [&](const Decision& d) { return !d.fused && d.reason == reason; });
  }
};

}  // namespace

TEST_CASE("a diamond becomes one region, with typed steps and broadcast operands") {
  Fixture f;
  const ValueId s = f.b.unary(OpKind::Sigmoid, f.b.add(f.x, f.row));
  f.g.set_node_name(f.g.def(s), f.m.symbol("gate"));
  const ValueId c = f.b.create(OpKind::Gt, {s, f.y});
  CHECK(f.marked({f.b.create(OpKind::Where, {c, f.b.mul(s, f.y), f.b.unary(OpKind::Exp, s)})}) == "elementwise_region");
  const NodeId r = f.g.def(f.g.outputs()[0]);
  const auto& steps = f.g.attrs<FusionAttrs>(r).steps;
  CHECK(steps.size() == 6);
  CHECK(f.g.operands(r).size() == 3);
  CHECK(steps[2].op == OpKind::Gt);
  CHECK(steps[2].dtype == DType::Bool);
  CHECK(f.run.decisions.at(0).fused);
  CHECK(f.run.decisions[0].launches_saved == 5);
  CHECK(f.m.text(f.m.origin(f.g.origin(r)).sources.at(0)) == "gate");
  CHECK_FALSE(f.run(f.m, "mark_elementwise_regions").changed);
}

TEST_CASE("a single elementwise node stays as it is") {
  Fixture f;
  CHECK(f.marked({f.b.unary(OpKind::Exp, f.x)}) == "exp");
}

TEST_CASE("a path through another node forbids the merge") {
  Fixture f;
  const ValueId a = f.b.unary(OpKind::Exp, f.x);
  const ValueId s = f.b.create(OpKind::Softmax, {a}, AxisAttrs{1});
  CHECK(f.marked({f.b.add(a, s)}) == "exp softmax add");
  CHECK(f.missed("multi_consumer"));
}

TEST_CASE("a graph output inside stays visible") {
  Fixture f;
  const ValueId a = f.b.unary(OpKind::Exp, f.x);
  CHECK(f.marked({a, f.b.add(a, f.y)}) == "exp add");
  CHECK(f.missed("graph_output"));
}

TEST_CASE("a node is computed in the region of each user where that takes no longer than a launch of its own") {
  const auto ops_of = [](OpKind op, int64_t rows, bool* cost) {
    Fixture f;
    const ValueId x = f.b.input("big", tensor_type(DType::F32, {rows, 64}));
    const ValueId a = f.b.unary(op, x);
    const std::string s = f.marked({f.b.unary(OpKind::Tanh, a), f.b.unary(OpKind::Sin, a)});
    *cost = f.missed("cost");
    return s.substr(std::string("input ").size());
  };
  bool cost = false;
  CHECK(ops_of(OpKind::Relu, 1 << 16, &cost) == "elementwise_region elementwise_region");
  CHECK_FALSE(cost);
  CHECK(ops_of(OpKind::Exp, 2, &cost) == "elementwise_region elementwise_region");  // recomputing is cheaper than a launch
  CHECK(ops_of(OpKind::Exp, 1 << 16, &cost) == "exp tanh sin");
  CHECK(cost);
}

TEST_CASE("with unknown sizes a division by a number is computed in up to two regions of as long rows") {
  const auto marked = [](size_t readers, bool number) {
    Fixture f;
    const ValueId x = f.b.input("any", tensor_type(DType::F32, {f.m.dims.symbol("n"), 4}));
    const ValueId v = f.b.create(OpKind::Div, {x, number ? f.b.scalar(DType::F32, 3) : f.row});
    const OpKind ops_of_readers[] = {OpKind::Tanh, OpKind::Sin, OpKind::Exp};
    for (size_t i = 0; i < readers; ++i) f.g.add_output(f.b.unary(ops_of_readers[i], v), {});
    f.run(f.m, "mark_elementwise_regions");
    return ops(f.g).substr(std::string("input input input input ").size());
  };
  CHECK(marked(2, true) == "constant elementwise_region elementwise_region");
  CHECK(marked(3, true) == "constant div tanh sin exp");
  CHECK(marked(2, false) == "div tanh sin");
}

TEST_CASE("a small value is computed again for every element where that takes no longer than a launch of its own") {
  const auto marked = [](OpKind op, int64_t rows) {
    Fixture f;
    const ValueId x = f.b.input("big", tensor_type(DType::F32, {rows, 4}));
    const std::string s = f.marked({f.b.mul(x, f.b.unary(op, f.row))});
    if (s.find("region") == s.npos)
      for (const Decision& d : f.run.decisions) CHECK(d.detail.find(" ns fused, ") != d.detail.npos);
    return s.substr(std::string("input ").size());
  };
  CHECK(marked(OpKind::Exp, 8) == "elementwise_region");
  CHECK(marked(OpKind::Exp, 1 << 16) == "exp mul");
  CHECK(marked(OpKind::Neg, 1 << 16) == "elementwise_region");
  Fixture symbolic;
  const ValueId x = symbolic.b.input("big", tensor_type(DType::F32, {symbolic.m.dims.symbol("n"), 4}));
  CHECK(symbolic.marked({symbolic.b.mul(x, symbolic.b.unary(OpKind::Exp, symbolic.row)),
                         symbolic.b.mul(x, symbolic.b.unary(OpKind::Neg, symbolic.row))}) == "input exp mul elementwise_region");
}

TEST_CASE("broadcasts other than along the trailing axes are right") {
  Fixture f;
  const ValueId column = f.b.input("column", tensor_type(DType::F32, {8, 1}));
  CHECK(f.marked({f.b.unary(OpKind::Tanh, f.b.mul(f.x, column))}) == "input elementwise_region");
  CHECK(text(f.g.type(f.g.outputs()[0]), f.m.dims) == "f32[8,4]");
}

TEST_CASE("long chains are split at the limits of the target, none is dropped") {
  Fixture f;
  f.run.target.region_max_steps = 8;
  ValueId v = f.x;
  for (int i = 0; i < 30; ++i) v = f.b.unary(OpKind::Tanh, v);
  CHECK(f.marked({v}) == "elementwise_region elementwise_region elementwise_region elementwise_region");
  Fixture h;
  h.run.target.region_max_inputs = 4;
  ValueId w = h.x;
  for (int i = 0; i < 12; ++i) w = h.b.add(w, h.b.input("i" + std::to_string(i), h.t));
  h.marked({w});
  for (NodeId n : h.g.nodes()) CHECK(h.g.operands(n).size() <= 4);
}

TEST_CASE("what depends on parameters only runs once at load time and stays out") {
  Fixture f;
  const ValueId w = f.b.param("w", f.t);
  CHECK(f.marked({f.b.add(f.x, f.b.cast(f.b.cast(w, DType::F16), DType::F32))}) == "param elementwise_region add");
}

TEST_CASE("what depends on parameters and unknown sizes runs in each run and may be part of a region") {
  Fixture f;
  const Dim n = f.m.dims.symbol("n");
  const ValueId x = f.b.input("any", tensor_type(DType::F32, {n, 4})),
                w = f.b.expand(f.b.param("w", tensor_type(DType::F32, {1, 4})), {n, Dim(4)});
  CHECK(f.marked({f.b.add(x, f.b.unary(OpKind::Exp, w))}) == "input param expand elementwise_region");
}

TEST_CASE("complex values stay out") {
  Fixture f;
  const ValueId z = f.b.input("z", tensor_type(DType::C64, {4}));
  CHECK(f.marked({f.b.add(f.b.mul(z, z), z)}) == "input mul add");
}

TEST_CASE("marking and unmarking random graphs keeps them valid") {
  int64_t regions = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const auto m = random_graph({.seed = seed, .symbolic = seed % 2 == 0});
    PassRun run;
    run.target.region_max_steps = 3 + static_cast<uint32_t>(seed % 20);
    regions += count(run(*m, "mark_elementwise_regions"), "regions");
    CHECK_FALSE(run(*m, "mark_elementwise_regions").changed);
    run.target.native.reset(static_cast<size_t>(OpKind::ElementwiseRegion));
    run(*m, "unfuse_elementwise_regions");
    CHECK(ops(m->main()).find("region") == std::string::npos);
  }
  CHECK(regions > 200);
}

TEST_CASE("a chain of 100,000 nodes is marked in one go") {
  Fixture f;
  ValueId v = f.x;
  for (int i = 0; i < 100000; ++i) v = f.b.unary(OpKind::Tanh, v);
  f.g.add_output(v, {});
  CHECK(count(f.run(f.m, "mark_elementwise_regions"), "nodes_merged") == 100000);
}

TEST_CASE("the end of the epilogue of an integer matmul is not copied into the regions of its readers") {
  const auto graph = [](bool integers) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = b.input("x", tensor_type(DType::I8, {5, 4})), w = b.input("w", tensor_type(DType::I8, {4, 6}));
      const ValueId sums = integers ? b.create(OpKind::QMatMul, {x, w}) : b.input("s", tensor_type(DType::I32, {5, 6}));
      const ValueId y = b.mul(b.cast(sums, DType::F32), b.scalar(DType::F32, 0.01));
      return {b.matmul(b.unary(OpKind::Neg, b.unary(OpKind::Abs, y)), f32_input(b, "a", {6, 6})),
              b.matmul(b.unary(OpKind::Abs, b.unary(OpKind::Neg, y)), f32_input(b, "b", {6, 6}))};
    };
  };
  const Rewrite r("mark_elementwise_regions", graph(true));
  CHECK(r.left() == "q_matmul elementwise_region elementwise_region matmul elementwise_region matmul");
  CHECK(r.first_decline() == "multi_consumer");
  CHECK(Rewrite("mark_elementwise_regions", graph(false)).left() == "elementwise_region matmul elementwise_region matmul");
}

TEST_CASE("a long epilogue with Q/DQ pairs, whose residual comes first, is not copied either") {
  const Rewrite r("mark_elementwise_regions", [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = b.input("x", tensor_type(DType::I8, {5, 4})), w = b.input("w", tensor_type(DType::I8, {4, 6}));
    const ValueId scale = b.scalar(DType::F32, 0.01);
    ValueId y = b.mul(b.cast(b.create(OpKind::QMatMul, {x, w}), DType::F32), scale);
    for (int i = 0; i < 2; ++i) {
      const ValueId q = b.create(OpKind::Clamp, {b.unary(OpKind::Round, b.div(y, scale))}, ClampAttrs{-128, 127});
      y = b.mul(b.add(q, b.scalar(DType::F32, 0)), scale);
    }
    y = b.add(b.unary(OpKind::Neg, f32_input(b, "r", {5, 6})), y);
    return {b.matmul(b.unary(OpKind::Abs, y), f32_input(b, "a", {6, 6})),
            b.matmul(b.unary(OpKind::Neg, y), f32_input(b, "b", {6, 6}))};
  });
  CHECK(r.left() == "q_matmul elementwise_region abs matmul neg matmul");
}
