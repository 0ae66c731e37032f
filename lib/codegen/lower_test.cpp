#include "codegen/lower.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "analysis/views.h"
#include "ir/builder.h"
#include "ops/elementwise.h"
#include "passes/legalise/decompositions.h"

using namespace rlxc;

namespace {

// Ops without kernels: images are decoded on the host, and FakeQuantize is always decomposed.
constexpr OpKind kNoKernel[] = {OpKind::ImageDecode, OpKind::FakeQuantize};

Type f32(std::vector<Dim> dims) { return tensor_type(DType::F32, std::move(dims)); }

}  // namespace

TEST_CASE("every operation on tensors has kernels, and what is fused has a decomposition") {
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    INFO(std::string(kind_name(op)));
    const bool elsewhere = op != OpKind::DimValue && op != OpKind::CustomOp &&
                           has_trait(op, kLeaf | kTerminator | kHir | kBody | kSequenceOp | kCollective);
    CHECK(codegen::has_lowering(op) == (!elsewhere && !std::ranges::count(kNoKernel, op)));
    if (ops::has_meaning(op)) CHECK(codegen::has_lowering(op));
    if (has_trait(op, kFused)) CHECK((legalise::decomposition(op) != nullptr));
  }
}

TEST_CASE("what a target cannot hold is refused with the reason") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F64, {Dim(4)})), y = b.add(x, x);
  codegen::CapabilityRow row;
  std::string why;
  CHECK(codegen::supports(m.main(), m.main().def(y), row, &why));
  row.dtypes.reset(static_cast<size_t>(DType::F64));
  CHECK_FALSE(codegen::supports(m.main(), m.main().def(y), row, &why));
  CHECK(why == "no kernels for values of type f64[4]");
  CHECK_FALSE(codegen::lower_node(m.main(), assign_layouts(m.main()), m.main().def(y), row, {}, &why).has_value());
  CHECK_FALSE(codegen::supports(m.main(), m.main().def(x), row, &why));
  CHECK(why == "no kernel for Input");
}

TEST_CASE("weights are prepacked only where the plan has room") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", f32({Dim(64), Dim(64)})), w = b.param("w", f32({Dim(64), Dim(64)}));
  const NodeId n = m.main().def(b.matmul(x, w));
  const GraphLayouts layouts = assign_layouts(m.main());
  const auto info = codegen::lower_info(m.main(), layouts, n, {}, {false, true});
  CHECK(info.prepacked.size() == 1);
  CHECK(codegen::lower_info(m.main(), layouts, n, {}, {false, false}).prepacked.empty());
  std::string why;
  const auto packed = codegen::lower_node(m.main(), layouts, n, {}, info.prepacked, &why),
             plain = codegen::lower_node(m.main(), layouts, n, {}, {}, &why);
  REQUIRE(packed.has_value());
  REQUIRE(plain.has_value());
  const auto on_load = [](const codegen::NodeKernels& k) {
    return std::ranges::count(k.launches, true, &codegen::Launch::on_load);
  };
  CHECK(on_load(*packed) == 1);
  CHECK(on_load(*plain) == 0);
}
