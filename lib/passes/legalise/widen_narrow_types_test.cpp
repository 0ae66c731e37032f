#include "passes/passes.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("operations on narrow types go between casts, views and casts to wider types stay") {
  PassFixture f;
  const ValueId x = f.b.input("x", tensor_type(DType::F8E4M3FN, {4, 6})), i = f.b.input("i", tensor_type(DType::I4, {4, 6}));
  f.g.add_output(f.b.reshape(x, {Dim(24)}), {});
  f.g.add_output(f.b.cast(x, DType::F32), {});
  CHECK_FALSE(f.run(f.m, "widen_narrow_types").changed);
  f.g.add_output(f.b.transpose(x, {1, 0}), {});
  f.g.add_output(f.b.create(OpKind::Cast, {i}, CastAttrs{DType::F8E5M2}), {});
  f.g.set_node_name(f.g.def(f.g.outputs()[2]), f.m.symbol("turn"));
  CHECK(count(f.run(f.m, "widen_narrow_types"), "widened") == 2);
  CHECK(ops(f.g) == "input input reshape cast cast transpose cast cast cast");
  CHECK(f.g.dtype(f.g.outputs()[2]) == DType::F8E4M3FN);
  CHECK(f.g.label(f.g.def(f.g.outputs()[2])) == "turn");
  CHECK_FALSE(f.run(f.m, "widen_narrow_types").changed);
}

TEST_CASE("quantization to and from narrow types is written out, with blocks too; others stay") {
  PassFixture f;
  const ValueId x = f.b.input("x", tensor_type(DType::F32, {4, 6})), s = f.b.input("s", tensor_type(DType::F32, {4, 3}));
  const ValueId q = f.b.create(OpKind::Quantize, {x, s}, QuantAttrs{1, 2, DType::U4});
  f.g.add_output(f.b.create(OpKind::Dequantize, {q, s}, QuantAttrs{1, 2, DType::F32}), {});
  f.g.add_output(f.b.create(OpKind::Quantize, {x, s}, QuantAttrs{1, 2, DType::I8}), {});
  CHECK(count(f.run(f.m, "widen_narrow_types"), "widened") == 2);
  CHECK(ops(f.g).find("dequantize") == std::string::npos);
  CHECK(f.g.op(f.g.def(f.g.outputs()[1])) == OpKind::Quantize);
  CHECK_FALSE(f.run(f.m, "widen_narrow_types").changed);
}
