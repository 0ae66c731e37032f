#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// At most four steps of a = tanh(a * w) + i, with a as scan output. The condition is constant or depends on a.
std::vector<ValueId> loop(Builder& b, bool conditional, bool stacks) {
  Module& m = b.module();
  Graph& body = m.graph(m.make_graph("body"));
  Builder inner(body);
  const Type row = tensor_type(DType::F32, {3});
  const ValueId i = inner.input("i", tensor_type(DType::I64, {})), going = inner.input("going", tensor_type(DType::Bool, {}));
  const ValueId a = inner.input("a", row), w = inner.input("w", row);
  const ValueId next = inner.add(inner.unary(OpKind::Tanh, inner.mul(a, w)), inner.cast(i, DType::F32));
  body.add_output(
      conditional ? inner.create(OpKind::Lt, {inner.reduce(ReduceOp::Max, a, {0}, false), inner.scalar(DType::F32, 2)}) : going,
      {});
  body.add_output(next, {});
  if (stacks) body.add_output(a, {});
  const NodeId n = b.create_node(
      OpKind::Loop,
      std::vector<ValueId>{b.scalar(DType::I64, 4), b.scalar(DType::Bool, 1), f32_input(b, "x", {3}), f32_input(b, "w", {3})},
      LoopAttrs{1}, std::vector<GraphId>{body.id()});
  std::vector<ValueId> results;
  for (size_t r = 0; r < b.graph().result_count(n); ++r) results.push_back(b.graph().result(n, r));
  return results;
}

Rewrite unrolled(uint64_t most, bool conditional = false, bool stacks = true) {
  return Rewrite(
      "unroll_loops", [=](Builder& b) { return loop(b, conditional, stacks); },
      [=](PassRun& run) { run.options.unroll_max_nodes = most; });
}

}  // namespace

TEST_CASE("a loop of a known number of steps is written out, with its carries and scans") {
  const Rewrite r = unrolled(100);
  CHECK_FALSE(r.find(OpKind::Loop).valid());
  CHECK(r.find(OpKind::Concat).valid());
}

TEST_CASE("a loop whose steps find sizes of their own stays a loop") {
  Rewrite r(
      "unroll_loops",
      [](Builder& b) {
        Module& m = b.module();
        Graph& body = m.graph(m.make_graph("body"));
        Builder inner(body);
        inner.input("i", tensor_type(DType::I64, {}));
        const ValueId going = inner.input("going", tensor_type(DType::Bool, {})),
                      a = inner.input("a", tensor_type(DType::F32, {3}));
        const ValueId found = inner.unary(OpKind::NonZero, inner.unary(OpKind::Relu, a));
        const ValueId sum = inner.reduce(ReduceOp::Sum, inner.cast(found, DType::F32), {0, 1}, false);
        body.set_outputs(std::array{going, inner.sub(a, sum)});
        const NodeId n = b.create_node(
            OpKind::Loop, std::vector<ValueId>{b.scalar(DType::I64, 2), b.scalar(DType::Bool, 1), f32_input(b, "x", {3})},
            LoopAttrs{1}, std::vector<GraphId>{body.id()});
        return std::vector<ValueId>{b.graph().result(n)};
      },
      [](PassRun& run) { run.options.unroll_max_nodes = 100; });
  CHECK(r.left() == "loop");
}

TEST_CASE("a loop that may stop early is written out up to its limit, and values stay once it has stopped") {
  const Rewrite r = unrolled(100, true, false);
  CHECK_FALSE(r.find(OpKind::Loop).valid());
  CHECK(r.find(OpKind::Where).valid());
}

TEST_CASE("a loop that is too long, may stop early and stacks values, or is not asked for stays a loop") {
  CHECK(unrolled(20).left() == "loop");
  CHECK(unrolled(100, true).left() == "loop");
  CHECK(unrolled(0).left() == "loop");
}
