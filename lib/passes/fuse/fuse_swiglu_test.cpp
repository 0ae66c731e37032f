#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_swiglu";

struct Form {
  int64_t axis = 1, gate = 0, len = 4;
  OpKind act = OpKind::Silu;
  bool swap = false, tap = false;
  std::vector<Dim> dims{3, 8};
};

Rewrite::Build gated(Form f) {
  return [f](Builder& b) {
    const ValueId t = f32_input(b, "t", f.dims);
    const ValueId up = b.narrow(t, f.axis, f.gate == 0 ? Dim(f.len) : Dim(0), f.len),
                  gate = b.narrow(t, f.axis, Dim(f.gate), f.len);
    const ValueId a = b.unary(f.act, gate);
    std::vector<ValueId> out{f.swap ? b.mul(a, up) : b.mul(up, a)};
    if (f.tap) out.push_back(a);
    return out;
  };
}

}  // namespace

TEST_CASE("fuse_swiglu: both orders of the halves and of the factors, several gates") {
  CHECK(Rewrite(kPass, gated({})).left() == "fused_swiglu");
  CHECK(Rewrite(kPass, gated({.gate = 4, .swap = true})).left() == "fused_swiglu");
  const Rewrite geglu(kPass, gated({.gate = 4, .act = OpKind::Gelu}));
  CHECK(geglu.left() == "fused_swiglu");
  CHECK_FALSE(geglu.after->main().attrs<SwiGLUAttrs>(geglu.find(OpKind::FusedSwiGLU)).gate_first);
  CHECK(Rewrite(kPass, gated({.act = OpKind::Sigmoid})).left() == "fused_swiglu");
}

TEST_CASE("fuse_swiglu: another axis, a wider source, equal halves or a gate that is read stay") {
  CHECK_FALSE(Rewrite(kPass, gated({.axis = 0, .gate = 2, .len = 2, .dims = {4, 8}})).result.changed);
  CHECK_FALSE(Rewrite(kPass, gated({.gate = 2, .len = 2, .dims = {6, 6}})).result.changed);
  CHECK_FALSE(Rewrite(kPass, gated({.dims = {3, 10}})).result.changed);
  CHECK_FALSE(Rewrite(kPass, gated({.act = OpKind::Exp})).result.changed);
  const Rewrite tap(kPass, gated({.tap = true}));
  CHECK_FALSE(tap.result.changed);
  CHECK(tap.first_decline() == "multi_consumer");
}

TEST_CASE("fuse_swiglu: a gate by another value than the factor is a miss with a reason") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId up = b.matmul(f32_input(b, "x", {3, 4}), f32_input(b, "u", {4, 5}));
    return std::vector{b.mul(up, b.unary(OpKind::Silu, b.matmul(f32_input(b, "y", {3, 4}), f32_input(b, "g", {4, 5}))))};
  });
  CHECK_FALSE(r.result.changed);
  CHECK(r.first_decline() == "inputs_differ");
}

TEST_CASE("fuse_swiglu: symbolic rows and width") {
  const Rewrite r(kPass, [](Builder& b) {
    const Dim s = b.dims().symbol("s"), h = b.dims().symbol("h");
    const ValueId t = f32_input(b, "t", {s, b.dims().mul(h, Dim(2))});
    return std::vector{b.mul(b.narrow(t, 1, Dim(0), h), b.unary(OpKind::Silu, b.narrow(t, 1, h, h))),
                       f32_input(b, "gives_h_its_size", {h})};
  });
  CHECK(r.left() == "fused_swiglu");
}
