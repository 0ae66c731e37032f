#include "passes/precision/split_widened_results.h"

#include "ir/builder.h"
#include "ir/verify.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  ValueId in(std::string_view name, std::vector<Dim> dims, DType t = DType::F16) {
    return b.input(name, tensor_type(t, std::move(dims)));
  }
  int64_t split(uint64_t least = 40, uint64_t part = 32) {
    const int64_t count = split_widened_results(g, least, part, run.context);
    CHECK_MESSAGE(verify(m, run.diagnostics), run.diagnostics.text());
    return count;
  }
};

// The gradient of a weight [7,3]: 42 bytes in f16.
void build(Fixture& f, bool trans_a) {
  const ValueId x = trans_a ? f.in("x", {Dim(1), Dim(4), Dim(7)}) : f.in("x", {Dim(1), Dim(7), Dim(4)});
  const ValueId y = f.b.create(OpKind::MatMul, {x, f.in("g", {Dim(1), Dim(4), Dim(3)})}, MatMulAttrs{trans_a, false});
  f.g.add_output(f.b.cast(f.b.reshape(y, {Dim(7), Dim(3)}), DType::F32), f.m.symbol("dw"));
}

}  // namespace

TEST_CASE("a product that leaves in a wider type is computed in parts, with the same results") {
  for (bool trans_a : {false, true}) {
    Fixture before, after;
    build(before, trans_a), build(after, trans_a);
    CHECK(after.split() == 1);
    CHECK(after.split() == 0);
    after.run(after.m, "dead_code_elimination");
    int products = 0;
    for (NodeId n : after.g.nodes()) products += after.g.op(n) == OpKind::MatMul;
    CHECK(products == 2);
    CHECK(after.g.op(after.g.def(after.g.operand(after.g.def(after.g.outputs()[0]), 0))) == OpKind::Concat);
    same_results(before.m, after.m);
  }
}

TEST_CASE("other products stay whole") {
  {
    Fixture f;  // small
    build(f, true);
    CHECK(f.split(43) == 0);
  }
  const auto stays = [](auto make) {
    Fixture f;
    make(f, f.b.matmul(f.in("x", {Dim(1), Dim(7), Dim(4)}), f.in("w", {Dim(4), Dim(3)})));
    CHECK(f.split() == 0);
  };
  stays([](Fixture& f, ValueId y) {  // read as it is, too
    f.g.add_output(f.b.cast(y, DType::F32), {});
    f.g.add_output(y, {});
  });
  stays([](Fixture& f, ValueId y) { f.g.add_output(f.b.unary(OpKind::Neg, f.b.cast(y, DType::F32)), {}); });
  stays([](Fixture& f, ValueId y) { f.g.add_output(f.b.transpose(f.b.cast(y, DType::F32), {0, 2, 1}), {}); });
  stays([](Fixture& f, ValueId y) { f.g.add_output(y, {}); });
  Fixture batches;
  batches.g.add_output(
      batches.b.cast(batches.b.matmul(batches.in("x", {Dim(2), Dim(7), Dim(4)}), batches.in("w", {Dim(4), Dim(3)})), DType::F32),
      {});
  CHECK(batches.split() == 0);
}
