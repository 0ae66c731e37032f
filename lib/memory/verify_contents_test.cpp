#include "memory/verify_contents.h"

#include <doctest/doctest.h>

#include <random>

#include "ir/builder.h"
#include "memory/plan_lir.h"

using namespace rlxc;

namespace {

// Layers like the cells of a network that was found by search: each joins values of the layers before it, which others read, too.
std::unique_ptr<Module> random_cells(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  std::vector<ValueId> rows = {b.input("x", tensor_type(DType::F32, {1, 4, 8}))}, joined;
  const ValueId w = b.param("w", tensor_type(DType::F32, {8, 8})),
                narrow = b.param("narrow", tensor_type(DType::F32, {1, 4, 12}));
  const auto recent = [&](const std::vector<ValueId>& v) { return v[v.size() - 1 - below(std::min<size_t>(v.size(), 6))]; };
  for (int i = 0; i < 40; ++i) {
    const size_t kind = below(joined.empty() ? 4 : 7);
    if (kind == 0) joined.push_back(b.concat(std::vector<ValueId>{recent(rows), recent(rows), recent(rows)}, 1));
    else if (kind == 1) rows.push_back(b.unary(OpKind::Relu, recent(rows)));
    else if (kind == 2) rows.push_back(b.add(recent(rows), recent(rows)));
    else if (kind == 3) rows.push_back(b.matmul(recent(rows), w));
    else if (kind == 4) joined.push_back(b.unary(OpKind::Relu, recent(joined)));
    else if (kind == 5) rows.push_back(b.matmul(narrow, recent(joined)));
    else rows.push_back(b.narrow(recent(joined), 1, Dim(static_cast<int64_t>(below(3)) * 4), Dim(4)));
  }
  m->main().add_output(b.matmul(rows.back(), w), {});
  return m;
}

}  // namespace

TEST_CASE("no value of random cells is read after its bytes were overwritten") {
  for (uint32_t seed = 0; seed < 400; ++seed)
    for (bool reorder : {false, true}) {
      Diagnostics d;
      PlanOptions options;
      options.verify = true;
      options.reorder = reorder;
      CHECK_MESSAGE(plan_lir(random_cells(seed), options, d).has_value(), seed << ": " << d.text());
    }
}

TEST_CASE("of a chain of concatenations, each made of the one before, no row is overwritten while it is read") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId up = b.param("up", tensor_type(DType::F32, {16, 48})), down = b.param("down", tensor_type(DType::F32, {48, 16}));
  ValueId rows = b.matmul(b.input("x", tensor_type(DType::F32, {1, 4, 16})), b.param("w", tensor_type(DType::F32, {16, 16})));
  for (int layer = 0; layer < 6; ++layer) {
    std::vector<ValueId> parts;
    for (int64_t i : {0, 1}) parts.push_back(b.matmul(b.matmul(b.narrow(rows, 1, Dim(i * 2), Dim(2)), up), down));
    rows = b.concat(parts, 1);
  }
  m->main().add_output(b.matmul(rows, up), {});
  Diagnostics d;
  PlanOptions options;
  options.verify = true;
  options.reorder = false;
  const auto lir = plan_lir(std::move(m), options, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  CHECK(lir->plans[0].saved_by_concat_alias > 0);
}

TEST_CASE("a result in the bytes of a value that is read later is noticed") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4, 4})), w = b.param("w", tensor_type(DType::F32, {4, 4}));
  const ValueId early = b.matmul(x, w), other = b.matmul(early, w);
  m->main().add_output(b.matmul(b.add(other, early), w), {});
  Diagnostics d;
  auto lir = plan_lir(std::move(m), {}, d);
  REQUIRE(lir.has_value());
  GraphPlan& plan = lir->plans[0];
  CHECK(verify_contents(lir->module->main(), plan, d));
  plan.slot[other.raw].offset = plan.slot[early.raw].offset;
  CHECK_FALSE(verify_contents(lir->module->main(), plan, d));
  CHECK_MESSAGE(d.text().find("is read after it was overwritten by") != std::string::npos, d.text());
}
