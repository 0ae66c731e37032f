#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "share_norms";

ValueId norm(Builder& b, OpKind op, ValueId x, std::string_view gamma, std::string_view beta, int64_t axis = 2) {
  const auto row = [&](std::string_view name) { return name.empty() ? ValueId() : f32_param(b, name, {8}); };
  return b.create(op, {x, row(gamma), row(beta)}, NormAttrs{axis, 1e-5});
}
ValueId tokens(Builder& b) { return f32_input(b, "x", {2, b.dims().symbol("seq"), 8}); }

int count_of(const Rewrite& r, OpKind op) {
  int n = 0;
  for (NodeId k : r.after->main().nodes()) n += r.after->main().op(k) == op;
  return n;
}

}  // namespace

TEST_CASE("share_norms: scale and shift go into weights and biases, in both layouts") {
  for (const OpKind op : {OpKind::LayerNorm, OpKind::RmsNorm})
    for (const bool trans : {false, true})
      for (const bool bias : {false, true}) {
        const Rewrite r(kPass, [&](Builder& b) {
          const ValueId x = tokens(b);
          const auto product = [&](ValueId v, std::string_view w, int64_t n) {
            const ValueId p =
                b.matmul(v, f32_param(b, w, trans ? std::vector{n, int64_t{8}} : std::vector{int64_t{8}, n}), false, trans);
            return bias ? b.add(f32_param(b, std::string(w) + "bias", {n}), p) : p;
          };
          const std::string_view shift = op == OpKind::LayerNorm ? "shift" : "";
          const ValueId a = norm(b, op, x, "scale", shift), c = norm(b, op, x, "other", "");
          return std::vector{product(a, "q", 4), product(a, "k", 6), b.add(x, product(c, "up", 8))};
        });
        CHECK(count(r.result, "norm") == 1);
        CHECK(count_of(r, op) == 1);
        CHECK_FALSE(r.after->main().operand(r.find(op), 1).valid());
        CHECK(r.run.decisions.at(0).members.size() == 2);
      }
}

TEST_CASE("share_norms: products of reshaped rows, and a norm that has no scale") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 5, 8});
    const ValueId rows = b.reshape(norm(b, OpKind::LayerNorm, x, "scale", "shift"), {Dim(10), Dim(8)});
    return std::vector{b.matmul(rows, f32_param(b, "w", {8, 4})), b.unary(OpKind::Relu, norm(b, OpKind::LayerNorm, x, "", ""))};
  });
  CHECK(count_of(r, OpKind::LayerNorm) == 1);
}

TEST_CASE("share_norms: a norm whose value is scaled and shifted in two ways") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId n = norm(b, OpKind::LayerNorm, tokens(b), "", "");
    const auto row = [&](std::string_view name) { return f32_param(b, name, {8}); };
    return std::vector{b.matmul(b.add(row("shift"), b.mul(n, row("scale"))), f32_param(b, "w", {8, 4})),
                       b.matmul(b.mul(row("other"), n), f32_param(b, "v", {8, 4}))};
  });
  CHECK(count(r.result, "norm") == 1);
  CHECK(r.run.decisions.at(0).members.size() == 4);
  const Rewrite read(kPass, [](Builder& b) {
    const ValueId n = norm(b, OpKind::LayerNorm, tokens(b), "", "");
    return std::vector{b.unary(OpKind::Relu, b.mul(n, f32_param(b, "scale", {8}))), n};
  });
  CHECK_FALSE(read.result.changed);
  CHECK(read.first_decline() == "readers");
}

TEST_CASE("share_norms: what else reads a norm, other axes, scales of a run and too little room keep them apart") {
  const auto decline_of = [](const Rewrite::Build& first, const std::function<void(PassRun&)>& configure = {}) {
    const Rewrite r(
        kPass,
        [&](Builder& b) {
          std::vector<ValueId> out = first(b);
          out.push_back(b.matmul(norm(b, OpKind::LayerNorm, b.graph().operand(b.graph().def(out[0]), 0), "other", ""),
                                 f32_param(b, "u", {8, 4})));
          return out;
        },
        configure);
    CHECK_FALSE(r.result.changed);
    return r.first_decline();
  };
  const auto read = [](Builder& b) { return std::vector{norm(b, OpKind::LayerNorm, tokens(b), "scale", "shift")}; };
  CHECK(decline_of(read) == "readers");
  CHECK(decline_of([](Builder& b) {
          const ValueId gamma = b.unary(OpKind::Relu, f32_input(b, "gamma", {8}));
          const ValueId y = b.create(OpKind::LayerNorm, {tokens(b), gamma}, NormAttrs{2, 1e-5});
          return std::vector{y, b.matmul(y, f32_param(b, "w", {8, 4}))};
        }) == "runtime_scale");
  const auto product = [](Builder& b) {
    const ValueId y = norm(b, OpKind::LayerNorm, tokens(b), "scale", "shift");
    return std::vector{y, b.matmul(y, f32_param(b, "w", {8, 4}))};
  };
  CHECK(decline_of(product) == "readers");
  const Rewrite limited(
      kPass,
      [](Builder& b) {
        const ValueId x = tokens(b);
        return std::vector{b.matmul(norm(b, OpKind::LayerNorm, x, "scale", ""), f32_param(b, "w", {8, 4})),
                           b.matmul(norm(b, OpKind::LayerNorm, x, "other", ""), f32_param(b, "v", {8, 4}))};
      },
      [](PassRun& r) { r.options.max_packed = 200; });
  CHECK(limited.first_decline() == "packed_limit");
  const Rewrite alone(kPass, [](Builder& b) {
    const ValueId x = tokens(b);
    return std::vector{b.matmul(norm(b, OpKind::LayerNorm, x, "scale", ""), f32_param(b, "w", {8, 4})),
                       b.matmul(norm(b, OpKind::RmsNorm, x, "other", ""), f32_param(b, "v", {8, 4}))};
  });
  CHECK_FALSE(alone.result.changed);
  CHECK(alone.run.decisions.empty());
}
