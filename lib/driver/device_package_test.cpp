#include "driver/device_package.h"

#include <doctest/doctest.h>

#include "driver/plan_lir.h"
#include "ir/builder.h"

using namespace rlxc;

TEST_CASE("tensors that not every device of a target can bind are named") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const int64_t rows = (128 << 20) / 4 / 64 + 1;  // of 64 values
  const Type large = tensor_type(DType::F32, {Dim(rows), Dim(64)});
  const std::vector<std::byte> zero(4);
  const ValueId w = b.param("table", large, m->data.add(make_splat(DType::F32, {rows, 64}, zero)));
  const ValueId at = b.input("at", tensor_type(DType::I64, {Dim(2)}));
  const ValueId x = b.input("x", large);
  m->main().add_output(b.create(OpKind::Gather, {w, at}, AxisAttrs{0}), {});
  m->main().add_output(b.create(OpKind::Gather, {x, at}, AxisAttrs{0}), {});
  Diagnostics d;
  const auto lir = plan_lir(std::move(m), {}, d);
  REQUIRE(lir.has_value());
  for (const char* target : {"wgpu", "cuda"}) {
    const bool limited = std::string_view(target) == "wgpu";
    Diagnostics said;
    const auto package = codegen::make_package(*lir, "large", *capability(target), said);
    REQUIRE_MESSAGE(package.has_value(), said.text());
    CHECK(adapt_package(*package, target, said).has_value());
    for (const char* name : {"weight \"table\"", "all memory that kernels write", "\"x\""})
      CHECK_MESSAGE((said.text().find(name) != std::string::npos) == limited, said.text());
    CHECK(said.text().find("\"at\"") == std::string::npos);
  }
}
