#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "split_pooling";

PoolAttrs pool(ReduceOp op, int64_t size) {
  PoolAttrs a;
  a.op = op;
  a.kernel = {size, size};
  a.strides = {1, 2};
  a.dilations = {1, 1};
  a.pads_begin = {size / 2, 1};
  a.pads_end = {size / 2, size / 2};
  return a;
}

}  // namespace

TEST_CASE("split_pooling: extremes over large windows are taken along each axis") {
  for (const ReduceOp op : {ReduceOp::Max, ReduceOp::Min})
    for (const bool ceil : {false, true}) {
      const Rewrite r(kPass, [&](Builder& b) {
        PoolAttrs a = pool(op, 9);
        a.ceil_mode = ceil;
        return std::vector{b.create(OpKind::Pool, {f32_input(b, "x", {b.dims().symbol("n"), 2, 12, 13})}, a)};
      });
      CHECK(r.left() == "pool pool");
    }
}

TEST_CASE("split_pooling: small windows and means stay") {
  for (const auto& [op, size] : {std::pair{ReduceOp::Max, int64_t{5}}, {ReduceOp::Mean, int64_t{9}}}) {
    const Rewrite r(kPass, [&](Builder& b) {
      return std::vector{b.create(OpKind::Pool, {f32_input(b, "x", {1, 2, 12, 13})}, pool(op, size))};
    });
    CHECK(r.left() == "pool");
  }
}
