#include "passes/passes.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Form {
  DType codes = DType::U8;
  bool zero = true, read_twice = false, conv = false, same_rows = false;
};

ValueId sums(Builder& b, const std::string& name, bool conv, ValueId rows = {}) {
  const auto codes = [&](const std::string& of, std::vector<Dim> dims) {
    return b.input(name + of, tensor_type(DType::U8, std::move(dims)));
  };
  if (!conv) return b.create(OpKind::QMatMul, {rows.valid() ? rows : codes("x", {5, 8}), codes("w", {8, 6})});
  return b.create(OpKind::QConv, {codes("x", {1, 4, 6, 6}), codes("w", {3, 4, 1, 1})},
                  ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1});
}

// Both sums rounded, and added: (clamp(round(s * a) + z) - z) * c + (clamp(round(t * a) + z) - z) * c.
ValueId residual(Builder& b, const Form& f) {
  FusionAttrs a;
  const auto add = [&](OpKind op, uint16_t x, uint16_t y = kNone) {
    a.steps.push_back({op, DType::F32, {x, y, kNone}});
    return static_cast<uint16_t>(kStep | (a.steps.size() - 1));
  };
  uint16_t parts[2];
  for (uint16_t i = 0; i < 2; ++i) {
    const uint16_t v = add(OpKind::Mul, add(OpKind::Cast, i), 2);
    uint16_t q = add(OpKind::Round, v);
    if (f.zero) q = add(OpKind::Add, q, 3);
    q = add(OpKind::Clamp, q);
    a.steps.back().attrs = f.codes == DType::U8 ? ClampAttrs{0, 255} : ClampAttrs{-128, 127};
    if (f.zero) q = add(OpKind::Sub, q, 3);
    if (f.read_twice) q = add(OpKind::Add, q, v);
    parts[i] = add(OpKind::Mul, q, 4);
  }
  add(OpKind::Add, parts[0], parts[1]);
  const ValueId z = b.cast(b.scalar(f.codes, 3), DType::F32);
  const ValueId first = sums(b, "s", f.conv), rows = f.same_rows ? b.graph().operand(b.graph().def(first), 0) : ValueId();
  return b.create(OpKind::ElementwiseRegion,
                  {first, sums(b, "t", f.conv, rows), b.scalar(DType::F32, 0.001), z, b.scalar(DType::F32, 0.5)}, a);
}

Rewrite rewritten(const Form& f) {
  return Rewrite("split_rounded_sums", [&](Builder& b) { return std::vector{residual(b, f)}; });
}

}  // namespace

TEST_CASE("of two sums that are rounded and added, one is rounded by a region of its own") {
  for (const Form& f : {Form{}, Form{.codes = DType::I8}, Form{.zero = false}, Form{.conv = true}}) {
    const Rewrite r = rewritten(f);
    const Graph& g = r.after->main();
    std::vector<DType> types;
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::ElementwiseRegion) types.push_back(g.dtype(g.result(n)));
    CHECK(types == std::vector{f.codes, DType::F32});
  }
}

TEST_CASE("sums that are read before they are rounded, or that one kernel computes, stay") {
  CHECK_FALSE(rewritten({.read_twice = true}).result.changed);
  CHECK_FALSE(rewritten({.same_rows = true}).result.changed);
}
