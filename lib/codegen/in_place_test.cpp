// Results that overwrite an operand: the kernels of each op must equal the reference evaluator, and the interpreter must see no
// read of an overwritten element.
#include <doctest/doctest.h>

#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "runtime/run_package.h"
#include "support/norm_region.h"

using namespace rlxc;

namespace {

Type f32(std::vector<Dim> dims) { return tensor_type(DType::F32, std::move(dims)); }

ConvAttrs conv(int64_t pad, int64_t groups = 1) {
  ConvAttrs a;
  a.strides = a.dilations = {1, 1}, a.pads_begin = a.pads_end = {pad, pad}, a.groups = groups, a.output_padding = {0, 0};
  return a;
}

// Independent ops in one module, each between elementwise ops, which places operands and results in the arena.
class Cases {
 public:
  Cases() : b_(m_->main(), &d_) { m_->name = ForeignText("in_place"); }

  // `overwritten`: the number of results that overwrite an operand.
  void add(OpKind op, Attrs attrs, const std::vector<Type>& types, size_t overwritten = 1) {
    std::vector<ValueId> operands;
    for (const Type& t : types) {
      const ValueId x = b_.input("x" + std::to_string(inputs_.size()), t);
      if (op == OpKind::FusedRopeAppend && t.dtype == DType::I64) inputs_.push_back(rows(t));
      else inputs_.push_back(eval::random_value(*m_, t, {}, inputs_.size(), {.low = -2, .high = 2, .int_low = 0, .int_high = 2}));
      operands.push_back(t.dtype == DType::I64 ? x : b_.unary(OpKind::Neg, x));
    }
    const NodeId n = b_.create_node(op, operands, std::move(attrs));
    REQUIRE_MESSAGE(n.valid(), d_.text());
    for (size_t r = 0; r < m_->main().result_count(n); ++r) {
      m_->main().add_output(b_.unary(OpKind::Abs, m_->main().result(n, r)), {});
      labels_.push_back(std::string(kind_name(op)) + " " + text(m_->main().type(m_->main().result(n, r)), m_->dims));
    }
    overwritten_ += overwritten;
  }

  void check() {
    const auto expected = eval::evaluate(*m_, inputs_, d_);
    REQUIRE_MESSAGE(expected.has_value(), d_.text());
    const auto lir = plan_lir(std::move(m_), {.verify = true}, d_);
    REQUIRE_MESSAGE(lir.has_value(), d_.text());
    const Graph& g = lir->module->main();
    size_t overwritten = 0;
    for (NodeId n : g.nodes())
      for (size_t r = 0; !has_trait(g.op(n), kElementwise) && r < g.result_count(n); ++r)
        overwritten += lir->plans[0].slot[g.result(n, r).raw].in_place;
    CHECK(overwritten == overwritten_);
    const auto agrees = [&](const std::optional<std::vector<eval::HostValue>>& actual, const char* how) {
      REQUIRE_MESSAGE(actual.has_value(), how << ": " << d_.text());
      for (size_t i = 0; i < expected->size(); ++i) {
        const auto compared = eval::compare((*actual)[i], (*expected)[i], 1e-3, 1e-4);
        CHECK_MESSAGE(compared.pass, how << ", " << labels_[i] << ": " << compared.message);
      }
    };
    for (const char* target : {"cpu", "cuda", "wgpu"}) {
      const auto runner = make_interpreting_runner(*lir, target, d_);
      REQUIRE_MESSAGE(runner != nullptr, d_.text());
      agrees(runner->run(inputs_, d_), target);
    }
    const auto package = codegen::make_package(*lir, "in_place", {}, d_);
    REQUIRE_MESSAGE(package.has_value(), d_.text());
    agrees(run_package(*package, inputs_, d_), "compiled");
  }

 private:
  // Rows [B,1,S,1] of a cache: 1, 2, ... of each batch.
  eval::HostValue rows(const Type& t) const {
    std::vector<int64_t> sizes, numbers;
    for (Dim d : t.dims) sizes.push_back(d.size());
    for (int64_t i = 0; i < sizes[0] * sizes[2]; ++i) numbers.push_back(1 + i % sizes[2]);
    return {TypeKind::Tensor, make_data(DType::I64, sizes, numbers), {}};
  }

  std::unique_ptr<Module> m_ = std::make_unique<Module>();
  Diagnostics d_;
  Builder b_;
  std::vector<eval::HostValue> inputs_;
  std::vector<std::string> labels_;
  size_t overwritten_ = 0;
};

}  // namespace

TEST_CASE("rows are normalised in place") {
  Cases c;
  for (const int64_t width : {1, 7, 37, 64}) {
    const Type x = f32({5, Dim(width)}), row = f32({Dim(width)});
    c.add(OpKind::Softmax, AxisAttrs{1}, {x});
    c.add(OpKind::Softmax, AxisAttrs{0}, {x});
    c.add(OpKind::LogSoftmax, AxisAttrs{1}, {x});
    c.add(OpKind::LayerNorm, NormAttrs{1, 1e-5}, {x, row, row});
    c.add(OpKind::RmsNorm, NormAttrs{1, 1e-5}, {x, row});
    c.add(OpKind::FusedResidualLN, NormAttrs{1, 1e-5}, {x, x, row, row, row}, 2);
    c.add(OpKind::FusedResidualRmsNorm, NormAttrs{1, 1e-5}, {x, x, row, row}, 2);
    for (const OpKind norm : {OpKind::Softmax, OpKind::LogSoftmax, OpKind::LayerNorm})
      for (const bool more : {false, true}) {
        FusionAttrs a;
        a.steps = {{OpKind::Mul, DType::F32, {0, 1, RegionStep::kNone}},
                   {norm,
                    DType::F32,
                    {RegionStep::kStep, RegionStep::kNone, RegionStep::kNone},
                    norm == OpKind::LayerNorm ? StepAttrs(NormAttrs{1, 1e-5}) : StepAttrs(AxisAttrs{1})}};
        if (more) a.steps.push_back({OpKind::Add, DType::F32, {RegionStep::kStep | 1, 0, RegionStep::kNone}});
        c.add(OpKind::NormRegion, a, {x, row});
      }
  }
  c.add(OpKind::GroupNorm, GroupNormAttrs{2, 1e-5}, {f32({2, 4, 3, 5}), f32({4}), f32({4})});
  const Type half = tensor_type(DType::F16, {Dim(5), Dim(16)}), row = tensor_type(DType::F16, {Dim(16)});
  c.add(OpKind::Softmax, AxisAttrs{1}, {half});
  c.add(OpKind::FusedResidualLN, NormAttrs{1, 1e-5}, {half, half, row, row, row}, 1);
  c.check();
}

TEST_CASE("regions around a norm take the place of what they read") {
  Cases c;
  const Attrs modulated = test::norm_region({"layer_norm(i0;1e-05,0):f32", "mul(s0,i1):f32", "add(s1,i2):f32"}, 1, false);
  const Attrs sum = test::norm_region({"add(i0,i1):f32", "rms_norm(s0;1e-06,0):f32", "mul(s1,i2):f32"}, 1, true);
  const Attrs both = test::norm_region({"add(i0,i1):f32", "rms_norm(s0;1e-06,0):f32", "add(s1,i1):f32"}, 1, true);
  const Attrs all = test::norm_region({"add(i0,i1):f32", "rms_norm(s0;1e-06,0):f32", "mul(s1,i0):f32"}, 1, false, {1});
  const Attrs again = test::norm_region({"mul(i0,i0):f32", "rms_norm(s0;1e-06,0):f32", "add(s1,s0):f32"}, 1, true);
  const Attrs chain =
      test::norm_region({"rms_norm(i0;1e-06,0):f32", "mul(s0,i2):f32", "add(s1,i1):f32", "rms_norm(s2;1e-06,0):f32"}, 1, true);
  const Attrs chain_again = test::norm_region(
      {"layer_norm(i0;1e-05,0):f32", "add(s0,i1):f32", "layer_norm(s1;1e-05,0):f32", "add(s2,s0):f32"}, 1, true);
  for (const int64_t width : {1, 7, 37, 64}) {
    const Type x = f32({5, Dim(width)}), row = f32({Dim(width)});
    c.add(OpKind::NormRegion, chain, {x, x, row}, 2);
    c.add(OpKind::NormRegion, chain_again, {x, x}, 1);  // the first norm's operand is read again for the result
    c.add(OpKind::NormRegion, modulated, {x, row, row});
    c.add(OpKind::NormRegion, sum, {x, x, row}, 2);
    c.add(OpKind::NormRegion, both, {x, x}, 2);  // the sum overwrites the first operand, the result the second
    c.add(OpKind::NormRegion, again, {x}, 1);    // the sum is stored before the operand's last read
    c.add(OpKind::NormRegion, all, {x, x}, 2);   // two results of the last walk
  }
  const Type half = tensor_type(DType::F16, {Dim(5), Dim(16)});
  c.add(OpKind::NormRegion, test::norm_region({"add(i0,i1):f16", "rms_norm(s0;1e-06,0):f16"}, 1, true), {half, half}, 1);
  c.add(OpKind::NormRegion,
        test::norm_region({"tanh(i0):f32", "group_norm(s0;1e-05,2):f32", "silu(s1):f32", "add(s2,i1):f32"}, 0, false),
        {f32({2, 4, 3, 3}), f32({2, 4, 3, 3})});
  c.check();
}

TEST_CASE("rows take the place of what they are made of by their own reductions, values of rows do not") {
  Cases c;
  const Attrs unit =
      test::reduce_region({"reduce_l2(i0):f32", "clamp(s0;1e-12,inf):f32", "div(i0,s1):f32", "mul(s2,i1):f32"}, {1});
  const Attrs softmax = test::reduce_region({"add(i0,i1):f32", "reduce_max(s0):f32", "sub(s0,s1):f32", "exp(s2):f32",
                                             "reduce_sum(s3):f32", "div(s3,s4):f32", "mul(s5,i0):f32"},
                                            {1});
  const Attrs one = test::reduce_region({"abs(i0):f32", "reduce_max(s0):f32", "add(s1,i1):f32"}, {1});
  for (const int64_t width : {1, 7, 37, 64}) {
    const Type x = f32({5, Dim(width)}), row = f32({Dim(width)}), kept = f32({5, 1});
    const size_t overwritten = width > 1;  // a row of one element is invariant along the row
    c.add(OpKind::ReduceRegion, unit, {x, row}, overwritten);
    c.add(OpKind::ReduceRegion, softmax, {x, x}, overwritten);
    c.add(OpKind::ReduceRegion, one, {x, kept}, 0);
  }
  c.check();
}

TEST_CASE("positions are rotated in place") {
  Cases c;
  const Type table = f32({6, 4});
  for (const RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ}) {
    RopeAttrs a;
    a.style = style;
    c.add(OpKind::Rope, a, {f32({2, 3, 6, 8}), table, table});
    c.add(OpKind::Rope, a, {f32({2, 3, 6, 8}), table, table, f32({8})});
    a.n_rot = 8;
    c.add(OpKind::Rope, a, {f32({2, 3, 6, 11}), table, table});
  }
  c.check();
}

TEST_CASE("products and convolutions are added to their residual in place") {
  Cases c;
  for (const auto& [rows, depth, columns] :
       {std::array<int64_t, 3>{1, 5, 3}, {2, 300, 40}, {7, 33, 5}, {33, 260, 37}, {20, 8, 64}}) {
    const Type y = f32({Dim(rows), Dim(columns)});
    c.add(OpKind::FusedMatMulBiasAct, FusedMatMulAttrs{},
          {f32({Dim(rows), Dim(depth)}), f32({Dim(depth), Dim(columns)}), f32({Dim(columns)}), y});
    c.add(OpKind::DequantMatMul, DequantMatMulAttrs{true, 16, {}},
          {f32({Dim(rows), Dim(depth)}), tensor_type(DType::I8, {Dim(columns), Dim(depth)}),
           f32({Dim(columns), Dim((depth + 15) / 16)}), f32({1, 1}), f32({Dim(columns)}), y});
  }
  for (const int64_t side : {1, 5, 11}) {
    const Type x = f32({2, 6, Dim(side), Dim(side)}), y = f32({2, 4, Dim(side), Dim(side)});
    FusedConvAttrs dense, grouped, depthwise;
    dense.conv = conv(1), grouped.conv = conv(1, 2), depthwise.conv = conv(1, 6);
    c.add(OpKind::FusedConvBiasAct, dense, {x, f32({4, 6, 3, 3}), f32({4}), y});
    c.add(OpKind::FusedConvBiasAct, grouped, {x, f32({4, 3, 3, 3}), f32({4}), y});
    c.add(OpKind::FusedConvTransposeBiasAct, dense, {x, f32({6, 4, 3, 3}), f32({4}), y});
    c.add(OpKind::FusedConvBiasAct, depthwise, {x, f32({6, 1, 3, 3}), f32({6}), x}, 0);
  }
  c.check();
}

TEST_CASE("a scatter changes its operand in place") {
  Cases c;
  const Type at = tensor_type(DType::I64, {Dim(2), Dim(3)});
  c.add(OpKind::ScatterElements, ScatterAttrs{0}, {f32({4, 3}), at, f32({2, 3})});
  c.add(OpKind::ScatterElements, ScatterAttrs{0, Reduction::Add}, {f32({4, 3}), at, f32({2, 3})});
  c.add(OpKind::ScatterNd, ScatterAttrs{}, {f32({4, 3}), tensor_type(DType::I64, {Dim(2), Dim(1)}), f32({2, 3})});
  c.check();
}

TEST_CASE("an operand that the operation reads in another way too is not overwritten") {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.unary(OpKind::Neg, b.input("x", f32({8, 8})));
  const ValueId w = b.param("w", f32({8, 8}));
  const ValueId y = b.create(OpKind::FusedMatMulBiasAct, {x, w, ValueId(), x}, FusedMatMulAttrs{});
  m->main().add_output(b.unary(OpKind::Abs, y), {});
  Diagnostics d;
  const auto lir = plan_lir(std::move(m), {.verify = true}, d);
  REQUIRE(lir.has_value());
  const Graph& g = lir->module->main();
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::FusedMatMulBiasAct) CHECK_FALSE(lir->plans[0].slot[g.result(n).raw].in_place);
}

TEST_CASE("caches are written in place, and queries rotated beside them") {
  Cases c;
  const auto rope = [](int64_t rotated, RopeStyle style) { return RopeAttrs{.n_rot = rotated, .style = style}; };
  for (const int64_t length : {1, 5})
    for (const int64_t width : {6, 16, 64}) {
      const auto heads = [&](int64_t n, int64_t rows) { return f32({2, n, rows, width}); };
      const Type at = tensor_type(DType::I64, {1, 1, length, 1}), half = f32({length, Dim(width / 2)}),
                 whole = f32({length, width});
      for (const RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ})
        for (const Type& table : {half, whole})
          c.add(OpKind::FusedRopeAppend, rope(0, style),
                {heads(4, length), heads(2, length), heads(2, length), table, table, heads(2, 9), heads(2, 9), at}, 2);
      const Type cache = tensor_type(DType::F16, {2, 2, 9, width});
      c.add(OpKind::FusedRopeAppend, rope(0, RopeStyle::NeoX),
            {heads(4, length), heads(2, length), heads(2, length), half, half, cache, cache, at}, 2);
      const Type part = f32({length, 2}), each = tensor_type(DType::I64, {2, 1, length, 1});
      c.add(OpKind::FusedRopeAppend, rope(4, RopeStyle::NeoX),
            {heads(3, length), heads(1, length), f32({2, 1, length, 3}), part, part, heads(1, 9), f32({2, 1, 9, 3}), each}, 2);
    }
  c.check();
}
