#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "recognise_rope";

enum class Spelling { RotatedHalves, RotatedPairs, Halves, SlicedPairs, SplitPairs };

struct Form {
  Spelling spelling = Spelling::RotatedHalves;
  bool swap = false, split = true, rest = false;
  std::vector<Dim> table{1, 1, 5, 8};  // for [2,5,3 heads of 8] transposed to [2,3,5,8]
};

ValueId half(Builder& b, ValueId x, int64_t start, int64_t len) { return b.narrow(x, 3, start, len); }
ValueId column(Builder& b, ValueId v) {
  std::vector<Dim> d(b.graph().dims(v).begin(), b.graph().dims(v).end());
  d.push_back(1);
  return b.reshape(v, d);
}
ValueId every_second(Builder& b, ValueId x, int64_t start, int64_t half) {
  return b.create(OpKind::Slice, {x}, SliceAttrs{3, start, half, 2});
}
ValueId in_turns(Builder& b, ValueId even, ValueId odd, std::vector<Dim> dims) {
  const ValueId parts[] = {column(b, even), column(b, odd)};
  return b.reshape(b.concat(parts, 4), std::move(dims));
}

ValueId rotate(Builder& b, ValueId x, ValueId cos, ValueId sin, Form f) {
  const std::vector<Dim> dims(b.graph().dims(x).begin(), b.graph().dims(x).end());
  const int64_t n = dims[3].size() / 2;
  const auto sum = [&](ValueId u, ValueId v) { return f.swap ? b.add(v, u) : b.add(u, v); };
  const auto product = [&](ValueId u, ValueId v) { return f.swap ? b.mul(v, u) : b.mul(u, v); };
  ValueId first, second;
  switch (f.spelling) {
    case Spelling::RotatedHalves: {
      const ValueId parts[] = {b.unary(OpKind::Neg, half(b, x, n, n)), half(b, x, 0, n)};
      return sum(product(x, cos), product(b.concat(parts, 3), sin));
    }
    case Spelling::RotatedPairs:
      return sum(product(x, cos),
                 product(in_turns(b, b.unary(OpKind::Neg, every_second(b, x, 1, n)), every_second(b, x, 0, n), dims), sin));
    case Spelling::Halves: first = half(b, x, 0, n), second = half(b, x, n, n); break;
    case Spelling::SlicedPairs: first = every_second(b, x, 0, n), second = every_second(b, x, 1, n); break;
    case Spelling::SplitPairs: {
      const ValueId pairs = b.reshape(x, {dims[0], dims[1], dims[2], n, 2});
      const auto part = [&](int64_t i) { return b.reshape(b.narrow(pairs, 4, i, 1), {dims[0], dims[1], dims[2], n}); };
      first = part(0), second = part(1);
    }
  }
  const ValueId u = b.sub(product(first, cos), product(second, sin)), v = sum(product(second, cos), product(first, sin));
  if (f.spelling != Spelling::Halves) return in_turns(b, u, v, dims);
  const ValueId parts[] = {u, v};
  return b.concat(parts, 3);
}

// Tables as exporters compute them: the second half repeats the first, or neighbours are equal.
ValueId table(Builder& b, std::string_view name, Form f) {
  const int64_t width = f.table.back().size();
  std::vector<Dim> dims = f.table;
  if (width <= (f.rest ? 2 : 4)) return f32_input(b, name, dims);
  dims.back() = width / 2;
  const ValueId t = f32_input(b, name, dims);
  if (f.spelling == Spelling::RotatedPairs) {
    const ValueId parts[] = {column(b, t), column(b, t)};
    return b.reshape(b.concat(parts, static_cast<int64_t>(dims.size())), f.table);
  }
  const ValueId parts[] = {t, t};
  return b.concat(parts, static_cast<int64_t>(dims.size()) - 1);
}

Rewrite::Build rope(Form f) {
  return [f](Builder& b) {
    const ValueId cos = table(b, "cos", f), sin = table(b, "sin", f);
    ValueId x = f.split ? b.transpose(b.reshape(f32_input(b, "x", {2, 5, 24}), {2, 5, 3, 8}), {0, 2, 1, 3})
                        : f32_input(b, "x", {2, 3, 5, 8});
    if (!f.rest) return std::vector{rotate(b, x, cos, sin, f)};
    const ValueId parts[] = {rotate(b, half(b, x, 0, 4), cos, sin, f), half(b, x, 4, 4)};
    return std::vector{b.concat(parts, 3)};
  };
}

const RopeAttrs* found(const Rewrite& r) {
  const NodeId n = r.find(OpKind::Rope);
  return n.valid() ? &r.after->main().attrs<RopeAttrs>(n) : nullptr;
}

}  // namespace

TEST_CASE("recognise_rope: every spelling, with tables of full and of half width") {
  for (const auto spelling :
       {Spelling::RotatedHalves, Spelling::RotatedPairs, Spelling::Halves, Spelling::SlicedPairs, Spelling::SplitPairs})
    for (const bool swap : {false, true})
      for (const bool split : {false, true}) {
        const bool full = spelling == Spelling::RotatedHalves || spelling == Spelling::RotatedPairs;
        const Rewrite r(kPass, rope({.spelling = spelling, .swap = swap, .split = split, .table = {1, 1, 5, full ? 8 : 4}}));
        CAPTURE(static_cast<int>(spelling));
        REQUIRE(found(r));
        CHECK(found(r)->style ==
              (spelling == Spelling::RotatedHalves || spelling == Spelling::Halves ? RopeStyle::NeoX : RopeStyle::GptJ));
        CHECK(found(r)->layout == (split ? AttentionLayout::Packed : AttentionLayout::BHSD));
      }
}

TEST_CASE("recognise_rope: of tables whose halves are computed from one value, one half is computed") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId angles = f32_input(b, "angles", {1, 5, 4}), parts[] = {angles, angles};
    const ValueId both = b.concat(parts, 2);
    const auto of = [&](OpKind f) { return b.reshape(b.mul(b.unary(f, both), num(b, 0.5)), {1, 1, 5, 8}); };
    return std::vector{rotate(b, f32_input(b, "x", {2, 3, 5, 8}), of(OpKind::Cos), of(OpKind::Sin), {})};
  });
  REQUIRE(found(r));
  CHECK(r.left().find("concat") == std::string::npos);
}

TEST_CASE("recognise_rope: tables without leading axes and one a batch") {
  CHECK(found(Rewrite(kPass, rope({.table = {5, 8}}))));
  CHECK(found(Rewrite(kPass, rope({.table = {2, 1, 5, 8}}))));
}

TEST_CASE("recognise_rope: the rest of a head that is turned in part") {
  for (const auto spelling : {Spelling::RotatedHalves, Spelling::Halves, Spelling::SlicedPairs}) {
    const Rewrite r(kPass, rope({.spelling = spelling, .rest = true, .table = {5, spelling == Spelling::RotatedHalves ? 4 : 2}}));
    REQUIRE(found(r));
    CHECK(found(r)->n_rot == 4);
    CHECK(found(r)->head_dim == 8);
  }
}

TEST_CASE("recognise_rope: slices of slices that are slices of the head, and slices moved before a Reshape") {
  const auto slice = [](Builder& b, ValueId x, int64_t start, int64_t len) {
    return b.narrow(x, b.graph().rank(x) - 1, start, len);
  };
  const auto turned = [](Builder& b, ValueId x, ValueId first, ValueId second, Dim width) {
    const ValueId cos = f32_input(b, "cos", {5, width}), sin = f32_input(b, "sin", {5, width});
    const ValueId halves[] = {b.unary(OpKind::Neg, second), first};
    return b.add(b.mul(x, cos), b.mul(b.concat(halves, 3), sin));
  };
  const Rewrite part(kPass, [&](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 5, 8});
    const ValueId parts[] = {turned(b, slice(b, x, 0, 4), slice(b, x, 0, 2), slice(b, x, 2, 2), 4), slice(b, x, 4, 4)};
    return std::vector{b.concat(parts, 3)};
  });
  REQUIRE(found(part));
  CHECK(found(part)->n_rot == 4);
  CHECK(found(part)->head_dim == 8);
  CHECK_FALSE(part.find(OpKind::Concat).valid());
  CHECK_FALSE(part.find(OpKind::Narrow).valid());
  const Rewrite one_head(kPass, [&](Builder& b) {
    const ValueId all = f32_input(b, "x", {2, 5, 24});
    const auto head = [&](int64_t start, int64_t len) { return b.reshape(slice(b, all, start, len), {2, 1, 5, len}); };
    return std::vector{turned(b, head(16, 8), head(16, 4), head(20, 4), 8)};
  });
  REQUIRE(found(one_head));
  CHECK(found(one_head)->n_rot == 8);
}

TEST_CASE("recognise_rope: heads that lie apart keep an axis, so that they are read where they lie") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId heads = b.narrow(b.reshape(f32_input(b, "x", {2, 5, 48}), {2, 5, 3, 16}), 3, 8, 8);
    const ValueId x = b.transpose(heads, {0, 2, 1, 3}), cos = f32_input(b, "cos", {5, 8}), sin = f32_input(b, "sin", {5, 8});
    return std::vector{rotate(b, x, cos, sin, {})};
  });
  REQUIRE(found(r));
  CHECK(found(r)->layout == AttentionLayout::BSHD);
}

TEST_CASE("recognise_rope: a table a head, or that makes x larger, is another operation") {
  CHECK_FALSE(found(Rewrite(kPass, rope({.table = {1, 3, 5, 8}}))));
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {1, 3, 5, 8}), cos = f32_input(b, "cos", {2, 1, 5, 8});
    return std::vector{rotate(b, x, cos, cos, {})};
  });
  CHECK_FALSE(found(r));
  CHECK(r.first_decline() == "broadcast");
}

TEST_CASE("recognise_rope: a rotation with the wrong sign or order stays") {
  const Rewrite sign(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 5, 8}), cos = f32_input(b, "cos", {5, 8});
    const ValueId parts[] = {half(b, x, 4, 4), b.unary(OpKind::Neg, half(b, x, 0, 4))};
    return std::vector{b.add(b.mul(x, cos), b.mul(b.concat(parts, 3), cos))};
  });
  CHECK_FALSE(found(sign));
  const Rewrite parts(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 5, 8}), c = f32_input(b, "c", {5, 4}), s = f32_input(b, "s", {5, 4});
    const ValueId u = half(b, x, 0, 4), v = half(b, x, 4, 4);
    const ValueId both[] = {b.sub(b.mul(u, c), b.mul(v, s)), b.add(b.mul(v, s), b.mul(u, c))};
    return std::vector{b.concat(both, 3)};
  });
  CHECK_FALSE(found(parts));
}
