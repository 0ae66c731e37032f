#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_shared_rope";

struct Form {
  Dim second_start = 8;
  bool key_first = false, other_table = false, tap = false;
  int scales = 0;     // norms of the heads: none, both with one scale, both with two scales, queries only
  int roundings = 0;  // of the results: none, both alike, of scales and factors of their own, to other types, queries only
};

// Queries (2 heads of 4) and keys (1 head) of a packed projection.
Rewrite::Build rotated(Form f) {
  return [f](Builder& b) {
    const ValueId t = f32_input(b, "t", {2, 3, 16}), cos = f32_input(b, "cos", {3, 4}), sin = f32_input(b, "sin", {3, 4});
    const RopeAttrs a{4, 4, RopeStyle::NeoX, AttentionLayout::Packed, 1e-5};
    const ValueId gamma = f.scales ? f32_param(b, "g", {4}) : ValueId();
    const ValueId second = f.scales == 2 ? f32_param(b, "second", {4}) : f.scales == 3 ? ValueId() : gamma;
    const auto operands = [&](ValueId x, ValueId table, ValueId norm, bool is_key) {
      std::vector<ValueId> all{x, table, sin, norm};
      if (f.roundings == 0 || (is_key && f.roundings == 4)) return all;
      const bool own = is_key && f.roundings > 1;
      if (f.roundings == 2) all.push_back(is_key ? ValueId() : b.scalar(DType::F32, 0.3));
      else all.push_back({});
      all.push_back(b.scalar(DType::F32, own ? 0.02 : 0.05));
      all.push_back(b.scalar(own && f.roundings == 3 ? DType::U8 : DType::I8, own ? 7 : -3));
      return all;
    };
    const auto as_float = [&](ValueId v) { return b.cast(v, DType::F32); };
    ValueId part_q, part_k, q, k;
    const auto query = [&] {
      part_q = b.narrow(t, 2, 0, 8);
      q = b.unary(OpKind::Tanh, as_float(b.create(OpKind::Rope, operands(part_q, cos, gamma, false), a)));
    };
    const auto key = [&] {
      part_k = b.narrow(t, 2, f.second_start, 4);
      k = b.unary(OpKind::Exp, as_float(b.create(OpKind::Rope, operands(part_k, f.other_table ? sin : cos, second, true), a)));
    };
    if (f.key_first) key(), query();
    else query(), key();
    std::vector<ValueId> out{q, k};
    if (f.tap) out.push_back(part_k);
    return out;
  };
}

int64_t ropes(const Rewrite& r) {
  int64_t n = 0;
  for (NodeId k : r.after->main().nodes()) n += r.after->main().op(k) == OpKind::Rope;
  return n;
}

}  // namespace

TEST_CASE("fuse_shared_rope: adjacent slices, in either order of execution") {
  CHECK(ropes(Rewrite(kPass, rotated({}))) == 1);
  CHECK(ropes(Rewrite(kPass, rotated({.key_first = true}))) == 1);
}

TEST_CASE("fuse_shared_rope: norms of the heads go along, by one scale or one for each head") {
  const Rewrite one(kPass, rotated({.scales = 1})), two(kPass, rotated({.scales = 2}));
  CHECK(ropes(one) == 1);
  CHECK(ropes(two) == 1);
  CHECK(two.after->main().rank(two.after->main().operand(two.find(OpKind::Rope), 3)) == 2);
  CHECK(ropes(Rewrite(kPass, rotated({.scales = 3}))) == 2);
}

TEST_CASE("fuse_shared_rope: roundings of the heads go along, each by its own numbers") {
  const Rewrite alike(kPass, rotated({.roundings = 1})), apart(kPass, rotated({.roundings = 2}));
  CHECK(ropes(alike) == 1);
  CHECK(ropes(apart) == 1);
  const Graph& g = apart.after->main();
  for (size_t i = 4; i < 7; ++i) CHECK(g.dims(g.operand(apart.find(OpKind::Rope), i))[0] == Dim(3));
  CHECK(ropes(Rewrite(kPass, rotated({.scales = 2, .roundings = 2}))) == 1);
  CHECK(ropes(Rewrite(kPass, rotated({.roundings = 3}))) == 2);
  CHECK(ropes(Rewrite(kPass, rotated({.roundings = 4}))) == 2);
}

TEST_CASE("fuse_shared_rope: slices apart, other tables or a slice that is read stay") {
  CHECK(ropes(Rewrite(kPass, rotated({.second_start = 12}))) == 2);
  CHECK(ropes(Rewrite(kPass, rotated({.other_table = true}))) == 2);
  CHECK(ropes(Rewrite(kPass, rotated({.tap = true}))) == 2);
}
