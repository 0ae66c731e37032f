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
  CHECK(row_distance(p.g, v) == Dim(24));
  CHECK(row_distance(p.g, p.x) == Dim(24));
}

TEST_CASE("a part of rows that something else reads, or that is an output, is copied") {
  Packed p;
  const ValueId q = p.part(0), k = p.part(8), v = p.part(16);
  p.g.add_output(p.b.create(OpKind::Attention, {q, k, v}, p.packed), {});
  p.g.add_output(v, {});
  p.g.add_output(p.b.unary(OpKind::Exp, k), {});
  CHECK(view_of(p.g, p.g.def(q)));
  CHECK_FALSE(view_of(p.g, p.g.def(k)));
  CHECK_FALSE(view_of(p.g, p.g.def(v)));
  CHECK(row_distance(p.g, v) == Dim(8));
}
