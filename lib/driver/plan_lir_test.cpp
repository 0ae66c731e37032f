#include "driver/plan_lir.h"

#include <doctest/doctest.h>

#include "ir/builder.h"

using namespace rlxc;

namespace {

LirModule plan(std::unique_ptr<Module> m) {
  Diagnostics d;
  auto lir = plan_lir(std::move(m), {.verify = true}, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  return std::move(*lir);
}

const Slot& slot_of(const LirModule& lir, std::string_view name) {
  const Graph& g = lir.module->main();
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (lir.module->text(g.value_name(g.result(n, r))) == name) return lir.plans[0].slot[g.result(n, r).raw];
  FAIL("no value " << name);
  return lir.plans[0].slot[0];
}

ValueId named(Module& m, ValueId v, std::string_view name) {
  m.main().set_value_name(v, m.symbol(name));
  return v;
}

}  // namespace

TEST_CASE("a chain of elementwise ops runs in place in one slot") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  ValueId v = b.input("x", tensor_type(DType::F32, {1000}));
  for (int i = 0; i < 10; ++i) v = b.unary(OpKind::Relu, v);
  m->main().add_output(v, {});
  const LirModule lir = plan(std::move(m));
  CHECK(lir.plans[0].arena_size == Dim(4032));
  CHECK(lir.plans[0].saved_in_place == 8 * 4000);
  CHECK(lir.plans[0].lower_bound == 4032);
}

TEST_CASE("an operand that is read again, broadcast or of another width is not overwritten") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {64, 4}));
  const ValueId a = b.unary(OpKind::Exp, x);
  const ValueId first = b.narrow(a, 0, 0, 1);
  const ValueId sum = named(*m, b.add(a, first), "sum");
  const ValueId flags = named(*m, b.create(OpKind::Lt, {sum, sum}), "flags");
  m->main().add_output(b.unary(OpKind::Not, flags), {});
  const LirModule lir = plan(std::move(m));
  CHECK_FALSE(slot_of(lir, "sum").in_place);
  CHECK_FALSE(slot_of(lir, "flags").in_place);
}

TEST_CASE("views lie in their roots, outputs in the caller's buffers, weight products in the packed region") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {2, 8}));
  const ValueId w = b.param("w", tensor_type(DType::F32, {8, 6}));
  const ValueId packed = named(*m, b.create(OpKind::Cast, {w}, CastAttrs{DType::F16, true}), "packed");
  const ValueId back = b.cast(packed, DType::F32);
  const ValueId y = b.matmul(x, back);
  const ValueId tail = named(*m, b.narrow(b.reshape(y, {12}), 0, 4, 8), "tail");
  m->main().add_output(b.unary(OpKind::Tanh, tail), {});
  m->main().add_output(named(*m, b.reshape(b.unary(OpKind::Exp, y), {3, 4}), "out"), {});
  const LirModule lir = plan(std::move(m));
  CHECK(slot_of(lir, "packed").region == Region::Packed);
  CHECK(slot_of(lir, "tail").region == Region::Activations);
  CHECK(slot_of(lir, "tail").view);
  CHECK(slot_of(lir, "out").region == Region::Output);
  CHECK(slot_of(lir, "out").index == 1);
  CHECK(slot_of(lir, "w").region == Region::Weights);
}

TEST_CASE("a symbolic plan shares lanes of equal size and holds for every size") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const Dim s = m->dims.symbol("seq");
  const ValueId x = b.input("x", tensor_type(DType::F32, {s, 4}));
  const ValueId w = b.param("w", tensor_type(DType::F32, {4, 4}));
  ValueId v = x;
  for (int i = 0; i < 6; ++i) v = b.matmul(v, w);
  m->main().add_output(v, {});
  const LirModule lir = plan(std::move(m));
  CHECK(lir.plans[0].symbolic);
  DimTable& dims = lir.module->dims;
  CHECK(dims.evaluate(lir.plans[0].arena_size, {{"seq", 5}}) == 2 * 128);
  CHECK(dims.evaluate(lir.plans[0].arena_size, {{"seq", 4}}) == 2 * 64);
}
