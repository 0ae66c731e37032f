// Few rows are rounded by the kernel that multiplies them on grids, many or long ones by a kernel of their own. Both must equal
// the reference evaluator; the interpreter must see no race.
#include <doctest/doctest.h>

#include "backend/backend.h"
#include "backend/registry.h"
#include "support/dot_net.h"

using namespace rlxc;

namespace {

struct Rows {
  int64_t rows, n, k, block;
  DType type = DType::F32;
  bool gated = false, zeros = false;
};

// Returns the number of kernels that a run launches.
size_t checked_launches(const Rows& r, const std::string& target) {
  INFO(target << ": " << r.rows << " rows of " << r.k << ", " << r.n << " columns");
  Net net;
  const int64_t columns = r.gated ? 2 * r.n : r.n, blocks = r.block ? r.k / r.block : 1;
  std::vector<ValueId> operands = {net.floats({r.rows, r.k}, -1, 1, false, r.type), net.bits_of(DType::U4, {columns, r.k}),
                                   net.floats({columns, blocks}, 0.01, 0.05, true, r.type),
                                   r.zeros ? net.bits_of(DType::U4, {columns, blocks}) : ValueId()};
  const ValueId y =
      net.b.create(OpKind::DequantMatMul, operands,
                   DequantMatMulAttrs{.trans_b = true, .block = r.block, .act = {}, .gated = r.gated, .int8_x = true});
  net.m->main().add_output(y, {});
  Diagnostics d;
  const auto expected = eval::evaluate(*net.m, net.inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  LoadedModel model;
  net.m->name = ForeignText("rows");
  model.module = std::move(net.m);
  const auto compiled = compile(std::move(model), target, {}, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const double tolerance = r.type == DType::F32 ? 1e-4 : 1e-2;
  net.compare(make_interpreting_runner(compiled->lir, target, d, 0, compiled->lowerings.get()), *expected, d, tolerance,
              tolerance);
  const auto package = codegen::make_package(compiled->lir, "rows", *capability(find_backend(target)->info), d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  return package->graphs[0].run.size();
}

}  // namespace

TEST_CASE("kernels of quantized weights round few rows") {
  for (const char* target : {"cuda", "rocm", "metal", "wgpu"}) {
    CHECK(checked_launches({1, 40, 128, 32}, target) == 1);
    CHECK(checked_launches({1, 24, 512, 16, DType::F16, false, true}, target) == 1);
    CHECK(checked_launches({2, 33, 256, 64, DType::F32, true}, target) == 1);
    CHECK(checked_launches({2, 20, 240, 24, DType::F32, false, true}, target) == 1);
    CHECK(checked_launches({1, 16, 2048, 0}, target) == 1);
    CHECK(checked_launches({4, 24, 128, 32}, target) == 2);
    CHECK(checked_launches({1, 16, 65536, 32}, target) == 2);
  }
}
