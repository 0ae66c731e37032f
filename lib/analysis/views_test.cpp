#include "analysis/views.h"

#include <doctest/doctest.h>

#include "ir/builder.h"

using namespace rlxc;

namespace {

struct Packed {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  ValueId x = b.input("x", tensor_type(DType::F32, {2, 5, 24}));
  ValueId part(int64_t start) { return b.narrow(x, 2, start, 8); }
  AttentionAttrs packed{
      .num_heads = 2, .num_kv_heads = 2, .layout = AttentionLayout::Packed, .out_layout = AttentionLayout::Packed};
};

}  // namespace

TEST_CASE("parts of rows that only attention reads are views of the packed value") {
  Packed p;
  const ValueId q = p.part(0), k = p.part(8), v = p.part(16);
  p.g.add_output(p.b.create(OpKind::Attention, {q, k, v}, p.packed), {});
  const auto view = view_of(p.g, p.g.def(v));
  REQUIRE(view);
  CHECK(view->of == p.x);
  CHECK(view->byte_offset == Dim(64));
  CHECK(strides_in_larger(p.g, v) == std::vector<Dim>{120, 24, 1});
  CHECK_FALSE(strides_in_larger(p.g, p.x));
}

TEST_CASE("a part of rows that something else reads, or that is an output, is copied") {
  Packed p;
  const ValueId q = p.part(0), k = p.part(8), v = p.part(16);
  p.g.add_output(p.b.create(OpKind::Attention, {q, k, v}, p.packed), {});
  p.g.add_output(v, {});
  p.g.add_output(p.b.reduce(ReduceOp::Sum, k, {1}, false), {});
  CHECK(view_of(p.g, p.g.def(q)));
  CHECK_FALSE(view_of(p.g, p.g.def(k)));
  CHECK_FALSE(view_of(p.g, p.g.def(v)));
  CHECK_FALSE(strides_in_larger(p.g, v));
}

TEST_CASE("a slice stays where it is through reorderings and reshapes, as far as all its readers step over the rest") {
  Packed p;
  const ValueId part = p.b.narrow(p.x, 1, Dim(1), Dim(3)), split = p.b.reshape(part, {2, 3, 4, 6}),
                heads = p.b.transpose(split, {0, 2, 1, 3});
  const auto in_place = [&](ValueId v) { return view_of(p.g, p.g.def(v)).has_value(); };
  p.g.add_output(p.b.unary(OpKind::Exp, heads), {});
  CHECK(in_place(part));
  CHECK(in_place(heads));
  CHECK(strides_in_larger(p.g, heads) == std::vector<Dim>{120, 6, 24, 1});
  p.g.add_output(p.b.unary(OpKind::Abs, p.b.reshape(heads, {2, 4, 18})), {});  // of axes that do not lie together
  CHECK_FALSE(in_place(heads));
  CHECK_FALSE(in_place(part));
}

TEST_CASE("columns as rows stay where they are for one reader that spends no more on them than a copy would") {
  Packed p;
  const auto columns = [&] { return p.b.transpose(p.b.unary(OpKind::Abs, p.x), {0, 2, 1}); };
  const auto in_place = [&](ValueId v) { return view_of(p.g, p.g.def(v)).has_value(); };
  const ValueId added = columns(), normalised = columns(), raised = columns(), twice = columns(), kept = columns();
  p.g.add_output(p.b.add(added, p.b.unary(OpKind::Exp, added)), {});
  CHECK_FALSE(in_place(added));
  const ValueId alone = columns();
  p.g.add_output(p.b.add(alone, p.b.unary(OpKind::Exp, raised)), {});
  p.g.add_output(p.b.create(OpKind::LayerNorm, {normalised}, NormAttrs{2, 1e-5}), {});
  p.g.add_output(p.b.mul(twice, twice), {});
  p.g.add_output(kept, {});
  CHECK(in_place(alone));
  CHECK(in_place(normalised));
  CHECK(strides_in_larger(p.g, normalised) == std::vector<Dim>{120, 1, 24});
  CHECK_FALSE(in_place(raised));
  CHECK_FALSE(in_place(twice));
  CHECK_FALSE(in_place(kept));
}

TEST_CASE("a slice that is the first output is copied") {
  Packed p;
  const ValueId part = p.part(0);
  p.g.add_output(part, {});
  CHECK_FALSE(view_of(p.g, p.g.def(part)));
}
