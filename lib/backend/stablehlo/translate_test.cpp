#include "backend/stablehlo/translate.h"

#include <doctest/doctest.h>

#include "backend/backend.h"
#include "ir/builder.h"

namespace rlxc {
namespace {

LirModule empty() {
  LirModule lir;
  lir.module = std::make_unique<Module>();
  return lir;
}

struct Fixture {
  LirModule lir = empty();
  Module& m = *lir.module;
  Builder b{m.main()};
  CpuPackageOptions options;

  ValueId in(std::string_view name, std::vector<Dim> dims, DType t = DType::F32) {
    return b.input(name, tensor_type(t, std::move(dims)));
  }
  ValueId weight(std::string_view name, std::vector<int64_t> dims) {
    std::vector<float> values(static_cast<size_t>(dims[0] * dims[1]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const std::vector<Dim> sizes(dims.begin(), dims.end());
    return b.param(name, tensor_type(DType::F32, sizes), m.data.add(make_data(DType::F32, std::move(dims), values)));
  }
  void output(ValueId v) { m.main().add_output(v, m.symbol("y")); }
  stablehlo::Program translated() {
    Diagnostics d;
    auto program = stablehlo::translate(lir, "model", find_backend("tpu")->info.dtypes, options, d);
    CHECK_MESSAGE(d.ok(), d.text());
    return program;
  }
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// The program of a matmul of operands of these sizes.
std::string product(std::vector<Dim> a, std::vector<Dim> b, MatMulAttrs attrs = {}) {
  Fixture f;
  f.output(f.b.create(OpKind::MatMul, {f.in("a", std::move(a)), f.in("b", std::move(b))}, attrs));
  return f.translated().module;
}

TEST_CASE("no operand of a matmul is broadcast") {
  const std::string weight = product({Dim(2), Dim(3), Dim(4)}, {Dim(4), Dim(5)});
  CHECK(has(weight,
            "lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [2], "
            "rhs_contracting_dimensions = [0]>"));
  const std::string both = product({Dim(2), Dim(3), Dim(4)}, {Dim(2), Dim(5), Dim(4)}, {.trans_b = true});
  CHECK(has(both,
            "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], "
            "rhs_contracting_dimensions = [2]>"));
  // The batch is the second axis, the first one belongs to the left operand: the product has them in the other order.
  const std::string mixed = product({Dim(7), Dim(2), Dim(3), Dim(4)}, {Dim(1), Dim(2), Dim(4), Dim(5)});
  CHECK(has(mixed, "lhs_batching_dimensions = [1], rhs_batching_dimensions = [0]"));
  CHECK(has(mixed, "-> tensor<2x7x3x5xf32>"));
  CHECK(has(mixed, "permutation = array<i64: 1, 0, 2, 3>"));
  const std::string right = product({Dim(3), Dim(4)}, {Dim(2), Dim(4), Dim(5)});
  CHECK(has(right, "-> tensor<3x2x5xf32>"));
  CHECK(has(right, "permutation = array<i64: 1, 0, 2>"));
  for (const std::string& text : {weight, both, mixed, right}) CHECK_FALSE(has(text, "broadcast_in_dim"));
}

TEST_CASE("consecutive rows from a checked input on are written as a slice") {
  const auto step = [](int64_t rows, bool checked) {
    Fixture f;
    const ValueId cache = f.in("cache", {Dim(1), Dim(2), Dim(8), Dim(4)}), at = f.in("at", {}, DType::I64);
    const ValueId fresh = f.in("fresh", {Dim(1), Dim(2), Dim(rows), Dim(4)});
    const ValueId zero = f.b.scalar(DType::I64, 0), one = f.b.scalar(DType::I64, 1);
    const ValueId offsets = rows == 1 ? f.b.ints({0}) : f.b.create(OpKind::Range, {zero, one}, DimsAttrs{{Dim(rows)}, false});
    const ValueId index = f.b.reshape(f.b.add(offsets, at), {Dim(1), Dim(1), Dim(rows), Dim(1)});
    const ValueId places = f.b.expand(index, {Dim(1), Dim(2), Dim(rows), Dim(4)});
    f.output(f.b.create(OpKind::ScatterElements, {cache, places, fresh}, ScatterAttrs{2}));
    if (checked) f.lir.index_inputs = {{1, Dim(8 - rows), "positions"}};
    return f.translated().module;
  };
  for (int64_t rows : {1, 3}) {
    CHECK(has(step(rows, true), "stablehlo.dynamic_update_slice"));
    CHECK_FALSE(has(step(rows, true), "stablehlo.scatter"));
    CHECK(has(step(rows, false), "stablehlo.scatter"));
  }
}

TEST_CASE("products of f32 are as exact as --tpu-precision says, products of bf16 need one pass") {
  for (const auto& [option, config] : {std::pair{"default", ""}, std::pair{"high", "HIGH>"}, std::pair{"highest", "HIGHEST>"}}) {
    Fixture f;
    f.options.tpu_precision = option;
    f.output(f.b.create(OpKind::MatMul, {f.in("a", {Dim(2), Dim(3)}), f.in("b", {Dim(3), Dim(2)})}, MatMulAttrs{}));
    const std::string text = f.translated().module;
    if (*config) CHECK(has(text, std::string("precision_config = [#stablehlo<precision ") + config));
    else CHECK_FALSE(has(text, "precision_config"));
  }
  Fixture f;
  f.output(f.b.create(OpKind::MatMul, {f.in("a", {Dim(2), Dim(3)}, DType::BF16), f.in("b", {Dim(3), Dim(2)}, DType::BF16)},
                      MatMulAttrs{}));
  const std::string text = f.translated().module;
  CHECK_FALSE(has(text, "precision_config"));
  CHECK_FALSE(has(text, "convert"));
}

TEST_CASE("weights are converted and transposed by a module of their own") {
  Fixture f;
  const ValueId x = f.in("x", {Dim(2), Dim(3)}, DType::BF16), w = f.weight("w", {5, 3}), plain = f.weight("plain", {5, 5});
  const ValueId transposed = f.b.create(OpKind::Transpose, {w}, PermAttrs{{1, 0}});
  const ValueId y = f.b.create(OpKind::MatMul, {x, f.b.cast(transposed, DType::BF16)}, MatMulAttrs{});
  f.output(f.b.create(OpKind::MatMul, {f.b.cast(y, DType::F32), plain}, MatMulAttrs{}));
  const stablehlo::Program program = f.translated();
  CHECK_FALSE(has(program.module, "transpose"));
  CHECK_FALSE(has(program.module, "convert"));  // not even of the first product, which is only read as f32
  CHECK(has(program.module, "@main(%i0: tensor<2x3xbf16>, %w1: tensor<5x5xf32>, %"));
  CHECK(has(program.preparation, "@main(%w0: tensor<5x3xf32>) -> (tensor<3x5xbf16>)"));
  CHECK(program.parameters == std::vector<size_t>{1, 2});
  CHECK(program.prepared == std::vector<size_t>{0});

  f.options.prepare_weights = false;
  const stablehlo::Program whole = f.translated();
  CHECK(whole.preparation.empty());
  CHECK(whole.parameters == std::vector<size_t>{0, 1});
  CHECK(has(whole.module, "transpose"));
}

TEST_CASE("an input that is a state shares the buffer of its output") {
  Fixture f;
  const ValueId x = f.in("x", {Dim(2)}), state = f.in("state", {Dim(2)});
  f.output(f.b.create(OpKind::Add, {x, state}));
  f.lir.states.push_back({1, 0});
  CHECK(has(f.translated().module, "%i0: tensor<2xf32>, %i1: tensor<2xf32> {tf.aliasing_output = 0 : i32}"));
}

}  // namespace
}  // namespace rlxc
