#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_rope_append";

struct Form {
  int64_t batch = 1, length = 3, rotated = 0;
  RopeStyle style = RopeStyle::NeoX;
  bool full_tables = false, rows_by_batch = false, tap = false, norm = false, other_table = false, early = false;
  int64_t axis = 2;
  DType dtype = DType::F32, cache = DType::F32;
};

// Four heads of queries and two of keys of eight elements; caches with room for six rows.
Rewrite::Build decoder(Form f) {
  return [f](Builder& b) {
    const auto part = [&](std::string_view name, int64_t heads) {
      return b.cast(f32_input(b, name, {f.batch, heads, f.length, 8}), f.dtype);
    };
    const ValueId q = part("q", 4), k = part("k", 2), v = part("v", 2);
    const auto cache = [&](std::string_view name) { return b.cast(f32_input(b, name, {f.batch, 2, 6, 8}), f.cache); };
    const ValueId keys = cache("keys"), values = cache("values");
    const int64_t columns = (f.rotated ? f.rotated : 8) / (f.full_tables ? 1 : 2);
    const auto table = [&](std::string_view name) { return b.cast(f32_input(b, name, {f.length, columns}), f.dtype); };
    const ValueId cos = table("cos"), sin = table("sin"), gamma = f.norm ? f32_param(b, "gamma", {8}) : ValueId();
    const RopeAttrs a{.n_rot = f.rotated, .style = f.style};
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < (f.rows_by_batch ? f.batch : 1) * f.length; ++i) rows.push_back(i % f.length * 2 - (i % 2) * 6);
    const ValueId at = b.constant(make_data(DType::I64, {f.rows_by_batch ? f.batch : 1, 1, f.length, 1}, rows));
    const ValueId index = b.expand(at, {f.batch, 2, f.length, 8});
    const ValueId rotated_k = b.create(OpKind::Rope, {k, f.other_table ? table("cos2") : cos, sin, gamma}, a);
    const ValueId all_keys = b.create(OpKind::ScatterElements, {keys, index, b.cast(rotated_k, f.cache)}, ScatterAttrs{f.axis});
    std::vector<ValueId> out;
    if (f.early) out.push_back(b.unary(OpKind::Neg, all_keys));
    const ValueId all_values = b.create(OpKind::ScatterElements, {values, index, b.cast(v, f.cache)}, ScatterAttrs{f.axis});
    const ValueId rotated_q = b.create(OpKind::Rope, {q, cos, sin, gamma}, a);
    AttentionAttrs attention;
    attention.num_heads = 4;
    attention.num_kv_heads = 2;
    out.push_back(b.create(OpKind::Attention, {rotated_q, all_keys, all_values}, attention));
    out.push_back(all_keys);
    out.push_back(all_values);
    if (f.tap) out.push_back(b.unary(OpKind::Neg, rotated_k));
    return out;
  };
}

std::string left(Form f) { return Rewrite(kPass, decoder(f)).left(); }

}  // namespace

TEST_CASE("fuse_rope_append: rotations and writes to the caches are one node") {
  CHECK(left({}) == "fused_rope_append attention");
  CHECK(left({.length = 1}) == "fused_rope_append attention");
  CHECK(left({.batch = 2, .rows_by_batch = true}) == "fused_rope_append attention");
  CHECK(left({.batch = 2}) == "fused_rope_append attention");
  CHECK(left({.cache = DType::F16}) == "cast cast fused_rope_append attention");
  CHECK(left({.batch = 2, .rotated = 4, .cache = DType::BF16}) == "cast cast fused_rope_append attention");
  CHECK(left({.rotated = 4, .style = RopeStyle::GptJ}) == "fused_rope_append attention");
  CHECK(left({.style = RopeStyle::GptJ, .full_tables = true}) == "fused_rope_append attention");
}

TEST_CASE("fuse_rope_append: what keeps the nodes apart") {
  CHECK(Rewrite(kPass, decoder({.tap = true})).first_decline() == "multi_consumer");
  CHECK(Rewrite(kPass, decoder({.norm = true})).first_decline() == "norm_form");
  CHECK(Rewrite(kPass, decoder({.other_table = true})).first_decline() == "table_shape");
  CHECK(Rewrite(kPass, decoder({.early = true})).first_decline() == "read_before");
}

TEST_CASE("fuse_rope_append: the decomposition computes the same") {
  for (const RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ})
    for (const int64_t rotated : {0, 4})
      for (const DType cache : {DType::F32, DType::F16}) {
        Rewrite r(kPass, decoder({.batch = 2, .rotated = rotated, .style = style, .cache = cache}));
        PassRun lower;
        lower.target.native.reset(static_cast<size_t>(OpKind::FusedRopeAppend));
        lower.target.native.reset(static_cast<size_t>(OpKind::Attention));
        CHECK(lower(*r.after, "decompose").changed);
        std::string why;
        CHECK_MESSAGE(eval::same_results(*r.before, *r.after, 1, 1e-4, 1e-5, &why), why);
        CHECK_FALSE(r.find(OpKind::FusedRopeAppend).valid());
        CHECK_FALSE(r.find(OpKind::Attention).valid());
      }
}
