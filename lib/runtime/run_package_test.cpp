// Packages against the reference evaluator: every op with kernels, random graphs, control flow, and whole packages.
#include "runtime/run_package.h"

#include <fstream>

#include "backend/c/cpu_package.h"
#include "backend/weight_files.h"
#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "runtime/process.h"
#include "support/eval.h"
#include "support/golden.h"
#include "support/norm_region.h"
#include "support/random_graph.h"
#include "support/same_results.h"
#include "support/temp_dir.h"

using namespace rlxc;
using enum OpKind;

namespace {

struct Spec {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  double low = -1, high = 1;
  bool weight = false, present = true;
};
Spec f32(std::vector<int64_t> dims, double low = -1, double high = 1) { return {DType::F32, std::move(dims), low, high}; }
Spec f16(std::vector<int64_t> dims) { return {DType::F16, std::move(dims)}; }
Spec ints(DType t, std::vector<int64_t> dims, double low, double high) { return {t, std::move(dims), low, high}; }
Spec i64(std::vector<int64_t> dims, double low, double high) { return ints(DType::I64, std::move(dims), low, high); }
Spec bools(std::vector<int64_t> dims) { return ints(DType::Bool, std::move(dims), 0, 1); }
Spec weight(Spec s) { return s.weight = true, s; }
Spec absent() {
  Spec s;
  return s.present = false, s;
}

// Many independent ops in one module, compiled together.
class Cases {
 public:
  // With `symbolic`, input dims become symbols: dim n is named `d / n`, because any text names a dim.
  explicit Cases(bool symbolic = false) : symbolic_(symbolic), b_(m_->main(), &d_) { m_->name = ForeignText("cases"); }

  void add(OpKind op, Attrs attrs, const std::vector<Spec>& specs) {
    std::vector<ValueId> operands;
    for (const Spec& s : specs) operands.push_back(s.present ? value(s) : ValueId());
    const NodeId n = b_.create_node(op, operands, std::move(attrs));
    REQUIRE_MESSAGE(n.valid(), std::string(kind_name(op)) << ": " << d_.text());
    for (size_t i = 0; i < m_->main().result_count(n); ++i) {
      m_->main().add_output(m_->main().result(n, i), m_->symbol("y" + std::to_string(labels_.size())));
      labels_.push_back(std::string(kind_name(op)) + " " + text(m_->main().type(m_->main().result(n, i)), m_->dims) +
                        ", output " + std::to_string(labels_.size()));
    }
  }
  void add(OpKind op, const std::vector<Spec>& specs) { add(op, default_attrs(op), specs); }

  std::optional<uint64_t> max_packed;  // of the plan

  // Long sums are compared with a tolerance derived from their length.
  void check(double rtol = 1e-4, double atol = 2e-5, const RunOptions& options = {}) {
    Diagnostics d;
    const auto expected = eval::evaluate(*m_, inputs_, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    const auto lir = plan_lir(std::move(m_), {.max_packed = max_packed, .verify = true}, d);
    REQUIRE_MESSAGE(lir.has_value(), d.text());
    const auto package = codegen::make_package(*lir, "cases", {}, d);
    REQUIRE_MESSAGE(package.has_value(), d.text());
    const auto actual = run_package(*package, inputs_, d, options);
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    for (size_t i = 0; i < expected->size(); ++i) {
      const auto r = eval::compare((*actual)[i], (*expected)[i], std::max(rtol, step((*expected)[i].tensor.dtype)), atol);
      CHECK_MESSAGE(r.pass, labels_[i] << ": " << r.message);
    }
  }

 private:
  // The distance to the next number of a low-precision type: nearly equal sums may round to either.
  static double step(DType t) { return t == DType::F16 ? 0x1p-10 : t == DType::BF16 ? 0x1p-7 : 0; }

  ValueId value(const Spec& s) {
    const std::string name = "x" + std::to_string(count_++);
    const eval::RandomRange range{s.low, s.high, static_cast<int64_t>(s.low), static_cast<int64_t>(s.high)};
    const Type exact = tensor_type(s.dtype, {s.dims.begin(), s.dims.end()});
    eval::HostValue v = eval::random_value(*m_, exact, {}, eval::seed_of(7, name), range);
    if (s.weight) return b_.param(name, exact, m_->data.add(v.tensor));
    std::vector<Dim> dims;
    for (int64_t n : s.dims) dims.push_back(symbolic_ ? m_->dims.symbol("d / " + std::to_string(n)) : Dim(n));
    inputs_.push_back(std::move(v));
    return b_.input(name, tensor_type(s.dtype, dims));
  }

  bool symbolic_;
  std::unique_ptr<Module> m_ = std::make_unique<Module>();
  Diagnostics d_;
  Builder b_;
  std::vector<eval::HostValue> inputs_;
  std::vector<std::string> labels_;
  size_t count_ = 0;
};

ConvAttrs conv(std::vector<int64_t> strides, std::vector<int64_t> pads, std::vector<int64_t> dilations, int64_t groups = 1) {
  ConvAttrs a;
  a.strides = strides, a.pads_begin = a.pads_end = pads, a.dilations = dilations, a.groups = groups;
  a.output_padding.assign(strides.size(), 0);
  return a;
}

PoolAttrs pool(ReduceOp op, std::vector<int64_t> kernel, std::vector<int64_t> strides, std::vector<int64_t> pads,
               bool count_pad = false) {
  PoolAttrs a;
  a.op = op, a.kernel = kernel, a.strides = strides, a.pads_begin = a.pads_end = pads, a.dilations.assign(kernel.size(), 1),
  a.count_include_pad = count_pad;
  return a;
}

std::vector<eval::HostValue> run_module(std::unique_ptr<Module> m, const std::vector<eval::HostValue>& inputs) {
  Diagnostics d;
  const auto lir = plan_lir(std::move(m), {.verify = true}, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto package = codegen::make_package(*lir, "m", {}, d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  const auto results = run_package(*package, inputs, d);
  REQUIRE_MESSAGE(results.has_value(), d.text());
  return *results;
}

void check_module(std::unique_ptr<Module> m, uint64_t seed) {
  const auto inputs = eval::random_inputs(*m, rlxc::testing::equivalence_options(*m, seed));
  Diagnostics d;
  const auto expected = eval::evaluate(*m, inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  const auto actual = run_module(std::move(m), inputs);
  REQUIRE(actual.size() == expected->size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const auto r = eval::compare(actual[i], (*expected)[i], 1e-4, 1e-5);
    CHECK_MESSAGE(r.pass, "seed " << seed << ", output " << i << ": " << r.message);
  }
}

void check_text(std::string_view text, uint64_t seed = 1) {
  Diagnostics d;
  auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  check_module(std::move(m), seed);
}

}  // namespace

TEST_CASE("kernels of elementwise ops compute what the evaluator does") {
  Cases c;
  for (size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (!has_trait(op, kElementwise) || op == ElementwiseRegion || op == Cast || op == Where || op == Fma) continue;
    if (has_trait(op, kCompare)) {
      c.add(op, {f32({3, 1}, -2, 2), f32({5}, -2, 2)});
      c.add(op, {i64({7}, 0, 3), i64({7}, 0, 3)});
    } else if (op == And || op == Or || op == Xor) {
      c.add(op, {bools({9}), bools({9})});
    } else if (op == Not) {
      c.add(op, {bools({9})});
    } else if (op == BitNot) {
      c.add(op, {ints(DType::U8, {9}, 0, 255)});
    } else if (op == BitAnd || op == BitOr || op == BitXor) {
      c.add(op, {ints(DType::I32, {9}, -99, 99), ints(DType::I32, {9}, -99, 99)});
    } else if (op == Shl || op == Shr) {
      c.add(op, {ints(DType::U32, {9}, 0, 999), ints(DType::U32, {9}, 0, 9)});
    } else if (op == Mod) {
      c.add(op, {i64({40}, -9, 9), i64({40}, 1, 4)});
    } else if (has_trait(op, kBinary)) {
      c.add(op, {f32({4, 19}, 0.2, 3), f32({4, 1}, 0.5, 2)});
      if (op == Add || op == Sub || op == Mul || op == Max || op == Min)
        c.add(op, {i64({5, 3}, -9, 9), i64({3}, -9, 9)}), c.add(op, {f16({33}), f16({33})});
      if (op == Div) c.add(op, {ints(DType::I32, {40}, -9, 9), ints(DType::I32, {40}, 1, 4)});
    } else {
      const bool above_one = op == Acosh, unit = op == Asin || op == Acos || op == Atanh;
      const double low = above_one                                                              ? 1.1
                         : unit                                                                 ? -0.9
                         : op == Log || op == Log1p || op == Sqrt || op == Rsqrt || op == Recip ? 0.1
                                                                                                : -3,
                   high = unit ? 0.9 : 3;
      c.add(op, {f32({3, 37}, low, high)});
    }
  }
  c.add(Where, {bools({4, 1}), f32({4, 6}), f32({6})});
  c.add(Fma, {f32({5}), f32({5}), f32({5})});
  c.add(Clamp, ClampAttrs{-0.25, 0.5}, {f32({33})});
  for (DType to : {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I32, DType::I64, DType::U8, DType::Bool}) {
    c.add(Cast, CastAttrs{to}, {f32({21}, 0, 100)});
    c.add(Cast, CastAttrs{to}, {i64({21}, 0, 100)});
    c.add(Cast, CastAttrs{to}, {bools({21})});
  }
  c.check();
}

TEST_CASE("kernels of movement and indexing compute what the evaluator does") {
  Cases c;
  c.add(Reshape, DimsAttrs{{6, 4}}, {f32({2, 3, 4})});
  c.add(Transpose, PermAttrs{{2, 0, 1}}, {f32({5, 6, 7})});
  c.add(Transpose, PermAttrs{{1, 0}}, {ints(DType::U8, {33, 65}, 0, 255)});
  c.add(Narrow, NarrowAttrs{1, 2, 3}, {f32({4, 6})});
  c.add(Slice, SliceAttrs{1, 5, 3, -2}, {f32({4, 6, 2})});
  c.add(Expand, DimsAttrs{{2, 3, 4}}, {f32({3, 1})});
  c.add(Reverse, AxesAttrs{{0, 2}}, {f32({2, 3, 4})});
  c.add(Tile, DimsAttrs{{2, 3}}, {f32({3, 2})});
  c.add(Concat, AxisAttrs{1}, {f32({2, 3}), f32({2, 1}), f32({2, 5})});
  c.add(Gather, AxisAttrs{1}, {f32({3, 5, 2}), i64({2, 2}, -5, 4)});
  c.add(GatherElements, AxisAttrs{1}, {f32({3, 5}), i64({3, 2}, -5, 4)});
  c.add(GatherNd, BatchDimsAttrs{0}, {f32({4, 5, 3}), i64({6, 2}, -4, 3)});
  c.add(GatherNd, BatchDimsAttrs{1}, {f32({2, 5, 3}), i64({2, 4, 1}, 0, 4)});
  c.add(ScatterElements, ScatterAttrs{1, Reduction::Add}, {f32({3, 5}), i64({3, 2}, 0, 4), f32({3, 2})});
  c.add(ScatterNd, ScatterAttrs{0, Reduction::Max}, {f32({4, 5}), i64({3, 1}, 0, 3), f32({3, 5})});
  for (PadMode mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
    c.add(Pad, PadAttrs{{1, 0}, {2, 3}, mode}, {f32({4, 5})});
  c.add(Trilu, TriluAttrs{true, 1}, {f32({2, 4, 5})});
  c.add(Trilu, TriluAttrs{false, -1}, {f32({4, 5})});
  c.add(Range, DimsAttrs{{7}}, {i64({}, 2, 2), i64({}, 3, 3)});
  for (const int64_t n : {0, 1, 7, 1300})  // the generator computes 624 words at a time
    for (const bool normal : {false, true}) c.add(Random, RandomAttrs{{Dim(n)}, DType::F32, normal, -2, 0.5, 77 + n}, {});
  c.add(OneHot, OneHotAttrs{1, 4}, {i64({3}, -4, 3), f32({2})});
  c.check();
}

TEST_CASE("kernels of reductions and norms compute what the evaluator does") {
  Cases c;
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod, ReduceOp::L1, ReduceOp::L2,
                      ReduceOp::LogSum, ReduceOp::LogSumExp, ReduceOp::SumSquare}) {
    const double low = op == ReduceOp::LogSum ? 0.1 : -1;
    c.add(Reduce, ReduceAttrs{op, {1}, true}, {f32({3, 7, 5}, low, 1)});
    c.add(Reduce, ReduceAttrs{op, {0, 2}, false}, {f32({3, 2, 37}, low, 1)});
  }
  c.add(Reduce, ReduceAttrs{ReduceOp::Sum, {0}, false}, {i64({40}, -9, 9)});
  c.add(Reduce, ReduceAttrs{ReduceOp::Max, {1}, false}, {f16({4, 9})});
  for (bool largest : {true, false})
    for (bool last : {true, false}) c.add(ArgReduce, ArgAttrs{1, largest, false, last}, {i64({4, 9}, 0, 3)});
  for (bool exclusive : {true, false})
    for (bool reverse : {true, false})
      for (OpKind op : {Cumsum, Cumprod}) c.add(op, CumAttrs{1, exclusive, reverse}, {f32({3, 6, 2})});
  c.add(Det, {f32({2, 3, 4, 4})});
  c.add(Det, {weight(f32({7, 7}, 0, 1))});
  c.add(TopK, TopKAttrs{3, 1, true, true}, {f32({4, 9})});
  c.add(TopK, TopKAttrs{2, 0, false, true}, {i64({5, 3}, 0, 3)});
  c.add(Softmax, AxisAttrs{1}, {f32({3, 50}, -9, 9)});
  c.add(Softmax, AxisAttrs{1}, {f32({3, 5, 4}, -9, 9)});
  c.add(LogSoftmax, AxisAttrs{1}, {f32({3, 50}, -9, 9)});
  c.add(LayerNorm, NormAttrs{1, 1e-5}, {f32({4, 37}), f32({37}), f32({37})});
  c.add(LayerNorm, NormAttrs{1, 1e-5}, {f32({4, 3, 5})});
  c.add(RmsNorm, NormAttrs{2, 1e-6}, {f16({2, 4, 32}), f16({32})});
  c.add(GroupNorm, GroupNormAttrs{2, 1e-5}, {f32({2, 4, 3, 3}), f32({4}), f32({4})});
  c.add(BatchNormInference, NormAttrs{1, 1e-5}, {f32({2, 4, 3}), f32({4}), f32({4}), f32({4}), f32({4}, 0.5, 2)});
  c.add(Lrn, LrnAttrs{3, 1e-2, 0.75, 1}, {f32({2, 5, 3})});
  c.add(FusedResidualLN, NormAttrs{1, 1e-5}, {f32({4, 16}), f32({4, 16}), f32({16}), f32({16}), f32({16})});
  c.add(FusedResidualRmsNorm, NormAttrs{1, 1e-5}, {f32({4, 16}), f32({4, 16}), absent(), f32({16})});
  c.add(NormRegion, test::norm_region({"layer_norm(i0;1e-05,0):f32", "mul(s0,i1):f32", "add(s1,i2):f32"}, 2, false),
        {f32({2, 5, 37}), f32({2, 1, 37}), f32({2, 1, 37})});
  c.add(NormRegion,
        test::norm_region({"mul(i0,i1):f32", "add(s0,i2):f32", "rms_norm(s1;1e-06,0):f32", "add(s2,s1):f32"}, 2, true),
        {f32({2, 5, 16}), f32({2, 1, 1}), f32({2, 5, 16})});
  c.add(NormRegion, test::norm_region({"add(i0,i1):f32", "layer_norm(s0;1e-05,0):f32", "silu(s1):f32"}, 1, true),
        {f32({3, 24}), f32({24})});
  c.add(NormRegion,
        test::norm_region({"tanh(i0):f32", "group_norm(s0;1e-05,2):f32", "mul(s1,i1):f32", "silu(s2):f32", "add(s3,i2):f32"}, 0,
                          false),
        {f32({2, 4, 3, 3}), f32({4, 1, 1}), f32({2, 4, 1, 3})});
  c.add(NormRegion, test::norm_region({"rms_norm(i0;1e-06,0):f32", "mul(s0,i1):f32"}, 1, false), {f32({3, 4, 9}), f32({4, 1})});
  for (const bool keep : {false, true})
    for (const int64_t width : {1, 9, 64}) {
      c.add(NormRegion,
            test::norm_region({"rms_norm(i0;1e-06,0):f32", "mul(s0,i1):f32", "add(s1,i2):f32", "layer_norm(s2;1e-05,0):f32",
                               "mul(s3,i3):f32", "rms_norm(s4;0.001,0):f32", "add(s5,s2):f32"},
                              1, keep),
            {f32({5, width}), f32({width}), f32({5, width}), f32({width})});
      c.add(NormRegion,
            test::norm_region(
                {"layer_norm(i0;1e-05,0):f32", "rms_norm(i1;1e-06,0):f32", "add(s0,s1):f32", "layer_norm(s2;1e-05,0):f32"}, 1,
                keep),
            {f32({3, 2, width}), f32({3, 2, width})});
    }
  for (const bool keep : {false, true})
    for (const int64_t width : {1, 9, 64}) {
      c.add(NormRegion,
            test::norm_region({"add(i0,i1):f32", "layer_norm(s0;1e-05,0):f32", "mul(s1,i2):f32", "div(s2,i3):f32",
                               "round(s3):f32", "clamp(s4;0,255):f32", "cast(s5):u8"},
                              1, keep, {2, 4}),
            {f32({5, width}), f32({5, width}), f32({width}), f32({}, 0.1, 0.2)});
      c.add(NormRegion, test::norm_region({"mul(i0,i1):f32", "softmax(s0;0,0):f32", "cast(s1):f16"}, 1, keep, {1}),
            {f32({5, width}), f32({1})});
    }
  for (const int64_t width : {1, 8, 19}) {
    const std::vector<std::string> halves{"neg(i0):f32", "mul(s0,i2):f32", "mul(i1,i3):f32", "add(s1,s2):f32", "abs(i1):f32"};
    c.add(ConcatRegion, test::concat_region(halves, 1, 1, {3, 4}),
          {f32({3, 4, width}), f32({3, 4, width}), f32({width}), f32({})});
    c.add(ConcatRegion, test::concat_region(halves, 2, 1, {3, 4, 3}),
          {f32({3, 4, width}), f32({3, 4, width}), f32({4, 1}), f32({1})});
    const std::vector<std::string> codes{"div(i0,i2):f32", "round(s0):f32", "clamp(s1;0,255):f32", "cast(s2):u8",
                                         "div(i1,i2):f32", "round(s4):f32", "clamp(s5;0,255):f32", "cast(s6):u8",
                                         "cast(i0):f32",   "cast(i1):f32"};
    c.add(ConcatRegion, test::concat_region(codes, 0, 2, {3, 7, 8, 9}), {f32({3, width}), f32({5, width}), f32({}, 0.1, 0.2)});
    c.add(ConcatRegion, test::concat_region(codes, 1, 2, {3, 7, 8, 9}), {f32({3, width}), f32({3, 2}), f32({}, 0.1, 0.2)});
    // Rows that are reduced, and halves of others.
    const std::vector<std::string> rows{"mul(i0,i0):f32", "reduce_mean(s0):f32", "sub(i0,s1):f32", "reduce_max(s2):f32",
                                        "add(i1,s3):f32", "mul(s4,i3):f32",      "mul(i2,s1):f32", "abs(i1):f32"};
    c.add(ConcatRegion, test::concat_region(rows, 2, 1, {5, 6}),
          {f32({3, 4, 2 * width}), f32({3, 4, width}), f32({3, 4, width}), f32({4, 1})});
    c.add(ConcatRegion, test::concat_region(rows, 2, 2, {5, 6, 7, 6, 5, 7}),
          {f32({3, 4, width + 1}), f32({4, width}), f32({width}), f32({})});
  }
  for (const auto& [axes, kept] : {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{2}, {2, 5, 1}},
                                   {{1}, {2, 1, 37}},
                                   {{0}, {5, 37}},
                                   {{0, 2}, {5, 1}},
                                   {{0, 1, 2}, {}}})
    for (const std::string op : {"sum", "mean", "max", "l2"}) {
      const Attrs masked =
          test::reduce_region({"mul(i0,i1):f32", "reduce_" + op + "(s0):f32", "abs(i2):f32", "add(s1,s2):f32"}, axes);
      c.add(ReduceRegion, masked, {f32({2, 5, 37}), f32({2, 1, 37}), f32(kept)});
      c.add(ReduceRegion, masked, {f32({2, 5, 37}), f32({5, 1}), f32(kept)});
    }
  c.add(ReduceRegion, test::reduce_region({"reduce_sum(i0):f16", "neg(s0):f16"}, {0}), {f16({6, 70})});
  c.add(ReduceRegion, test::reduce_region({"cast(i0):i32", "mul(s0,i1):i32", "reduce_sum(s1):i32"}, {1}),
        {bools({3, 40}), ints(DType::I32, {40}, -9, 9)});
  for (int64_t width : {1, 9, 40, 257})
    for (const char* kind : {"softmax", "log_softmax"}) {
      const std::string softmax = kind + std::string("(s1;0,0):f32");
      c.add(NormRegion, test::norm_region({"mul(i0,i1):f32", "add(s0,i2):f32", softmax}, 2, width == 9),
            {f32({2, 5, width}), f32({1}), f32({5, width}, -9, 9)});
      c.add(NormRegion, test::norm_region({"mul(i0,i1):f32", "add(s0,i2):f32", softmax, "mul(s2,i3):f32"}, 2, false),
            {f32({2, 5, width}), f32({1}), f32({2, 1, 1}), f32({2, 5, width})});
    }
  c.add(FusedSwiGLU, SwiGLUAttrs{}, {f32({3, 20})});
  c.add(SelectiveScan, {f32({2, 5, 3}), f32({2, 5, 3}, 0, 1), f32({3, 4}, -1, 0), f32({2, 5, 4}), f32({2, 5, 4})});
  for (bool inverse : {false, true}) c.add(Fft, FftAttrs{1, inverse, false, FftNorm::InverseN, 0}, {f32({2, 12, 2})});
  c.add(Fft, FftAttrs{1, false, true, FftNorm::None, 0}, {f32({2, 9, 1})});
  for (int64_t n : {1, 2, 3, 8, 30, 64, 77, 127}) {
    c.add(Fft, FftAttrs{1, false, false, FftNorm::None, 0}, {f32({2, n, 2})});
    c.add(Fft, FftAttrs{1, true, true, FftNorm::InverseN, Dim(n)}, {f32({2, n / 2 + 1, 2})});
    c.add(Fft, FftAttrs{1, false, false, FftNorm::Unitary, Dim(40)}, {f32({2, n, 3, 1})});
  }
  c.check();
}

TEST_CASE("regions around reductions of rows, and what becomes of the rows, compute what the evaluator does") {
  const std::vector<std::string> unit = {"reduce_l2(i0):%", "clamp(s0;1e-12,inf):%", "div(i0,s1):%", "mul(s2,i1):%"},
                                 softmax = {"mul(i0,i1):%", "reduce_max(s0):%", "sub(s0,s1):%",
                                            "exp(s2):%",    "reduce_sum(s3):%", "div(s3,s4):%"},
                                 spread = {"reduce_mean(i0):%", "reduce_max(i0):%", "reduce_min(i0):%", "sub(s1,s2):%",
                                           "add(s3,i1):%",      "sub(i0,s0):%",     "div(s5,s4):%"},
                                 one = {"reduce_max(i0):%", "sub(i0,s0):%", "exp(s1):%",
                                        "reduce_sum(s2):%", "log(s3):%",    "add(s0,s4):%"};
  const auto typed = [](std::vector<std::string> steps, std::string_view type) {
    for (std::string& s : steps) s.replace(s.find('%'), 1, type);
    return steps;
  };
  for (const bool symbolic : {false, true})
    for (const auto& row : {std::pair{DType::F32, 1e-4}, {DType::F64, 1e-9}, {DType::F16, 4e-3}, {DType::BF16, 3e-2}}) {
      const DType type = row.first;
      const double rtol = row.second;
      Cases c(symbolic);
      const auto of = [&](std::vector<int64_t> dims, double low = -1, double high = 1) {
        return Spec{type, std::move(dims), low, high};
      };
      for (const int64_t width : {0, 1, 2, 7, 16, 37, 64, 1031})
        for (const int64_t rows : {1, 5}) {
          const auto add = [&](const std::vector<std::string>& steps, Spec other) {
            c.add(ReduceRegion, test::reduce_region(typed(steps, name(type)), {2}), {of({rows, 3, width}), std::move(other)});
          };
          add(unit, of({width})), add(softmax, of({})), add(spread, of({}, 1, 2));
          if (!symbolic) add(unit, of({3, 1})), add(softmax, of({rows, 1, width})), add(spread, of({rows, 1, 1}, 1, 2));
          if (width > 0) c.add(ReduceRegion, test::reduce_region(typed(one, name(type)), {2}), {of({rows, 3, width})});
          c.add(ReduceRegion, test::reduce_region(typed(softmax, name(type)), {1, 2}), {of({rows, 3, width}), of({3, width})});
        }
      c.add(ReduceRegion, test::reduce_region(typed(unit, name(type)), {0, 1}), {of({9, 4}), of({})});
      c.check(rtol, rtol / 5);
    }
  Cases c;
  const std::vector<std::string> share = {"reduce_sum(i0):i64", "max(s0,i1):i64", "mul(i0,i1):i64", "div(s2,s1):i64"};
  c.add(ReduceRegion, test::reduce_region(share, {1}), {i64({4, 19}, 0, 9), i64({4, 1}, 1, 5)});
  c.add(ReduceRegion,
        test::reduce_region(
            {"cast(i0):f32", "mul(s0,s0):f32", "reduce_sum(s1):f32", "rsqrt(s2):f32", "mul(s0,s3):f32", "cast(s4):f16"}, {1}),
        {f16({5, 33})});
  c.add(ReduceRegion, test::reduce_region({"cast(i0):i32", "reduce_sum(s0):i32", "gt(s1,i1):bool", "and(s2,i0):bool"}, {1}),
        {bools({3, 40}), ints(DType::I32, {3, 1}, 10, 30)});
  c.check();
}

namespace {

// With all packed weights, or with a limit on their bytes.
void check_products(std::optional<uint64_t> max_packed) {
  Cases c;
  c.max_packed = max_packed;
  for (const bool constant : {false, true}) {
    auto w = [&](Spec s) { return s.weight = constant, s; };
    c.add(MatMul, {f32({7, 33}), w(f32({33, 50}))});
    c.add(MatMul, {f32({1, 65}), w(f32({65, 70}))});
    c.add(MatMul, MatMulAttrs{false, true}, {f32({2, 3, 9, 16}), w(f32({2, 3, 5, 16}))});
    c.add(MatMul, MatMulAttrs{true, false}, {f32({300, 13}), w(f32({300, 130}))});
    c.add(MatMul, {f16({5, 40}), w(f16({40, 20}))});
    c.add(MatMul, {ints(DType::I32, {3, 9}, -9, 9), w(ints(DType::I32, {9, 4}, -9, 9))});
    c.add(FusedMatMulBiasAct, FusedMatMulAttrs{false, false, {true, Gelu}},
          {f32({6, 20}), w(f32({20, 40})), f32({40}), f32({6, 40})});
    for (int64_t rows : {1, 7})
      for (int64_t columns : {6, 64})
        for (bool transposed : {false, true})
          for (const DType t : {DType::F32, DType::F16, DType::BF16}) {
            const Spec x{t, {2, rows, 40}},
                both{t, transposed ? std::vector{2 * columns, int64_t{40}} : std::vector{int64_t{40}, 2 * columns}};
            c.add(FusedMatMulSwiGLU, GatedMatMulAttrs{transposed, rows == 1, {}}, {x, w(both)});
            c.add(FusedMatMulSwiGLU, GatedMatMulAttrs{transposed, rows == 1, {true, Gelu}}, {x, w(both), Spec{t, {2 * columns}}});
          }
    for (int64_t rows : {1, 7})
      for (bool transposed : {false, true}) {
        const auto codes = [&](Spec s) { return transposed ? std::swap(s.dims[0], s.dims[1]), w(s) : w(s); };
        const auto with = [&](int64_t block, bool act) {
          return DequantMatMulAttrs{transposed, block, act ? Epilogue{true, Relu, 0, 0} : Epilogue()};
        };
        c.add(DequantMatMul, with(16, true),
              {f32({rows, 80}), codes(ints(DType::I8, {80, 40}, -128, 127)), codes(f32({5, 40}, 0.01, 0.1)), absent(), f32({40}),
               f32({rows, 40})});
        c.add(DequantMatMul, with(32, false),
              {f32({rows, 80}), codes(ints(DType::U4, {80, 40}, 0, 15)), codes(f32({3, 40}, 0.01, 0.1)),
               codes(ints(DType::U4, {3, 40}, 0, 15))});
        c.add(DequantMatMul, with(0, false),
              {f16({2, rows, 33}), codes(ints(DType::I4, {33, 21}, -8, 7)), codes(f32({1, 21}, 0.01, 0.1))});
        c.add(DequantMatMul, with(5, false),
              {f32({rows, 33}), codes(ints(DType::U8, {33, 21}, 0, 255)), codes(f32({1, 1}, 0.01, 0.1)),
               codes(f32({7, 21}, 100, 140))});
        c.add(DequantMatMul, with(0, false),
              {f32({rows, 40}), codes({DType::F8E4M3FN, {40, 24}, -9, 9}), codes(f32({1, 24}, 0.1, 0.3))});
        auto gate = with(16, true);
        gate.gated = true, gate.gate_first = transposed;
        for (int64_t columns : {20, 72})
          c.add(DequantMatMul, gate,
                {f32({rows, 48}), codes(ints(DType::I4, {48, 2 * columns}, -8, 7)), codes(f32({3, 2 * columns}, 0.01, 0.1)),
                 absent(), transposed ? f32({2 * columns}) : absent()});
        c.add(DequantMatMul, with(1, false),
              {f32({rows, 20}), codes(ints(DType::U2, {20, 12}, 0, 3)), codes(f32({20, 1}, 0.1, 0.3)),
               codes(ints(DType::U8, {1, 1}, 2, 2))});
        c.add(GroupedMatMul, MatMulAttrs{false, transposed},
              {f32({rows, 40}), w(transposed ? f32({3, 24, 40}) : f32({3, 40, 24})), i64({rows}, 0, 2)});
      }
    c.add(QMatMul, {ints(DType::U8, {5, 40}, 0, 255), w(ints(DType::I8, {40, 20}, -128, 127)), ints(DType::U8, {}, 0, 255)});
    c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}), {f32({2, 3, 8, 9}), w(f32({5, 3, 3, 3})), f32({5})});
    c.add(Conv, conv({2, 2}, {2, 2}, {2, 2}, 2), {f32({1, 4, 9, 9}), w(f32({6, 2, 3, 3}))});
    c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}, 8), {f32({1, 8, 6, 7}), w(f32({8, 1, 3, 3})), f32({8})});
    c.add(Conv, conv({2}, {3}, {1}), {f32({2, 4, 20}), w(f32({6, 4, 7}))});
    c.add(Conv, conv({1, 2, 1}, {1, 1, 1}, {1, 1, 1}), {f32({1, 2, 4, 5, 4}), w(f32({3, 2, 3, 3, 2}))});
    c.add(Conv, conv({2, 2}, {3, 3}, {1, 1}), {f32({2, 3, 23, 31}), w(f32({70, 3, 7, 7})), f32({70})});
    c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}), {f32({1, 40, 7, 7}), w(f32({13, 40, 3, 3}))});
    c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}), {f32({2, 30, 5, 10}), w(f32({11, 30, 3, 3})), f32({11})});
    c.add(Conv, conv({1, 1}, {0, 0}, {1, 1}), {f32({2, 17, 14, 14}), w(f32({9, 17, 1, 1})), f32({9})});
    c.add(Conv, conv({1, 1}, {0, 0}, {1, 1}), {f32({2, 203, 1, 1}), w(f32({9, 203, 1, 1})), f32({9})});
    c.add(MatMul, MatMulAttrs{false, true}, {f32({2, 333}), w(f32({9, 333}))});
    c.add(Conv, conv({2, 2}, {0, 0}, {1, 1}), {f32({1, 20, 13, 14}), w(f32({9, 20, 1, 1}))});
    c.add(Conv, conv({2, 3}, {1, 0}, {1, 1}), {f32({1, 6, 9, 70}), w(f32({4, 6, 1, 4}))});
    c.add(Conv, conv({3, 2}, {2, 1}, {2, 3}, 6), {f32({2, 6, 17, 40}), w(f32({12, 1, 3, 3})), f32({12})});
    c.add(Conv, conv({1, 1}, {3, 3}, {1, 1}, 5), {f32({1, 5, 14, 14}), w(f32({5, 1, 7, 7}))});
    c.add(Conv, conv({1, 1}, {5, 4}, {1, 1}), {f32({1, 2, 3, 2}), w(f32({3, 2, 2, 3}))});
    c.add(Conv, conv({16, 16}, {0, 0}, {1, 1}), {f32({1, 3, 32, 48}), w(f32({10, 3, 16, 16}))});
    c.add(ConvTranspose, conv({2, 2}, {1, 1}, {1, 1}), {f32({1, 4, 5, 5}), w(f32({4, 3, 3, 3})), f32({3})});
    c.add(FusedConvTransposeBiasAct, FusedConvAttrs{conv({2, 2}, {1, 1}, {1, 1}), {true, Relu, 0, 0}},
          {f32({1, 4, 5, 5}), w(f32({4, 3, 3, 3})), f32({3}), f32({1, 3, 9, 9})});
    c.add(QConv, conv({1, 1}, {1, 1}, {1, 1}),
          {ints(DType::U8, {1, 3, 6, 6}, 0, 255), w(ints(DType::I8, {4, 3, 3, 3}, -128, 127)), ints(DType::U8, {}, 0, 255)});
    c.add(QConv, conv({2, 2}, {1, 1}, {1, 1}, 4),
          {ints(DType::U8, {1, 4, 9, 20}, 0, 255), w(ints(DType::I8, {4, 1, 3, 3}, -128, 127)), ints(DType::U8, {}, 0, 255),
           ints(DType::I8, {4}, -9, 9)});
  }
  DotGeneralAttrs dot;
  dot.lhs_batch = {1}, dot.rhs_batch = {0}, dot.lhs_contracting = {2}, dot.rhs_contracting = {1};
  c.add(DotGeneral, dot, {f32({2, 3, 8}), f32({3, 8, 5})});
  FusedConvAttrs fused;
  fused.conv = conv({1, 1}, {1, 1}, {1, 1}), fused.act = {true, Relu};
  c.add(FusedConvBiasAct, fused, {f32({1, 3, 6, 6}), weight(f32({4, 3, 3, 3})), f32({4}), f32({1, 4, 6, 6})});
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Mean, ReduceOp::Sum, ReduceOp::L2}) {
    c.add(Pool, pool(op, {3, 3}, {2, 2}, {1, 1}), {f32({1, 2, 7, 8})});
    c.add(Pool, pool(op, {2}, {1}, {0}, true), {f32({1, 2, 7})});
  }
  c.add(MaxPoolIndices, pool(ReduceOp::Max, {2, 2}, {2, 2}, {0, 0}), {f32({1, 2, 6, 6})});
  c.check(1e-4, 2e-4);
}

}  // namespace

TEST_CASE("kernels of products and convolutions compute what the evaluator does") { check_products({}); }
TEST_CASE("kernels of products and convolutions do so with less memory for packed weights") { check_products(100'000); }

TEST_CASE("kernels of attention, rotary embedding, quantization, resizing and recurrence compute what the evaluator does") {
  Cases c;
  auto attention = [](MaskKind mask, AttentionLayout layout = AttentionLayout::BHSD, bool finite = false) {
    AttentionAttrs a;
    a.mask = mask, a.layout = a.out_layout = layout, a.window = 3, a.finite_mask = finite;
    if (layout == AttentionLayout::Packed) a.num_heads = 4, a.num_kv_heads = 2;
    return a;
  };
  for (MaskKind mask : {MaskKind::None, MaskKind::Causal, MaskKind::SlidingWindow}) {
    c.add(Attention, attention(mask), {f32({2, 4, 9, 16}), f32({2, 2, 9, 16}), f32({2, 2, 9, 16})});
    c.add(Attention, attention(mask), {f32({1, 2, 3, 8}), f32({1, 2, 70, 8}), f32({1, 2, 70, 20})});
    c.add(Attention, attention(mask, AttentionLayout::BSHD), {f32({2, 5, 4, 8}), f32({2, 5, 4, 8}), f32({2, 5, 4, 8})});
    c.add(Attention, attention(mask, AttentionLayout::Packed), {f32({2, 6, 32}), f32({2, 6, 16}), f32({2, 6, 16})});
  }
  c.add(Attention, attention(MaskKind::Bias), {f32({2, 4, 5, 8}), f32({2, 4, 6, 8}), f32({2, 4, 6, 8}), f32({4, 5, 6})});
  for (bool finite : {false, true}) {
    c.add(Attention, attention(MaskKind::Custom, AttentionLayout::BHSD, finite),
          {f32({2, 4, 5, 8}), f32({2, 4, 2, 8}), f32({2, 4, 2, 8}), bools({2, 1, 5, 2})});
    c.add(Attention, attention(MaskKind::Causal, AttentionLayout::BHSD, finite),
          {f32({1, 2, 9, 8}), f32({1, 2, 4, 8}), f32({1, 2, 4, 8})});
    c.add(Attention, attention(MaskKind::Causal, AttentionLayout::BHSD, finite),
          {f32({2, 2, 3, 8}), f32({2, 2, 3, 8}), f32({2, 2, 3, 8}), bools({2, 1, 1, 3})});
  }
  for (RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ})
    for (int64_t rotated : {0, 4})
      c.add(Rope, RopeAttrs{0, rotated, style}, {f32({2, 3, 5, 8}), f32({5, rotated ? 2 : 4}), f32({5, rotated ? 2 : 4})});
  for (RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ}) {
    c.add(Rope, RopeAttrs{16, 0, style, AttentionLayout::Packed, 1e-3},
          {f32({2, 3, 48}), f32({3, 16}), f32({3, 16}), f32({3, 16})});
    c.add(Rope, RopeAttrs{0, 10, style, AttentionLayout::BHSD, 1e-3}, {f32({2, 3, 5, 10}), f32({5, 5}), f32({5, 5}), f32({10})});
  }
  for (DType t : {DType::I8, DType::U8}) {
    c.add(Quantize, QuantAttrs{0, 0, t}, {f32({4, 9}, -9, 9), f32({}, 0.1, 0.1), ints(t, {}, 3, 3)});
    c.add(Quantize, QuantAttrs{1, 0, t}, {f32({4, 9}, -9, 9), f32({9}, 0.01, 0.1), ints(t, {9}, 0, 9)});
    c.add(Dequantize, QuantAttrs{1, 0, DType::F32}, {ints(t, {4, 9}, 0, 99), f32({9}, 0.01, 0.1), ints(t, {9}, 0, 9)});
  }
  for (CoordMode coord : {CoordMode::HalfPixel, CoordMode::AlignCorners, CoordMode::Asymmetric, CoordMode::PytorchHalfPixel})
    for (ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic}) {
      ResizeAttrs a;
      a.mode = mode, a.coord = coord, a.sizes = {1, 2, 7, 5};
      c.add(Resize, a, {f32({1, 2, 4, 8})});
    }
  ResizeAttrs shrink;
  shrink.mode = ResizeMode::Linear, shrink.sizes = {2, 3}, shrink.antialias = true;
  c.add(Resize, shrink, {f32({7, 8})});
  for (RnnDirection direction : {RnnDirection::Forward, RnnDirection::Reverse, RnnDirection::Bidirectional}) {
    const int64_t n = direction == RnnDirection::Bidirectional ? 2 : 1;
    RnnAttrs a;
    a.hidden = 18, a.direction = direction;
    c.add(Lstm, a,
          {f32({5, 3, 7}), weight(f32({n, 72, 7})), weight(f32({n, 72, 18})), f32({n, 144}), ints(DType::I32, {3}, 1, 5),
           f32({n, 3, 18}), f32({n, 3, 18}), f32({n, 54})});
    c.add(Rnn, a, {f32({5, 3, 7}), f32({n, 18, 7}), f32({n, 18, 18})});
    a.linear_before_reset = direction == RnnDirection::Reverse, a.clip = 0.5;
    c.add(Gru, a, {f32({5, 3, 7}), f32({n, 54, 7}), f32({n, 54, 18}), f32({n, 108})});
  }
  c.check();
}

TEST_CASE("long sums of half-precision values are f32 sums, rounded once") {
  Cases c;
  for (DType t : {DType::F16, DType::BF16}) {
    auto half = [t](std::vector<int64_t> dims) { return Spec{.dtype = t, .dims = std::move(dims)}; };
    c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}), {half({1, 40, 9, 9}), half({7, 40, 3, 3})});
    c.add(MatMul, {half({20, 600}), half({600, 70})});
    c.add(MatMul, {half({20, 600}), weight(half({600, 70}))});
  }
  c.check(1e-2, 1e-3);
}

TEST_CASE("kernels take sizes at run time") {
  Cases c(true);
  c.add(Add, {f32({4, 19}), f32({4, 19})});
  c.add(Mul, {f32({4, 19}), weight(f32({1}))});
  c.add(Transpose, PermAttrs{{2, 0, 1}}, {f32({5, 6, 7})});
  c.add(Concat, AxisAttrs{1}, {f32({2, 3}), f32({2, 1}), f32({2, 5})});
  c.add(Gather, AxisAttrs{0}, {weight(f32({9, 8})), i64({2, 3}, -9, 8)});
  c.add(Reduce, ReduceAttrs{ReduceOp::Mean, {1}, true}, {f32({3, 7, 5})});
  c.add(Softmax, AxisAttrs{1}, {f32({3, 50}, -9, 9)});
  c.add(LayerNorm, NormAttrs{1, 1e-5}, {f32({4, 37})});
  c.add(MatMul, {f32({7, 33}), weight(f32({33, 50}))});
  c.add(MatMul, MatMulAttrs{true, false}, {f32({3, 33, 7}), weight(f32({33, 50}))});  // one weight for all matrices of a batch
  c.add(MatMul, MatMulAttrs{true, false}, {f32({2, 3, 33, 7}), weight(f32({3, 33, 50}))});
  c.add(MatMul, {f32({7, 300}), f32({300, 50})});
  c.add(MatMul, MatMulAttrs{false, true}, {f32({2, 3, 9, 16}), f32({2, 3, 5, 16})});
  c.add(Conv, conv({1, 1}, {1, 1}, {1, 1}), {f32({2, 3, 20, 30}), weight(f32({5, 3, 3, 3})), weight(f32({5}))});
  c.add(Conv, conv({2, 2}, {1, 0}, {1, 1}), {f32({2, 3, 9, 13}), weight(f32({80, 3, 1, 1}))});
  c.add(Conv, conv({2, 1}, {1, 2}, {1, 2}, 6), {f32({2, 6, 11, 8}), weight(f32({6, 1, 3, 3}))});
  c.add(Cumsum, CumAttrs{1}, {f32({3, 6, 2})});
  c.add(Pad, PadAttrs{{1, 0}, {2, 3}, PadMode::Constant}, {f32({4, 5})});
  c.check();
}

TEST_CASE("random graphs run as packages") {
  for (uint64_t seed = 1; seed <= 6; ++seed)
    for (bool symbolic : {false, true})
      check_module(rlxc::testing::random_graph({.seed = seed, .nodes = 60, .symbolic = symbolic}), seed);
}

TEST_CASE("control flow runs on the host") {
  check_text(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[3]
  %1 = input "w" : f32[3]
  %2 = constant {data = dense [5]} : i64[]
  %3 = constant {data = dense [1]} : bool[]
  %4, %5 = loop(%2, %3, %0, %1) [@body] {carries = 1} : f32[3], f32[5,3]
  return %4 "y", %5 "ys"
}
graph @body {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f32[3]
  %3 = input "w" : f32[3]
  %4 = mul(%2, %3) : f32[3]
  %5 = cast(%0) {to = "f32"} : f32[]
  %6 = add(%4, %5) : f32[3]
  return %1, %6, %4
}
}
)");
  check_text(R"(module "m" mir {
graph @main {
  %0 = input "h" : f32[2]
  %1 = input "x" : f32[4,2]
  %2, %3 = scan(%0, %1) [@body] {states = 1, scan_inputs = 1, input_axes = [0], input_reverse = [1], output_axes = [0], output_reverse = [0]} : f32[2], f32[4,2]
  return %2 "h_last", %3 "hs"
}
graph @body {
  %0 = input "h" : f32[2]
  %1 = input "x" : f32[2]
  %2 = add(%0, %1) : f32[2]
  %3 = tanh(%2) : f32[2]
  return %3, %2
}
}
)");
}

namespace {

constexpr std::string_view kSmall = R"(module "small" mir {
graph @main {
  %0 = input "x" : f32[batch,8]
  %1 = param {data = splat 0.5} "w" : f32[8,20]
  %2 = constant {data = dense [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]} : f32[20]
  %3 = matmul(%0, %1) "product" : f32[batch,20]
  %4 = add(%3, %2) "sum" : f32[batch,20]
  return %4 "y"
}
}
)";

LirModule small_lir() {
  Diagnostics d;
  auto m = parse_text(kSmall, d);
  REQUIRE_MESSAGE(m, d.text());
  auto lir = plan_lir(std::move(m), {}, d);
  REQUIRE(lir);
  return std::move(*lir);
}

}  // namespace

TEST_CASE("the package is the same text every time, and both compilers take it without a word") {
  const LirModule lir = small_lir();
  Diagnostics d;
  const auto p = codegen::make_package(lir, "small", {}, d);
  REQUIRE_MESSAGE(p.has_value(), d.text());
  const std::vector<TextFile> files = write_cpu_package(*p, {});
  const auto again = codegen::make_package(lir, "small", {}, d);
  const std::vector<TextFile> files_again = write_cpu_package(*again, {});
  REQUIRE(files.size() == files_again.size());
  test::TempDir folder;
  for (size_t i = 0; i < files.size(); ++i) {
    CHECK(files[i].content == files_again[i].content);
    std::ofstream(folder / files[i].name) << files[i].content;
    if (files[i].name == "small.h" || files[i].name == "small.c" || files[i].name == "README.md")
      test::check_golden("cpu_package/" + files[i].name, files[i].content);
  }
  std::ofstream weights(folder / weights_file(*p), std::ios::binary);
  CHECK(write_weights(*p, {}, [&](std::span<const std::byte> b) {
    return weights.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size())).good();
  }));
  weights.close();
  std::ofstream input(folder / "x.bin", std::ios::binary);
  const std::vector<float> x(16, 1);
  input.write(reinterpret_cast<const char*>(x.data()), 64);
  input.close();
  std::string output;
  const std::string log = folder / "log";
  for (const std::string compiler : {"gcc", "clang"}) {
    for (const std::string flags :
         {"-O2 -Wall -Wextra -Werror", "-O1 -march=native -Wall -Wextra -Werror -fsanitize=undefined -fno-sanitize-recover"}) {
      if (!target::run_command({compiler, "--version"}, log, &output)) continue;
      const bool built =
          target::run_command({"make", "-s", "-B", "-C", folder.path(), "CC=" + compiler + " ", "CFLAGS=" + flags}, log, &output);
      CHECK_MESSAGE((built && output.empty()), compiler << " " << flags << ": " << output);
      REQUIRE(target::run_command({"sh", "-c", "cd " + folder.path() + " && ./run batch=2 x.bin"}, log, &output));
      std::ifstream out(folder / "output_0.bin", std::ios::binary);
      std::vector<float> y(40);
      out.read(reinterpret_cast<char*>(y.data()), 160);
      CHECK(out.gcount() == 160);
      for (size_t i = 0; i < 40; ++i) CHECK(y[i] == 4.0f + static_cast<float>(i % 20 + 1));
    }
  }
}

TEST_CASE("a package refuses what it cannot run, and says why") {
  const LirModule lir = small_lir();
  Diagnostics d;
  const auto p = codegen::make_package(lir, "small", {}, d);
  REQUIRE(p);
  const auto loaded = LoadedPackage::build(*p, {}, d);
  REQUIRE_MESSAGE(loaded, d.text());
  CHECK_FALSE(loaded->run({}, d));
  CHECK_FALSE(loaded->run(std::vector{test::f32({2, 7}, std::vector<double>(14))}, d));
  CHECK_FALSE(loaded->run(std::vector{test::i64({2, 8}, std::vector<double>(16))}, d));
  CHECK(d.text().find("axis 1 has size 7, expected 8") != std::string::npos);
  CHECK(loaded->run(std::vector{test::f32({2, 8}, std::vector<double>(16))}, d));
  CHECK(loaded->run(std::vector{test::f32({5, 8}, std::vector<double>(40))}, d));

  Diagnostics sequences;
  auto m = parse_text(
      "module \"m\" mir {\ngraph @main {\n  %0 = input \"s\" : string[2]\n  %1 = reverse(%0) {axes = [0]} \"back\" : string[2]\n "
      " return %1\n}\n}\n",
      sequences);
  REQUIRE_MESSAGE(m, sequences.text());
  const auto strings = plan_lir(std::move(m), {}, sequences);
  REQUIRE(strings);
  CHECK_FALSE(codegen::make_package(*strings, "m", {}, sequences));
  CHECK(sequences.text().find("back") != std::string::npos);
}

TEST_CASE("sizes that no input determines are refused by the evaluator and by kernels alike") {
  const auto parsed = [] {
    Diagnostics d;
    auto m = parse_text(
        "module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[ba-tch,4]\n  %1 = tanh(%0) : f32[ba-tch,4]\n  return "
        "%1\n}\n}\n",
        d);
    REQUIRE_MESSAGE(m, d.text());
    return m;
  };
  const std::vector<eval::HostValue> inputs = {test::f32({1, 4}, {1, 2, 3, 4})};
  Diagnostics evaluated, ran;
  CHECK_FALSE(eval::evaluate(*parsed(), inputs, evaluated));
  CHECK(evaluated.text().find("the inputs do not determine the size \"ba\": ba-tch is 1") != std::string::npos);
  const auto lir = plan_lir(parsed(), {}, ran);
  REQUIRE(lir);
  const auto p = codegen::make_package(*lir, "m", {}, ran);
  REQUIRE(p);
  const auto loaded = LoadedPackage::build(*p, {}, ran);
  REQUIRE_MESSAGE(loaded, ran.text());
  CHECK_FALSE(loaded->run(inputs, ran));
  CHECK(ran.text() == evaluated.text());
}

TEST_CASE("packages refuse indices of an input that are out of range, and name the input") {
  Diagnostics d;
  auto m = parse_text(
      "module \"m\" mir {\ngraph @main {\n  %0 = input \"table\" : f32[rows,2]\n  %1 = input \"at\" : i64[n]\n  %2 = gather(%0, "
      "%1) {axis = 0} : f32[n,2]\n  return %2\n}\n}\n",
      d);
  REQUIRE_MESSAGE(m, d.text());
  auto lir = plan_lir(std::move(m), {}, d);
  REQUIRE(lir);
  DimTable& dims = lir->module->dims;
  lir->index_inputs = {{1, dims.sub(dims.symbol("rows"), dims.symbol("n")), "the first of n rows"}};
  const auto p = codegen::make_package(*lir, "m", {}, d);
  REQUIRE_MESSAGE(p, d.text());
  const auto loaded = LoadedPackage::build(*p, {}, d);
  const auto device = make_interpreting_runner(*lir, "cuda", d);
  REQUIRE_MESSAGE((loaded && device), d.text());
  const auto refused = [&](std::vector<double> at, const std::string& reason, const std::string& on_device) {
    const std::vector inputs{test::f32({4, 2}, std::vector<double>(8)), test::i64({static_cast<int64_t>(at.size())}, at)};
    Diagnostics in_c, in_program;
    CHECK(loaded->run(inputs, in_c).has_value() == reason.empty());
    CHECK(device->run(inputs, in_program).has_value() == reason.empty());
    CHECK_MESSAGE(in_c.text().find(reason) != std::string::npos, in_c.text());
    CHECK_MESSAGE(in_program.text().find(on_device) != std::string::npos, in_program.text());
  };
  refused({0, 2}, "", "");
  refused({3}, "", "");
  refused({}, "", "");
  refused({0, 3}, "input \"at\": 3 is out of range: the first of n rows, so that 0 to 2 are valid",
          "\"at\" holds 3, which is not within 0..2");
  refused({-1}, "-1 is out of range", "holds -1, which is not within 0..3");
  refused({-1e18}, "-1000000000000000000 is out of range", "holds -1000000000000000000");
  refused({0, 0, 0, 0, 0}, "no value is valid", "is not within 0..-1");
}
