#include "memory/plan_lir.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>

#include "eval/equivalence.h"
#include "ir/builder.h"

using namespace rlxc;

namespace {

LirModule plan(std::unique_ptr<Module> m, PlanOptions options = {}) {
  Diagnostics d;
  options.verify = true;
  auto lir = plan_lir(std::move(m), options, d);
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

TEST_CASE("elements of few bits share bytes, also in inputs and outputs") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = named(*m, b.input("x", tensor_type(DType::I4, {5})), "x");
  m->main().add_output(named(*m, b.cast(b.cast(x, DType::F32), DType::U2), "y"), {});
  const LirModule lir = plan(std::move(m));
  CHECK(slot_of(lir, "x").size == Dim(3));
  CHECK(slot_of(lir, "y").size == Dim(2));
}

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

TEST_CASE("a symbolic plan holds for sizes of 0") {
  // The sums of x are dead before the products of y, which would fit in their place only if x had rows.
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {m->dims.symbol("past"), 64})),
                y = b.input("y", tensor_type(DType::F32, {2, 4}));
  const ValueId w = b.param("w", tensor_type(DType::F32, {64, 64})), v = b.param("v", tensor_type(DType::F32, {4, 4}));
  m->main().add_output(b.matmul(b.matmul(x, w), w), {});
  const ValueId first = b.matmul(y, v), second = b.matmul(first, v);
  m->main().add_output(b.matmul(b.add(first, second), v), {});
  const LirModule lir = plan(std::move(m));
  CHECK(lir.plans[0].symbolic);
  CHECK(lir.module->dims.evaluate(lir.plans[0].arena_size, {{"past", 0}}) == 2 * 64);
}

TEST_CASE("a symbolic plan is verified for sizes that the equalities of the module allow") {
  // Only for b <= a: a buffer of a elements follows one of max(a, b).
  auto m = std::make_unique<Module>();
  DimTable& dims = m->dims;
  const Dim a = dims.symbol("a"), b = dims.symbol("b"), both = dims.max(a, b);
  Builder builder(m->main());
  const auto with = [&](std::string_view name, Dim d) { return builder.input(name, tensor_type(DType::F32, {d, Dim(4)})); };
  const ValueId x = with("x", a), y = with("y", both), w = builder.param("w", tensor_type(DType::F32, {4, 4}));
  REQUIRE(dims.assume_equal(a, both));
  const ValueId first = builder.matmul(x, w), second = builder.matmul(y, w);
  m->main().add_output(builder.matmul(builder.matmul(first, w), w), {});
  m->main().add_output(builder.matmul(builder.matmul(second, w), w), {});
  const LirModule lir = plan(std::move(m));
  CHECK(lir.plans[0].arena_size != Dim(0));
}

TEST_CASE("with ranges of the symbols a plan is as tight as that of the largest sizes") {
  const auto chain = [](bool bound) {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const Dim s = bound ? Dim(50) : m->dims.symbol("seq");
    ValueId v = b.input("x", tensor_type(DType::F32, {s, 4}));
    for (int64_t width : {8, 2, 16, 4})
      v = b.matmul(v, b.param("w", tensor_type(DType::F32, {b.graph().dims(v).back(), Dim(width)})));
    m->main().add_output(v, {});
    return m;
  };
  PlanOptions options;
  options.ranges = {{"seq", {Dim(1), Dim(50)}}};
  const LirModule ranged = plan(chain(false), options), bound = plan(chain(true));
  CHECK_FALSE(ranged.plans[0].symbolic);
  CHECK(ranged.plans[0].arena_size == bound.plans[0].arena_size);
  CHECK(ranged.plans[0].lower_bound == bound.plans[0].lower_bound);
  CHECK(plan(chain(false)).plans[0].symbolic);
}

TEST_CASE("parts of a concatenation are made in its place") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {1, 4, 8}));
  const ValueId left = named(*m, b.unary(OpKind::Exp, x), "left"), right = named(*m, b.unary(OpKind::Tanh, x), "right");
  const ValueId both = named(*m, b.concat(std::vector<ValueId>{left, right}, 1), "both");
  const ValueId w = b.param("w", tensor_type(DType::F32, {8, 3}));
  m->main().add_output(b.matmul(both, w), {});
  const LirModule lir = plan(std::move(m));
  CHECK(slot_of(lir, "left").part);
  CHECK(slot_of(lir, "right").part);
  CHECK(slot_of(lir, "right").offset == lir.module->dims.add(slot_of(lir, "both").offset, Dim(128)));
  CHECK(lir.plans[0].arena_size == Dim(256));
  CHECK(lir.plans[0].saved_by_concat_alias == 256);
}

TEST_CASE("parts of a concatenation take the place of the rows of which they were made") {
  // `late`: rows are read after a part was made in their place; `crossed`: the first part would overwrite those of the second.
  const auto arena = [](bool late, bool crossed) {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {1, 4, 16}));
    const ValueId rows = named(*m, b.matmul(x, b.param("w", tensor_type(DType::F32, {16, 16}))), "rows");
    const ValueId up = b.param("up", tensor_type(DType::F32, {16, 48})),
                  down = b.param("down", tensor_type(DType::F32, {48, 16}));
    std::vector<ValueId> parts;
    for (int64_t i : {0, 1}) {
      const ValueId some = b.narrow(rows, 1, Dim((crossed ? 1 - i : i) * 2), Dim(2));
      parts.push_back(b.matmul(b.matmul(some, up), down));
    }
    const ValueId sums = named(*m, b.concat(parts, 1), "sums");
    m->main().add_output(b.matmul(sums, up), {});
    if (late) m->main().add_output(b.matmul(b.narrow(rows, 1, Dim(0), Dim(1)), up), {});
    PlanOptions given;
    given.reorder = false;
    const LirModule lir = plan(std::move(m), given);
    CHECK((slot_of(lir, "sums").offset == slot_of(lir, "rows").offset) == slot_of(lir, "sums").in_place);
    return std::pair(slot_of(lir, "sums").in_place, lir.plans[0].arena_size.size());
  };
  CHECK((arena(false, false) == std::pair(true, int64_t{256 + 384})));
  CHECK_FALSE(arena(true, false).first);
  CHECK_FALSE(arena(false, true).first);
}

TEST_CASE("a concatenation is not overwritten while a part of it is still read") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {1, 4, 8}));
  const ValueId left = named(*m, b.unary(OpKind::Exp, x), "left"), right = b.unary(OpKind::Tanh, x);
  const ValueId both = b.concat(std::vector<ValueId>{left, right}, 1);
  const ValueId w = b.param("w", tensor_type(DType::F32, {8, 3}));
  const ValueId over = named(*m, b.unary(OpKind::Neg, both), "over");
  m->main().add_output(b.matmul(over, w), {});
  m->main().add_output(b.matmul(left, w), {});
  PlanOptions given;
  given.reorder = false;
  const LirModule lir = plan(std::move(m), given);
  CHECK_FALSE((slot_of(lir, "left").part && slot_of(lir, "over").in_place));
}

TEST_CASE("branches run one after the other where that takes less") {
  const auto branches = [] {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {1, 64}));
    const ValueId up = b.param("up", tensor_type(DType::F32, {64, 1024})),
                  down = b.param("down", tensor_type(DType::F32, {1024, 64}));
    std::vector<ValueId> wide;
    for (int i = 0; i < 4; ++i) wide.push_back(b.matmul(x, up));
    ValueId sum = b.matmul(wide[0], down);
    for (int i = 1; i < 4; ++i) sum = b.add(sum, b.matmul(wide[i], down));
    m->main().add_output(b.matmul(sum, up), {});
    return m;
  };
  PlanOptions given;
  given.reorder = false;
  const LirModule before = plan(branches(), given), after = plan(branches());
  CHECK(before.plans[0].arena_size.size() >= 4 * 4096);
  CHECK(after.plans[0].reordered);
  CHECK(after.plans[0].given_arena == before.plans[0].arena_size);
  CHECK(after.plans[0].arena_size.size() < 2 * 4096);
}

TEST_CASE("cheap values are computed again where the arena would be too large") {
  const auto skip = [] {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {8, 256}));
    const ValueId kept = b.unary(OpKind::Exp, x);  // read by the next node and at the end
    const ValueId up = b.param("up", tensor_type(DType::F32, {256, 512})),
                  down = b.param("down", tensor_type(DType::F32, {512, 256}));
    const ValueId y = b.matmul(b.unary(OpKind::Tanh, b.matmul(kept, up)), down);
    m->main().add_output(b.matmul(b.add(y, kept), up), {});
    return m;
  };
  const auto before = static_cast<uint64_t>(plan(skip()).plans[0].arena_size.size());
  PlanOptions options;
  options.max_arena = before - 1;
  const LirModule lir = plan(skip(), options);
  CHECK(lir.plans[0].computed_again == 1);
  CHECK(static_cast<uint64_t>(lir.plans[0].arena_size.size()) < before);
  Diagnostics d;
  options.max_arena = 1;
  CHECK_FALSE(plan_lir(skip(), options, d));
  CHECK(d.exit() == ExitCode::Limit);
}

namespace {

// Layers of matmuls; a value computed from x before them is read before and after them.
template <class Make, class Early, class Late>
std::unique_ptr<Module> skip(Make make, Early early, Late late) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {8, 256}));
  const ValueId up = b.param("up", tensor_type(DType::F32, {256, 512})),
                down = b.param("down", tensor_type(DType::F32, {512, 256})),
                table = b.param("table", tensor_type(DType::F32, {256, 256}));
  const ValueId made = make(b, x);
  ValueId y = b.matmul(early(b, made), table);
  for (int i = 0; i < 3; ++i) y = b.matmul(b.unary(OpKind::Tanh, b.matmul(y, up)), down);
  m->main().add_output(b.matmul(b.create(OpKind::Atan2, {y, b.matmul(late(b, made), table)}), up), {});
  return m;
}

}  // namespace

TEST_CASE("a value is computed again from what is still there, through cheap nodes that are not, and by way of views") {
  const auto rows = [](Builder& b, ValueId v) { return b.reshape(v, {8, 256}); };
  const auto make = [&] {
    return skip([](Builder& b, ValueId x) { return b.transpose(b.unary(OpKind::Exp, x), {1, 0}); }, rows, rows);
  };
  PlanOptions options;
  options.reorder = false, options.verify = true;
  const auto before = static_cast<uint64_t>(plan(make(), options).plans[0].arena_size.size());
  options.max_arena = before - 1;
  const LirModule lir = plan(make(), options);
  CHECK(lir.plans[0].computed_again >= 2);  // the exponential and its transpose
  CHECK(static_cast<uint64_t>(lir.plans[0].arena_size.size()) + 8192 == before);
}

TEST_CASE("of a value that only waits for a reader of a part, the part is copied") {
  const auto make = [] {
    return skip(
        [](Builder& b, ValueId x) {
          return b.matmul(x, b.param("wide", tensor_type(DType::F32, {256, 512})));
        },
        [](Builder& b, ValueId v) { return b.narrow(v, 1, 0, 256); },
        [](Builder& b, ValueId v) { return b.narrow(v, 1, 256, 256); });
  };
  PlanOptions options;
  options.reorder = false, options.verify = true;
  const auto before = static_cast<uint64_t>(plan(make(), options).plans[0].arena_size.size());
  options.max_arena = before - 1;
  const LirModule lir = plan(make(), options);
  CHECK(lir.plans[0].computed_again > 0);
  CHECK(static_cast<uint64_t>(lir.plans[0].arena_size.size()) + 8192 == before);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*make(), *lir.module, 1, 1e-5, 1e-6, &why), why);
}

TEST_CASE("a view that is read no more stays behind a view that is") {
  const auto make = [] {
    return skip(
        [](Builder& b, ValueId x) {
          return b.reshape(b.unary(OpKind::Exp, b.reshape(x, {2048})), {8, 256});
        },
        [](Builder&, ValueId v) { return v; },
        [](Builder& b, ValueId v) {
          return b.reshape(b.reshape(v, {4, 512}), {8, 256});
        });
  };
  PlanOptions options;
  options.reorder = false, options.verify = true;
  options.max_arena = static_cast<uint64_t>(plan(make(), options).plans[0].arena_size.size()) - 1;
  CHECK(plan(make(), options).plans[0].computed_again >= 1);
}

TEST_CASE("matmuls are computed again, a segment of layers at a time, where cheap values are not enough") {
  // A gradient by hand: the second half reads what the layers of the first half gave, in reverse order.
  const auto make = [] {
    constexpr int kLayers = 16;
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    ValueId y = b.input("x", tensor_type(DType::F32, {64, 32}));
    const ValueId up = b.param("up", tensor_type(DType::F32, {32, 128})),
                  down = b.param("down", tensor_type(DType::F32, {128, 32}));
    std::vector<ValueId> wide, narrow;
    for (int i = 0; i < kLayers; ++i) {
      wide.push_back(b.matmul(y, up));
      narrow.push_back(b.matmul(wide.back(), down));
      y = b.unary(OpKind::Tanh, narrow.back());
    }
    for (int i = kLayers; i-- > 0;) {
      const ValueId g = b.mul(b.matmul(b.mul(y, narrow[static_cast<size_t>(i)]), up), wide[static_cast<size_t>(i)]);
      y = b.unary(OpKind::Tanh, b.matmul(b.reshape(b.transpose(g, {1, 0}), {64, 128}), down));
    }
    m->main().add_output(y, {});
    return m;
  };
  PlanOptions options;
  options.verify = true;
  const auto before = static_cast<uint64_t>(plan(make(), options).plans[0].arena_size.size());
  options.max_arena = before / 3;
  const LirModule lir = plan(make(), options);
  CHECK(static_cast<uint64_t>(lir.plans[0].arena_size.size()) <= before / 3);
  CHECK(lir.plans[0].computed_again > 16);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*make(), *lir.module, 1, 1e-4, 1e-5, &why), why);
}

TEST_CASE("a norm that crosses a cut is computed again from the sum that is kept") {
  const auto make = [] {
    constexpr int kLayers = 16;
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const Type narrow = tensor_type(DType::F32, {64, 32});
    ValueId sum = b.input("x", narrow), y = b.input("y", narrow);
    const ValueId up = b.param("up", tensor_type(DType::F32, {32, 128})),
                  down = b.param("down", tensor_type(DType::F32, {128, 32})),
                  gamma = b.param("gamma", tensor_type(DType::F32, {32}));
    std::vector<ValueId> wide, norms;
    for (int i = 0; i < kLayers; ++i) {
      norms.push_back(b.create(OpKind::FusedResidualRmsNorm, {y, sum, ValueId(), gamma, ValueId()}, NormAttrs{}));
      sum = m->main().result(m->main().def(norms.back()), 1);
      wide.push_back(b.matmul(norms.back(), up));
      y = b.matmul(b.unary(OpKind::Tanh, wide.back()), down);
    }
    for (int i = kLayers; i-- > 0;) {
      const ValueId g = b.mul(b.matmul(b.mul(y, norms[static_cast<size_t>(i)]), up), wide[static_cast<size_t>(i)]);
      y = b.unary(OpKind::Tanh, b.matmul(g, down));
    }
    m->main().add_output(y, {});
    return m;
  };
  PlanOptions options;
  options.verify = true;
  const auto before = static_cast<uint64_t>(plan(make(), options).plans[0].arena_size.size());
  options.max_arena = before / 2;
  const LirModule lir = plan(make(), options);
  const Graph& g = lir.module->main();
  int norms = 0;
  for (NodeId n : g.nodes()) norms += g.op(n) == OpKind::RmsNorm;
  CHECK(norms > 0);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*make(), *lir.module, 1, 1e-4, 1e-5, &why), why);
}

TEST_CASE("a gradient computes norms and activations again where that takes little time") {
  // A gradient by hand: the second half reads norms, activations and the matmuls before them.
  const auto make = [] {
    constexpr int64_t kLayers = 8, kWidth = 512;
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const Type t = tensor_type(DType::F32, {4, kWidth});
    ValueId sum = b.input("x", t), y = b.input("y", t);
    const ValueId w = b.param("w", tensor_type(DType::F32, {kWidth, kWidth})),
                  gamma = b.param("gamma", tensor_type(DType::F32, {kWidth}));
    std::vector<ValueId> norms, wide, active;
    for (int64_t i = 0; i < kLayers; ++i) {
      norms.push_back(b.create(OpKind::FusedResidualRmsNorm, {y, sum, ValueId(), gamma, ValueId()}, NormAttrs{}));
      sum = m->main().result(m->main().def(norms.back()), 1);
      wide.push_back(b.matmul(norms.back(), w));
      active.push_back(b.unary(OpKind::Tanh, wide.back()));
      y = b.matmul(active.back(), w);
    }
    ValueId g = b.matmul(sum, w);
    for (auto i = static_cast<size_t>(kLayers); i-- > 0;) {
      m->main().add_output(b.matmul(b.transpose(active[i], {1, 0}), g), {});
      g = b.mul(b.matmul(g, w), wide[i]);
      m->main().add_output(b.matmul(b.transpose(norms[i], {1, 0}), g), {});
      g = b.matmul(g, w);
    }
    return m;
  };
  PlanOptions options;
  options.verify = true;
  const LirModule kept = plan(make(), options);
  Diagnostics d;
  PlanInputs inputs;
  inputs.gradient = true;
  const auto again = plan_lir(make(), options, d, inputs);
  REQUIRE_MESSAGE(again, d.text());
  CHECK(again->plans[0].computed_again >= 4);
  CHECK(again->plans[0].arena_size.size() < kept.plans[0].arena_size.size());
  int norms = 0;
  for (const Graph& g = again->module->main(); NodeId n : g.nodes()) norms += g.op(n) == OpKind::RmsNorm;
  CHECK(norms > 0);
  std::string why;
  CHECK_MESSAGE(eval::same_results(*make(), *again->module, 1, 1e-4, 1e-5, &why), why);
}

TEST_CASE("a gradient whose arena takes more than 1.25 GiB computes some matmuls again, unless a limit allows the arena") {
  constexpr int64_t kLayers = 8, kRows = 1 << 15, kWidth = 1024;  // 512 MiB of wide values in each layer
  const auto make = [] {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    ValueId y = b.input("x", tensor_type(DType::F32, {kRows, kWidth}));
    const ValueId up = b.param("up", tensor_type(DType::F32, {kWidth, 4 * kWidth})),
                  down = b.param("down", tensor_type(DType::F32, {4 * kWidth, kWidth}));
    std::vector<ValueId> narrow, wide;
    for (int64_t i = 0; i < kLayers; ++i) {
      narrow.push_back(y);
      wide.push_back(b.matmul(y, up));
      y = b.matmul(wide.back(), down);
    }
    for (auto i = static_cast<size_t>(kLayers); i-- > 0;) {
      m->main().add_output(b.matmul(b.transpose(wide[i], {1, 0}), y), {});
      const ValueId g = b.matmul(y, b.transpose(down, {1, 0}));
      m->main().add_output(b.matmul(b.transpose(narrow[i], {1, 0}), g), {});
      y = b.matmul(g, b.transpose(up, {1, 0}));
    }
    return m;
  };
  PlanOptions options;
  options.verify = true;
  const auto planned = [&](uint64_t max_arena) {
    options.max_arena = max_arena;
    Diagnostics d;
    PlanInputs inputs;
    inputs.gradient = true;
    auto lir = plan_lir(make(), options, d, inputs);
    REQUIRE_MESSAGE(lir, d.text());
    return std::move(*lir);
  };
  const LirModule kept = planned(uint64_t{1} << 40), again = planned(0);
  const auto matmuls = [](const LirModule& lir) {
    int64_t count = 0;
    for (const Graph& g = lir.module->main(); NodeId n : g.nodes()) count += has_trait(g.op(n), kBlas);
    return count;
  };
  CHECK(matmuls(kept) == 6 * kLayers - 1);  // nothing reads the last
  CHECK(matmuls(again) > matmuls(kept));
  CHECK(matmuls(again) <= matmuls(kept) * 114 / 100);
  CHECK(again.plans[0].arena_size.size() + (int64_t{1} << 30) < kept.plans[0].arena_size.size());
}

TEST_CASE("nothing lies across what a device binds at a time") {
  const auto many = [] {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {20, 16}));
    const ValueId w = b.param("w", tensor_type(DType::F32, {16, 16}));
    std::vector<ValueId> values;
    for (int i = 0; i < 12; ++i) values.push_back(b.matmul(x, w));
    ValueId sum = b.matmul(values[0], w);
    for (int i = 1; i < 12; ++i) sum = b.create(OpKind::Atan2, {b.matmul(sum, w), values[static_cast<size_t>(i)]});
    m->main().add_output(b.matmul(sum, w), {});
    return m;
  };
  PlanOptions options;
  options.reorder = false;
  const LirModule whole = plan(many(), options);
  options.max_binding = 4100;
  const LirModule cut = plan(many(), options);
  CHECK(whole.plans[0].arena_size.size() > 2 * 4096);
  CHECK(cut.plans[0].lower_bound == whole.plans[0].lower_bound);
  size_t slots = 0;
  for (const Slot& s : cut.plans[0].slot)
    if (s.region == Region::Activations && s.size != Dim(0)) {
      CHECK(s.offset.size() / 4096 == (s.offset.size() + s.size.size() - 1) / 4096);
      ++slots;
    }
  CHECK(slots > 12);
  options.max_binding = 1024;  // smaller than a value: the plan is unchanged
  CHECK(plan(many(), options).plans[0].arena_size == whole.plans[0].arena_size);
}

TEST_CASE("where every element gets a word, slots grow and views of them begin further on") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::I8, {2, 8}));
  const ValueId w = b.param("w", tensor_type(DType::I8, {2, 8}));
  const ValueId own = named(*m, b.unary(OpKind::Abs, x), "own");
  const ValueId half = named(*m, b.narrow(own, 0, 1, 1), "half");
  const ValueId of_input = named(*m, b.narrow(x, 0, 1, 1), "of_input"), of_weight = named(*m, b.narrow(w, 0, 1, 1), "of_weight");
  m->main().add_output(b.create(OpKind::Max, {b.create(OpKind::Max, {half, of_input}), of_weight}), {});
  m->main().add_output(b.cast(own, DType::F32), {});
  PlanOptions options;
  options.element_bytes = 4;
  const LirModule lir = plan(std::move(m), options);
  CHECK(slot_of(lir, "own").size == Dim(64));
  CHECK(slot_of(lir, "half").offset == lir.module->dims.add(slot_of(lir, "own").offset, Dim(32)));
  CHECK(slot_of(lir, "half").size == Dim(32));
  CHECK(slot_of(lir, "of_input").offset == Dim(32));
  CHECK(slot_of(lir, "of_weight").size == Dim(8));
  CHECK(slot_of(lir, "of_weight").offset == lir.module->dims.add(slot_of(lir, "w").offset, Dim(8)));
  CHECK(lir.plans[0].arena_size == Dim(128));
}

TEST_CASE("graphs that no node owns are empty after planning") {
  auto m = std::make_unique<Module>();
  Diagnostics d;
  const auto square = [&](Graph& g) {
    Builder b(g, &d);
    const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(4)}));
    g.set_outputs(std::array{b.mul(x, x)});
  };
  square(m->main());
  square(m->graph(m->make_graph("left over")));
  const auto lir = plan_lir(std::move(m), {}, d);
  REQUIRE_MESSAGE(lir, d.text());
  CHECK(lir->module->graph(GraphId(1)).live_nodes() == 0);
  CHECK(lir->plans[1].step.size() <= 1);
}

TEST_CASE("a device computes its part of an all_gather of several runs at the end of the result, if nothing else reads it") {
  const auto part_of = [](std::vector<Dim> dims, int64_t axis, bool read_again) {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId part = named(*m, b.unary(OpKind::Gelu, b.input("x", tensor_type(DType::F32, std::move(dims)))), "part");
    CollectiveAttrs a;
    a.mesh = "d=4";
    a.along = {"d"};
    a.axis = axis;
    m->main().add_output(b.create(OpKind::AllGather, {part}, a), {});
    if (read_again) m->main().add_output(b.unary(OpKind::Relu, part), {});
    return slot_of(plan(std::move(m)), "part");
  };
  const Slot inner = part_of({Dim(8), Dim(16)}, 1, false);
  CHECK(inner.part);
  CHECK(inner.region == Region::Output);
  CHECK(inner.offset == Dim(3 * 8 * 16 * 4));
  CHECK_FALSE(part_of({Dim(8), Dim(16)}, 0, false).part);
  CHECK_FALSE(part_of({Dim(8), Dim(16)}, 1, true).part);
}

TEST_CASE("weights of which a device reads a part take the bytes of the part; the limit of a device includes them") {
  const auto with = [](uint64_t limit, Diagnostics& d) {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {4, 64}));
    const ValueId w = named(*m, b.param("w", tensor_type(DType::F32, {128, 64})), "w");
    CollectiveAttrs a;
    a.mesh = "d=2";
    a.along = {"d"};
    const ValueId part = b.create(OpKind::DeviceSlice, {w}, a);
    m->main().add_output(b.transpose(b.matmul(x, b.transpose(b.unary(OpKind::Relu, part), {1, 0})), {1, 0}), {});
    PlanOptions options;
    options.device_memory = limit;
    return plan_lir(std::move(m), options, d);
  };
  constexpr uint64_t kPart = 64 * 64 * 4;
  Diagnostics d;
  const auto free = with(0, d);
  REQUIRE_MESSAGE(free.has_value(), d.text());
  CHECK(slot_of(*free, "w").size == Dim(0));
  // The part stays until two values of its size are made of it.
  CHECK(with(3 * kPart, d).has_value());
  CHECK_FALSE(with(2 * kPart, d).has_value());
  CHECK_MESSAGE(d.text().find("--device-memory leaves") != std::string::npos, d.text());
  Diagnostics small;
  CHECK_FALSE(with(kPart - 1, small).has_value());
  CHECK_MESSAGE(small.text().find("weights take 0 bytes, 16384 more while they are loaded") != std::string::npos, small.text());
}
