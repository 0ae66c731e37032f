#include "analysis/phases.h"

#include <doctest/doctest.h>

#include "ir/builder.h"

using namespace rlxc;

TEST_CASE("control flow on weights alone runs in every run, and so does what reads its result") {
  Module m;
  Builder b(m.main());
  const GraphId body = m.make_graph("body");
  Builder inner(m.graph(body));
  inner.input("i", tensor_type(DType::I64, {}));
  const ValueId more = inner.input("more", tensor_type(DType::Bool, {}));
  const ValueId next = inner.unary(OpKind::Tanh, inner.input("v", tensor_type(DType::F32, {2})));
  inner.graph().add_output(more, {});
  inner.graph().add_output(next, {});
  const ValueId weight = b.constant(make_data(DType::F32, {2}, std::vector<float>{1, 2}));
  const ValueId doubled = b.add(weight, weight);
  const ValueId trips = b.scalar(DType::I64, 3), go = b.scalar(DType::Bool, 1);
  const ValueId operands[] = {trips, go, weight};
  const NodeId loop = b.create_node(OpKind::Loop, operands, LoopAttrs{1}, std::array{body});
  REQUIRE(loop.valid());
  const ValueId sum = b.add(weight, b.graph().result(loop));
  b.graph().add_output(sum, {});
  const std::vector<Phase> phase = derive_phases(m.main());
  CHECK(phase[b.graph().def(doubled).raw] == Phase::Prologue);
  CHECK(phase[loop.raw] != Phase::Prologue);
  CHECK(phase[b.graph().def(sum).raw] != Phase::Prologue);
}
