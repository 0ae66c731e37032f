#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_shared_rounding";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

enum class Second : uint8_t { Region, Norm, Concat, Residual, Padded, Sliced, Pooled, Output };
struct Case {
  DType to = DType::U8;
  double zero = 3;
  Second second = Second::Region;
  int64_t rows = 6, fill = 3;

  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = f32_input(b, "x", {Dim(rows), Dim(8)}), scale = num(b, 0.05), z = b.scalar(to, zero);
    const double low = to == DType::U8 ? 0 : -128;
    FusionAttrs a;
    a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}},
               {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
               {OpKind::Add, DType::F32, {kStep | 1, 2, kNone}},
               {OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{low, low + 255}},
               {OpKind::Cast, to, {kStep | 3, kNone, kNone}}};
    const ValueId codes = b.create(OpKind::ElementwiseRegion, {x, scale, b.cast(z, DType::F32)}, a);
    const ValueId y = product(b, codes, z, "w");
    return {y, reader(b, codes, z, scale, y)};
  }

 private:
  static ValueId product(Builder& b, ValueId codes, ValueId z, std::string_view weight) {
    return b.create(OpKind::QMatMul, {codes, b.param(weight, tensor_type(DType::I8, {8, 8})), z});
  }
  // (codes - z) * s as steps from `first` on, of operands codes, z and s at these places.
  static std::vector<RegionStep> dequantized(uint16_t first, uint16_t codes, uint16_t z, uint16_t s) {
    const auto step = [&](size_t i) { return static_cast<uint16_t>(kStep | (first + i)); };
    return {{OpKind::Cast, DType::I32, {codes, kNone, kNone}},
            {OpKind::Sub, DType::I32, {step(0), z, kNone}},
            {OpKind::Cast, DType::F32, {step(1), kNone, kNone}},
            {OpKind::Mul, DType::F32, {step(2), s, kNone}}};
  }
  ValueId reader(Builder& b, ValueId codes, ValueId z, ValueId s, ValueId y) const {
    const ValueId wide = b.cast(z, DType::I32);
    FusionAttrs a{dequantized(0, 0, 1, 2)};
    switch (second) {
      case Second::Region: return b.create(OpKind::ElementwiseRegion, {codes, wide, s}, a);
      case Second::Norm:
        a.steps.push_back({OpKind::LayerNorm, DType::F32, {kStep | 3, kNone, kNone}, NormAttrs{1, 1e-5}});
        return b.create(OpKind::NormRegion, {codes, wide, s}, a);
      case Second::Concat:
        a.steps.push_back({OpKind::Neg, DType::F32, {kStep | 3, kNone, kNone}});
        return b.create(OpKind::ConcatRegion, {codes, wide, s}, ConcatRegionAttrs{a.steps, 1, 1, {3, 4}});
      case Second::Residual: {
        a.steps = dequantized(1, 4, 5, 6);
        a.steps.insert(a.steps.begin(), {OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}});
        a.steps.push_back({OpKind::Cast, DType::F32, {kStep, kNone, kNone}});
        a.steps.push_back({OpKind::Add, DType::F32, {kStep | 4, kStep | 5, kNone}});
        const ValueId other = b.cast(y, DType::U8), w = b.param("w2", tensor_type(DType::I8, {8, 8}));
        return b.create(OpKind::FusedQMatMul, {other, w, ValueId(), ValueId(), codes, wide, s}, a);
      }
      case Second::Padded: {
        const PadAttrs pad{{Dim(0), Dim(0)}, {Dim(2), Dim(0)}};
        return product(b, b.create(OpKind::Pad, {codes, b.scalar(to, static_cast<double>(fill))}, pad), z, "w2");
      }
      case Second::Sliced: return product(b, b.narrow(codes, 0, 1, 3), z, "w2");
      case Second::Pooled: return b.create(OpKind::Neg, {b.cast(codes, DType::F32)});
      case Second::Output: return codes;
    }
    return {};
  }
};

size_t roundings(const Rewrite& r) {
  size_t n = 0;
  for (const NodeId at : r.after->main().nodes())
    n += r.after->main().op(at) == OpKind::ElementwiseRegion && is_int8(r.after->main().dtype(r.after->main().result(at)));
  return n;
}

}  // namespace

TEST_CASE("fuse_shared_rounding: every reader rounds x itself") {
  for (DType t : {DType::U8, DType::I8})
    for (Second s : {Second::Region, Second::Norm, Second::Concat, Second::Residual, Second::Padded, Second::Sliced}) {
      CAPTURE(static_cast<int>(s));
      const Rewrite r(kPass, Case{.to = t, .second = s});
      CHECK(r.result.changed);
      CHECK(roundings(r) == 0);
      CHECK(r.run.decisions.at(0).fused);
    }
}

TEST_CASE("fuse_shared_rounding: another fill, an output and other readers stay") {
  for (const Case& c :
       {Case{.second = Second::Padded, .fill = 4}, Case{.second = Second::Pooled}, Case{.second = Second::Output}}) {
    const Rewrite r(kPass, c);
    CHECK_FALSE(r.result.changed);
    CHECK(roundings(r) == 1);
  }
}

TEST_CASE("fuse_shared_rounding: within the limits of the target, and where the launch takes longer") {
  CHECK(Rewrite(kPass, Case{}, [](PassRun& run) { run.target.region_max_steps = 6; }).first_decline() == "step_limit");
  CHECK(Rewrite(kPass, Case{}, [](PassRun& run) { run.target.region_max_inputs = 4; }).first_decline() == "operand_limit");
  CHECK(Rewrite(kPass, Case{}, [](PassRun& run) { run.target.machine.launch_ns = 0; }).first_decline() == "cost");
}
