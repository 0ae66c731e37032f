#include <cmath>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "recognise_attention";

enum class Scale { None, Query, Both, ScoresMul, ScoresDiv };
enum class MaskForm {
  None,
  Additive,
  Padding,
  CausalConstant,
  CausalRange,
  CausalTrilu,
  CausalProduct,
  CausalCut,
  CausalAndPadding,
  CausalOfEach,
  OtherOfEach,
  PaddedSum,
  PaddedBoth,
  PaddedOther,
  Window,
  FullRowHidden
};

struct Form {
  Scale scale = Scale::ScoresDiv;
  MaskForm mask = MaskForm::None;
  int64_t kv_heads = 2;  // of 2
  bool packed = true, transposed_keys = true, guard = false, moved_back = true, tap_scores = false, tap_probabilities = false;
  double softcap = 0;
  int64_t axis = 3;
};

constexpr int64_t kBatch = 2, kHeads = 2, kRows = 5, kWidth = 4;

// Splits [B,S,H*D] into [B,S,H,D] and transposes to [B,H,S,D]; or an input of this shape.
ValueId heads_of(Builder& b, std::string_view name, int64_t heads, bool packed) {
  if (!packed) return f32_input(b, name, {kBatch, heads, kRows, kWidth});
  return b.transpose(b.reshape(f32_input(b, name, {kBatch, kRows, heads * kWidth}), {kBatch, kRows, heads, kWidth}),
                     {0, 2, 1, 3});
}
ValueId repeated(Builder& b, ValueId v, int64_t heads) {
  if (heads == kHeads) return v;
  v = b.expand(b.reshape(v, {kBatch, heads, 1, kRows, kWidth}), {kBatch, heads, kHeads / heads, kRows, kWidth});
  return b.reshape(v, {kBatch, kHeads, kRows, kWidth});
}
ValueId bools(Builder& b, std::vector<int64_t> dims, const std::function<bool(int64_t)>& f) {
  std::vector<uint8_t> v(static_cast<size_t>(dims[dims.size() - 1] * dims[dims.size() - 2]));
  for (size_t i = 0; i < v.size(); ++i) v[i] = f(static_cast<int64_t>(i));
  return b.constant(make_data(DType::Bool, dims, v));
}

ValueId causal(Builder& b, int64_t window) {
  return bools(b, {1, 1, kRows, kRows}, [=](int64_t i) { return i % kRows <= i / kRows && i % kRows >= i / kRows - window; });
}
ValueId additive(Builder& b, ValueId visible) {
  return b.create(OpKind::Where, {visible, num(b, 0), num(b, -std::numeric_limits<float>::max())});
}
ValueId padding(Builder& b) {
  return b.reshape(b.cast(b.input("keep", tensor_type(DType::I64, {kBatch, kRows})), DType::Bool), {kBatch, 1, 1, kRows});
}

// A causal mask per batch entry; `other`: the last entry sees all keys.
ValueId of_each(Builder& b, bool other) {
  std::vector<float> v;
  for (int64_t i = 0; i < kBatch * kRows * kRows; ++i) {
    const int64_t row = i / kRows % kRows, key = i % kRows;
    v.push_back(key <= row || (other && i >= (kBatch - 1) * kRows * kRows) ? 0 : -std::numeric_limits<float>::max());
  }
  return b.constant(make_data(DType::F32, {kBatch, 1, kRows, kRows}, v));
}
// The causal mask combined with padding as exporters write it: hidden where mask + keep == 0, or where mask == 0 and keep == 0.
// `other`: the condition tests a different mask.
ValueId padded(Builder& b, bool sum, bool other) {
  const ValueId mask = of_each(b, false), keep = b.cast(b.cast(padding(b), DType::I64), DType::F32),
                asked = other ? of_each(b, true) : mask;
  const auto zero = [&](ValueId v) { return b.create(OpKind::Eq, {v, num(b, 0)}); };
  const ValueId hide = sum ? zero(b.add(asked, keep)) : b.create(OpKind::And, {zero(asked), zero(keep)});
  return b.create(OpKind::Where, {hide, num(b, -std::numeric_limits<float>::max()), mask});
}

ValueId masked(Builder& b, ValueId s, MaskForm m) {
  switch (m) {
    case MaskForm::None: return s;
    case MaskForm::CausalOfEach: return b.add(s, of_each(b, false));
    case MaskForm::OtherOfEach: return b.add(s, of_each(b, true));
    case MaskForm::PaddedSum: return b.add(s, padded(b, true, false));
    case MaskForm::PaddedBoth: return b.add(s, padded(b, false, false));
    case MaskForm::PaddedOther: return b.add(s, padded(b, false, true));
    case MaskForm::Additive: return b.add(s, f32_input(b, "bias", {kHeads, kRows, kRows}));
    case MaskForm::Padding: return b.add(s, additive(b, padding(b)));
    case MaskForm::CausalConstant: return b.add(s, additive(b, causal(b, kRows)));
    case MaskForm::Window: return b.add(s, additive(b, causal(b, 2)));
    case MaskForm::CausalAndPadding: return b.add(s, additive(b, b.create(OpKind::And, {causal(b, kRows), padding(b)})));
    case MaskForm::CausalTrilu: {
      const ValueId ones = b.constant(make_splat(DType::Bool, {kRows, kRows}, element_bytes(DType::Bool, 1)));
      return b.create(OpKind::Where, {b.create(OpKind::Trilu, {ones}, TriluAttrs{false, 0}), s, num(b, -1e30)});
    }
    case MaskForm::CausalRange: {
      const ValueId i = b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{kRows}, false});
      return b.add(s, additive(b, b.create(OpKind::Le, {b.reshape(i, {1, kRows}), b.reshape(i, {kRows, 1})})));
    }
    case MaskForm::CausalProduct: {
      const ValueId i = b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{kRows}, false});
      const ValueId late = b.create(OpKind::Gt, {i, b.reshape(i, {kRows, 1})});
      const ValueId hidden = b.mul(b.cast(late, DType::F32), num(b, -std::numeric_limits<float>::max()));
      return b.add(s, b.reshape(hidden, {1, 1, kRows, kRows}));
    }
    case MaskForm::CausalCut: {  // cut from the buffer for the longest sequence
      constexpr int64_t kLongest = 4 * kRows;
      const ValueId all = bools(b, {1, 1, kLongest, kLongest}, [](int64_t k) { return k % kLongest <= k / kLongest; });
      const ValueId cut = b.narrow(b.narrow(all, 2, Dim(3), Dim(kRows)), 3, Dim(3), Dim(kRows));
      return b.create(OpKind::Where, {cut, s, num(b, -1e30)});
    }
    case MaskForm::FullRowHidden:
      return b.add(s, additive(b, bools(b, {1, 1, kRows, kRows}, [](int64_t i) { return i >= kRows; })));
  }
  return s;
}

Rewrite::Build attention(Form f) {
  return [f](Builder& b) {
    const double whole = 1 / std::sqrt(static_cast<double>(kWidth));
    ValueId q = heads_of(b, "q", kHeads, f.packed), k = repeated(b, heads_of(b, "k", f.kv_heads, f.packed), f.kv_heads),
            v = repeated(b, heads_of(b, "v", f.kv_heads, f.packed), f.kv_heads);
    if (f.scale == Scale::Query) q = b.mul(q, num(b, whole));
    if (f.scale == Scale::Both) q = b.mul(q, num(b, std::sqrt(whole))), k = b.mul(k, num(b, std::sqrt(whole)));
    ValueId s = f.transposed_keys ? b.matmul(q, b.transpose(k, {0, 1, 3, 2})) : b.matmul(q, k, false, true);
    std::vector<ValueId> out;
    if (f.tap_scores) out.push_back(s);
    if (f.scale == Scale::ScoresMul) s = b.mul(num(b, whole), s);
    if (f.scale == Scale::ScoresDiv) s = b.div(s, num(b, 1 / whole));
    if (f.softcap != 0) s = b.mul(b.unary(OpKind::Tanh, b.div(s, num(b, f.softcap))), num(b, f.softcap));
    s = masked(b, s, f.mask);
    ValueId p = b.create(OpKind::Softmax, {s}, AxisAttrs{f.axis});
    if (f.tap_probabilities) out.push_back(p);
    if (f.guard) p = b.create(OpKind::Where, {b.unary(OpKind::IsNan, p), num(b, 0), p});
    ValueId y = b.matmul(p, v);
    if (f.moved_back) y = b.reshape(b.transpose(y, {0, 2, 1, 3}), {kBatch, kRows, kHeads * kWidth});
    out.insert(out.begin(), y);
    return out;
  };
}

const AttentionAttrs* found(const Rewrite& r) {
  const NodeId n = r.find(OpKind::Attention);
  return n.valid() && !r.find(OpKind::Softmax).valid() ? &r.after->main().attrs<AttentionAttrs>(n) : nullptr;
}

}  // namespace

TEST_CASE("recognise_attention: every place of the scale") {
  for (const auto scale : {Scale::None, Scale::Query, Scale::Both, Scale::ScoresMul, Scale::ScoresDiv})
    for (const bool packed : {false, true})
      for (const bool transposed : {false, true}) {
        const Rewrite r(kPass,
                        attention({.scale = scale, .packed = packed, .transposed_keys = transposed, .moved_back = packed}));
        CAPTURE(static_cast<int>(scale));
        REQUIRE(found(r));
        CHECK(found(r)->scale == (scale == Scale::None ? 1 : 0));
        CHECK(found(r)->layout == (packed ? AttentionLayout::Packed : AttentionLayout::BHSD));
        CHECK(found(r)->out_layout == found(r)->layout);
        CHECK_FALSE(r.find(OpKind::Transpose).valid());
      }
}

TEST_CASE("recognise_attention: masks become kinds, with an operand only where one is needed") {
  struct Case {
    MaskForm form;
    MaskKind kind;
    bool operand;
  };
  for (const Case& c :
       {Case{MaskForm::Additive, MaskKind::Bias, true}, Case{MaskForm::Padding, MaskKind::Custom, true},
        Case{MaskForm::CausalConstant, MaskKind::Causal, false}, Case{MaskForm::CausalRange, MaskKind::Causal, false},
        Case{MaskForm::CausalProduct, MaskKind::Causal, false}, Case{MaskForm::CausalCut, MaskKind::Causal, false},
        Case{MaskForm::CausalTrilu, MaskKind::Causal, false}, Case{MaskForm::CausalAndPadding, MaskKind::Causal, true},
        Case{MaskForm::CausalOfEach, MaskKind::Causal, false}, Case{MaskForm::OtherOfEach, MaskKind::Bias, true},
        Case{MaskForm::PaddedSum, MaskKind::Causal, true}, Case{MaskForm::PaddedBoth, MaskKind::Causal, true},
        Case{MaskForm::PaddedOther, MaskKind::Causal, true}, Case{MaskForm::Window, MaskKind::SlidingWindow, false},
        Case{MaskForm::FullRowHidden, MaskKind::Custom, true}})
    for (const bool guard : {false, true}) {
      const Rewrite r(kPass, attention({.mask = c.form, .guard = guard}));
      CAPTURE(static_cast<int>(c.form));
      REQUIRE(found(r));
      CHECK(found(r)->mask == c.kind);
      CHECK(r.after->main().operand(r.find(OpKind::Attention), 3).valid() == c.operand);
      if (c.kind == MaskKind::SlidingWindow) CHECK(found(r)->window == 2);
    }
}

TEST_CASE("recognise_attention: repeated key heads are read once") {
  const Rewrite r(kPass, attention({.mask = MaskForm::CausalConstant, .kv_heads = 1}));
  REQUIRE(found(r));
  CHECK(found(r)->num_kv_heads == 1);
  CHECK_FALSE(r.find(OpKind::Expand).valid());
}

TEST_CASE("recognise_attention: capped scores") {
  const Rewrite r(kPass, attention({.softcap = 20}));
  REQUIRE(found(r));
  CHECK(found(r)->softcap == 20);
}

TEST_CASE("recognise_attention: scores or probabilities that are read elsewhere stay, with the reason") {
  for (const bool scores : {false, true}) {
    const Rewrite r(kPass, attention({.tap_scores = scores, .tap_probabilities = !scores}));
    CHECK_FALSE(found(r));
    CHECK(r.first_decline() == "multi_consumer");
  }
}

TEST_CASE("recognise_attention: a softmax along another axis, or without products, is none") {
  CHECK_FALSE(found(Rewrite(kPass, attention({.axis = 2}))));
  const Rewrite alone(kPass, [](Builder& b) {
    return std::vector{b.create(OpKind::Softmax, {f32_input(b, "x", {2, 3, 4, 4})}, AxisAttrs{3})};
  });
  CHECK_FALSE(alone.result.changed);
  CHECK(alone.run.decisions.empty());
}

TEST_CASE("recognise_attention: heads folded into the batch, symbolic sizes") {
  const Rewrite r(kPass, [](Builder& b) {
    const Dim n = b.dims().symbol("n"), s = b.dims().symbol("s");
    const auto fold = [&](std::string_view name) {
      const ValueId split = b.transpose(b.reshape(f32_input(b, name, {n, s, 8}), {n, s, 2, 4}), {0, 2, 1, 3});
      return b.reshape(split, {b.dims().mul(n, Dim(2)), s, 4});
    };
    const ValueId scores = b.mul(b.matmul(fold("q"), fold("k"), false, true), num(b, 0.5));
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {scores}, AxisAttrs{2}), fold("v"));
    return std::vector{b.reshape(b.transpose(b.reshape(y, {n, 2, s, 4}), {0, 2, 1, 3}), {n, s, 8})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->layout == AttentionLayout::Packed);
}

TEST_CASE("recognise_attention: one head of keys and values that all queries broadcast") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId q = heads_of(b, "q", kHeads, true), k = heads_of(b, "k", 1, true), v = heads_of(b, "v", 1, true);
    const ValueId s = masked(b, b.mul(b.matmul(q, k, false, true), num(b, 0.5)), MaskForm::CausalConstant);
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {s}, AxisAttrs{3}), v);
    return std::vector{b.reshape(b.transpose(y, {0, 2, 1, 3}), {kBatch, kRows, kHeads * kWidth})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->num_kv_heads == 1);
  CHECK(found(r)->mask == MaskKind::Causal);
  CHECK(found(r)->layout == AttentionLayout::Packed);
}

// Scores of heads folded into the batch: unfolded for a mask and folded again, or folded after the softmax.
ValueId folded_attention(Builder& b, MaskForm mask, bool per_head, bool clamped, bool softmax_unfolded) {
  const auto fold = [&](std::string_view name) {
    return b.reshape(heads_of(b, name, kHeads, true), {kBatch * kHeads, kRows, kWidth});
  };
  ValueId s = b.mul(b.matmul(fold("q"), fold("k"), false, true), num(b, 0.5));
  if (per_head) s = b.add(s, f32_input(b, "alibi", {kBatch * kHeads, 1, kRows}));
  s = masked(b, b.reshape(s, {kBatch, kHeads, kRows, kRows}), mask);
  if (clamped) s = b.create(OpKind::Max, {s, num(b, -std::numeric_limits<float>::max())});
  const auto folded = [&](ValueId v) { return b.reshape(v, {kBatch * kHeads, kRows, kRows}); };
  const ValueId p = softmax_unfolded ? folded(b.create(OpKind::Softmax, {s}, AxisAttrs{3}))
                                     : b.create(OpKind::Softmax, {folded(s)}, AxisAttrs{2});
  const ValueId y = b.reshape(b.matmul(p, fold("v")), {kBatch, kHeads, kRows, kWidth});
  return b.reshape(b.transpose(y, {0, 2, 1, 3}), {kBatch, kRows, kHeads * kWidth});
}

TEST_CASE("recognise_attention: folded heads, whose scores are unfolded for a mask") {
  for (const bool softmax_unfolded : {false, true})
    for (const bool clamped : {false, true})
      for (const bool per_head : {false, true})
        for (const auto& [form, kind] :
             {std::pair(MaskForm::CausalConstant, MaskKind::Causal), std::pair(MaskForm::Padding, MaskKind::Custom),
              std::pair(MaskForm::Additive, MaskKind::Bias)}) {
          const Rewrite r(kPass, [&, form = form](Builder& b) {
            return std::vector{folded_attention(b, form, per_head, clamped, softmax_unfolded)};
          });
          const int number = static_cast<int>(form);
          CAPTURE(number);
          REQUIRE(found(r));
          CHECK(found(r)->mask == (per_head ? MaskKind::Bias : kind));
          CHECK(found(r)->layout == AttentionLayout::Packed);
          CHECK(found(r)->out_layout == AttentionLayout::Packed);
        }
}

TEST_CASE("recognise_attention: what computes a mask of folded heads is unfolded with it") {
  const Rewrite r(kPass, [](Builder& b) {
    const auto part = [&](std::string_view name, int64_t width) { return f32_input(b, name, {kBatch * kHeads, kRows, width}); };
    const auto unfold = [&](ValueId v) { return b.reshape(v, {kBatch, kHeads, kRows, b.graph().dims(v).back()}); };
    const ValueId near = b.div(part("near", kRows), num(b, 3)), bias = b.add(near, b.div(part("far", kRows), num(b, 3)));
    const ValueId s = b.add(b.matmul(part("q", kWidth), part("k", kWidth), false, true), bias);
    const ValueId p = b.reshape(b.create(OpKind::Softmax, {masked(b, unfold(s), MaskForm::Padding)}, AxisAttrs{3}),
                                {kBatch * kHeads, kRows, kRows});
    return std::vector{unfold(b.matmul(p, part("v", kWidth)))};
  });
  REQUIRE(found(r));
  const Graph& g = r.after->main();
  const NodeId sum = g.def(g.operand(r.find(OpKind::Attention), 3));
  CHECK(g.op(sum) == OpKind::Add);
  CHECK(g.op(g.def(g.operand(sum, 1))) == OpKind::Add);
}

TEST_CASE(
    "recognise_attention: scores that are scaled after they are filled, and probabilities that are set to zero where they are") {
  for (const bool added : {false, true})
    for (const bool zeroed : {false, true})
      for (const bool negated : {false, true}) {
        const Rewrite r(kPass, [&](Builder& b) {
          const ValueId q = heads_of(b, "q", kHeads, true), k = heads_of(b, "k", kHeads, true),
                        v = heads_of(b, "v", kHeads, true);
          const ValueId keep = b.cast(b.input("keep", tensor_type(DType::I64, {kBatch, 1, kRows, kRows})), DType::Bool);
          const auto where = [&](ValueId kept, double otherwise) {
            const ValueId other = num(b, otherwise);
            return b.create(OpKind::Where, {keep, negated ? other : kept, negated ? kept : other});
          };
          ValueId s = b.matmul(q, k, false, true);
          if (added) s = b.add(b.mul(s, num(b, 0.5)), f32_input(b, "bias", {kHeads, kRows, kRows}));
          s = where(s, -std::numeric_limits<float>::max());
          if (!added) s = b.div(s, num(b, 2));
          ValueId p = b.create(OpKind::Softmax, {s}, AxisAttrs{3});
          if (zeroed) p = where(p, 0);
          return std::vector{b.reshape(b.transpose(b.matmul(p, v), {0, 2, 1, 3}), {kBatch, kRows, kHeads * kWidth})};
        });
        REQUIRE(found(r));
        CHECK(found(r)->mask == (added ? MaskKind::Bias : MaskKind::Custom));
        CHECK(found(r)->finite_mask == (!added && !zeroed));
      }
}

TEST_CASE("recognise_attention: what is added before the scale is scaled, and not before a cap") {
  for (const bool capped : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId q = heads_of(b, "q", kHeads, true), k = heads_of(b, "k", kHeads, true), v = heads_of(b, "v", kHeads, true);
      ValueId s = b.mul(b.add(b.matmul(q, k, false, true), f32_input(b, "positions", {kHeads, kRows, kRows})), num(b, 0.5));
      if (capped) s = b.mul(b.unary(OpKind::Tanh, b.div(s, num(b, 20))), num(b, 20));
      return std::vector{b.matmul(b.create(OpKind::Softmax, {s}, AxisAttrs{3}), v)};
    });
    CHECK((found(r) != nullptr) == !capped);
    if (found(r)) CHECK(found(r)->mask == MaskKind::Bias);
  }
}

TEST_CASE("recognise_attention: rows first, then batch and heads in one") {
  const Rewrite r(kPass, [](Builder& b) {
    const auto part = [&](std::string_view name, int64_t rows) {  // a slice of [rows, batch, heads * width]
      return b.transpose(b.reshape(f32_input(b, name, {rows, kBatch, kHeads * kWidth}), {rows, kBatch * kHeads, kWidth}),
                         {1, 0, 2});
    };
    const ValueId s = b.mul(b.matmul(part("q", kRows), b.transpose(part("k", 7), {0, 2, 1})), num(b, 0.5));
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {s}, AxisAttrs{2}), part("v", 7));
    return std::vector{b.reshape(b.transpose(y, {1, 0, 2}), {kRows, kBatch, kHeads * kWidth})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->num_heads == kBatch * kHeads);
  CHECK(found(r)->layout == AttentionLayout::Packed);
  CHECK(found(r)->out_layout == AttentionLayout::Packed);
  CHECK_FALSE(r.find(OpKind::Transpose).valid());
}

TEST_CASE("recognise_attention: probabilities that are set to zero by another condition stay") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId q = heads_of(b, "q", kHeads, true), k = heads_of(b, "k", kHeads, true), v = heads_of(b, "v", kHeads, true);
    const ValueId other = b.cast(b.input("other", tensor_type(DType::I64, {kBatch, 1, kRows, kRows})), DType::Bool);
    const ValueId p = b.create(OpKind::Softmax, {masked(b, b.matmul(q, k, false, true), MaskForm::CausalTrilu)}, AxisAttrs{3});
    return std::vector{b.matmul(b.create(OpKind::Where, {other, p, num(b, 0)}), v)};
  });
  CHECK_FALSE(found(r));
}

TEST_CASE("recognise_attention: distances of rows and columns that are added to scores of images") {
  constexpr int64_t kSide = 3, kAll = kSide * kSide;
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId q = f32_input(b, "q", {kHeads, kAll, kWidth}), k = f32_input(b, "k", {kHeads, kAll, kWidth}),
                  v = f32_input(b, "v", {kHeads, kAll, kWidth});
    ValueId s = b.reshape(b.matmul(q, k, false, true), {kHeads, kSide, kSide, kSide, kSide});
    s = b.add(s, f32_input(b, "rows", {kHeads, kSide, kSide, kSide, 1}));
    s = b.add(s, f32_input(b, "columns", {kHeads, kSide, kSide, 1, kSide}));
    return std::vector{b.matmul(b.create(OpKind::Softmax, {b.reshape(s, {kHeads, kAll, kAll})}, AxisAttrs{2}), v)};
  });
  REQUIRE(found(r));
  CHECK(found(r)->mask == MaskKind::Bias);
}

TEST_CASE("recognise_attention: a softmax over several rows of scores is none") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId q = f32_input(b, "q", {2, 4, kWidth}), k = f32_input(b, "k", {2, 6, kWidth}),
                  v = f32_input(b, "v", {2, 12, kWidth});
    const ValueId s = b.reshape(b.matmul(q, k, false, true), {2, 2, 12});
    return std::vector{b.matmul(b.create(OpKind::Softmax, {s}, AxisAttrs{2}), v)};
  });
  CHECK_FALSE(found(r));
}

TEST_CASE("recognise_attention: heads that lie apart in one projection are read where they lie") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId qkv = b.reshape(f32_input(b, "qkv", {2, 5, 24}), {2, 5, 2, 3, 4});
    const auto part = [&](int64_t i) { return b.transpose(b.reshape(b.narrow(qkv, 3, i, 1), {2, 5, 2, 4}), {0, 2, 1, 3}); };
    const ValueId scores = b.mul(b.matmul(part(0), part(1), false, true), num(b, 0.5));
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {scores}, AxisAttrs{3}), part(2));
    return std::vector{b.reshape(b.transpose(y, {0, 2, 1, 3}), {2, 5, 8})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->layout == AttentionLayout::BSHD);
  CHECK(found(r)->out_layout == AttentionLayout::Packed);
}

TEST_CASE("recognise_attention: parts of one projection, moved in front") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId qkv = b.transpose(b.reshape(f32_input(b, "qkv", {2, 5, 24}), {2, 5, 3, 2, 4}), {2, 0, 3, 1, 4});
    const auto part = [&](int64_t i) { return b.reshape(b.narrow(qkv, 0, i, 1), {2, 2, 5, 4}); };
    const ValueId scores = b.mul(b.matmul(part(0), part(1), false, true), num(b, 0.5));
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {scores}, AxisAttrs{3}), part(2));
    return std::vector{b.reshape(b.transpose(y, {0, 2, 1, 3}), {2, 5, 8})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->layout == AttentionLayout::Packed);
  CHECK(r.left() == "narrow narrow narrow attention");
}

TEST_CASE("recognise_attention: over channels, whose queries and values are columns") {
  const Rewrite r(kPass, [](Builder& b) {
    const auto columns = [&](std::string_view name) { return f32_input(b, name, {2, 3, 7, 4}); };  // [B,H,tokens,channels]
    const ValueId scores = b.matmul(b.mul(columns("k"), num(b, 0.5)), columns("v"), true, false);
    return std::vector{b.matmul(b.create(OpKind::Softmax, {scores}, AxisAttrs{3}), columns("q"), false, true)};
  });
  REQUIRE(found(r));
  CHECK(found(r)->layout == AttentionLayout::BHSD);
  CHECK(r.left() == "transpose transpose attention");
}

TEST_CASE("recognise_attention: scores of an open number of rows, masked by a part of a buffer for the most there may be") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const Dim seq = m.dims.symbol("seq"), part = m.dims.min(seq, Dim(16));
  const auto heads = [&](std::string_view name) { return b.input(name, tensor_type(DType::F32, {2, kHeads, seq, kWidth})); };
  const ValueId scores = b.matmul(heads("q"), heads("k"), false, true);
  const ValueId all = bools(b, {1, 1, 16, 16}, [](int64_t i) { return i % 16 <= i / 16; });
  const ValueId masked =
      b.create(OpKind::Where, {b.narrow(b.narrow(all, 2, Dim(0), part), 3, Dim(0), part), scores, num(b, -1e30)});
  CHECK(m.main().dims(masked)[2] == seq);
  m.main().add_output(b.matmul(b.create(OpKind::Softmax, {masked}, AxisAttrs{3}), heads("v")), m.symbol("y"));
  REQUIRE_MESSAGE(verify(m, d), d.text());
  PassRun run;
  CHECK(run(m, kPass).changed);
  const NodeId n = m.main().def(m.main().outputs()[0]);
  REQUIRE(m.main().op(n) == OpKind::Attention);
  CHECK(m.main().attrs<AttentionAttrs>(n).mask == MaskKind::Causal);
}

// A triangle of masking numbers times (position >= `first`), expanded over the batch. Hides more positions where `keep` is 0.
ValueId by_positions(Builder& b, Dim batch, Dim rows, Dim first, int64_t diagonal, bool padded) {
  DimTable& t = b.dims();
  const Dim keys = t.add(first, rows);
  const auto count = [&](Dim from, Dim n) {
    const ValueId start = b.create(OpKind::DimValue, {}, DimsAttrs{{from}, true});
    return b.create(OpKind::Range, {start, b.scalar(DType::I64, 1)}, DimsAttrs{{n}, false});
  };
  const ValueId low = num(b, -std::numeric_limits<float>::max());
  const ValueId triangle = b.create(OpKind::Trilu, {b.expand(low, {rows, keys})}, TriluAttrs{true, diagonal});
  const ValueId late = b.create(OpKind::Gt, {count(Dim(0), keys), b.reshape(count(first, rows), {rows, Dim(1)})});
  const ValueId both = b.mul(triangle, b.cast(late, DType::F32));
  const ValueId mask = b.expand(b.reshape(both, {Dim(1), Dim(1), rows, keys}), {batch, Dim(1), rows, keys});
  if (!padded) return mask;
  const ValueId keep = b.cast(b.input("keep", tensor_type(DType::I64, {batch, keys})), DType::F32);
  const ValueId sum = b.add(mask, b.reshape(keep, {batch, Dim(1), Dim(1), keys}));
  return b.create(OpKind::Where, {b.create(OpKind::Eq, {sum, num(b, 0)}), low, mask});
}

TEST_CASE("recognise_attention: triangles times positions, with earlier keys and with padding") {
  for (const bool open : {false, true})
    for (const bool cached : {false, true})
      for (const bool padded : {false, true})
        for (const int64_t diagonal : {1, 2}) {
          const Rewrite r(kPass, [&](Builder& b) {
            DimTable& t = b.dims();
            const Dim rows = open ? t.symbol("rows") : Dim(kRows);
            const Dim first = !cached ? Dim(0) : open ? t.symbol("past") : Dim(3);
            const auto heads = [&](std::string_view name, Dim n) {
              return b.input(name, tensor_type(DType::F32, {kBatch, kHeads, n, kWidth}));
            };
            const auto earlier = [&](std::string_view name, std::string_view past) {
              const ValueId now = heads(name, rows);
              return cached ? b.concat(std::vector{heads(past, first), now}, 2) : now;
            };
            const ValueId s = b.mul(b.matmul(heads("q", rows), earlier("k", "past_k"), false, true), num(b, 0.5));
            const ValueId masked = b.add(s, by_positions(b, kBatch, rows, first, diagonal, padded));
            return std::vector{b.matmul(b.create(OpKind::Softmax, {masked}, AxisAttrs{3}), earlier("v", "past_v"))};
          });
          REQUIRE(found(r));
          const bool causal = diagonal == 1 || cached;  // without a cache, a triangle with a later diagonal hides less
          CHECK(found(r)->mask == (causal ? MaskKind::Causal : MaskKind::Bias));
          CHECK((r.left().find("trilu") == std::string::npos) == causal);
          CHECK(found(r)->finite_mask == (causal && padded));
        }
}
