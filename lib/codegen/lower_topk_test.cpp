// TopK on CPU threads must equal the reference evaluator where values are equal, negative zeros, infinite or NaN.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "codegen/make_package.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/run_package.h"

using namespace rlxc;

namespace {

// Rows of 3 x n x 2 values, of which the k best along the second axis are taken.
void check_topk(const std::vector<float>& kinds, int64_t n, int64_t k, bool largest) {
  INFO(k << " of " << n << ", largest " << largest);
  auto m = std::make_unique<Module>();
  Diagnostics d;
  Builder b(m->main(), &d);
  const Type type = tensor_type(DType::F32, {3, n, 2});
  TopKAttrs a;
  a.k = Dim(k);
  a.axis = 1;
  a.largest = largest;
  const std::vector<ValueId> operands{b.input("x", type)};
  const NodeId node = b.create_node(OpKind::TopK, operands, a);
  REQUIRE_MESSAGE(d.errors() == 0, d.text());
  for (size_t i = 0; i < 2; ++i) m->main().add_output(m->main().result(node, i), m->symbol(i ? "indices" : "values"));
  std::mt19937 random(static_cast<unsigned>(n * 31 + k));
  std::vector<float> values(static_cast<size_t>(6 * n));
  for (float& v : values) v = kinds[random() % kinds.size()];
  const std::vector<eval::HostValue> inputs = {{TypeKind::Tensor, make_data(DType::F32, {3, n, 2}, values), {}}};
  const auto expected = eval::evaluate(*m, inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  const auto lir = plan_lir(std::move(m), {.verify = true}, d, {});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto package = codegen::make_package(*lir, "topk", {}, d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  const auto actual = run_package(*package, inputs, d);
  REQUIRE_MESSAGE(actual.has_value(), d.text());
  for (size_t i = 0; i < 2; ++i) {
    const auto compared = eval::compare((*actual)[i], (*expected)[i], 0, 0);
    CHECK_MESSAGE(compared.pass, compared.message);
  }
}

}  // namespace

TEST_CASE("TopK orders equal values by index, zeros of both signs alike, and NaN as the largest value") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> ordinary{-2.5F, -1, -0.0F, 0, 1e-40F, 1, 3}, all{-kInf, -1, -0.0F, 0, 1, kInf, kNaN, -kNaN};
  for (const bool largest : {true, false})
    for (const auto& kinds : {ordinary, all}) {
      check_topk(kinds, 40, 7, largest);
      check_topk(kinds, 5, 5, largest);
      check_topk(kinds, 9, 1, largest);
    }
}
