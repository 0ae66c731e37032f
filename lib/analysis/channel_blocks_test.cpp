#include "analysis/channel_blocks.h"

#include <doctest/doctest.h>

#include "analysis/views.h"
#include "ir/builder.h"

using namespace rlxc;

namespace {

struct Net {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  ValueId x = b.input("x", tensor_type(DType::F32, {1, 3, 8, 8}));

  ValueId conv(ValueId v, int64_t channels, int64_t groups = 1) {
    ConvAttrs a;
    a.strides = a.dilations = {1, 1};
    a.pads_begin = a.pads_end = {0, 0};
    a.groups = groups;
    const Dim in = m.dims.floor_div(g.dims(v)[1], Dim(groups));
    return b.create(OpKind::Conv, {v, b.input("w", tensor_type(DType::F32, {Dim(channels), in, 1, 1}))}, a);
  }
  int64_t block(ValueId v, int64_t lanes = 16) { return assign_layouts(g, lanes).channel_block(v); }
};

}  // namespace

TEST_CASE("images between convolutions have blocks that divide the channels of all that share them") {
  Net n;
  const ValueId a = n.conv(n.x, 32), y = n.b.unary(OpKind::Relu, a), c = n.conv(y, 24), last = n.conv(c, 10);
  n.g.add_output(last, {});
  CHECK(n.block(a) == 16);
  CHECK(n.block(y) == 16);
  CHECK(n.block(c) == 8);
  CHECK(n.block(last) == 0);  // an output
  CHECK(n.block(n.x) == 0);
  CHECK(n.block(a, 8) == 8);
  CHECK(n.block(a, 0) == 0);
  const ValueId joined = n.b.concat(std::array{y, c}, 1);
  n.g.add_output(n.conv(joined, 16), {});
  CHECK(n.block(joined) == 8);
  CHECK(n.block(a) == 8);
}

TEST_CASE("all sizes but the channels may be symbolic") {
  Net n;
  const Dim size = n.m.dims.symbol("size");
  const ValueId batches = n.b.input("batches", tensor_type(DType::F32, {size, 3, 8, 8}));
  const ValueId rows = n.b.input("rows", tensor_type(DType::F32, {1, 3, size, 8}));
  const ValueId a = n.conv(batches, 32), b = n.conv(rows, 32);
  n.g.add_output(n.conv(a, 10), {});
  n.g.add_output(n.conv(b, 10), {});
  CHECK(n.block(a) == 16);
  CHECK(n.block(b) == 16);
}

TEST_CASE("the results of a region have the same blocks") {
  Net n;
  const ValueId x = n.conv(n.x, 32);
  const FusionAttrs a{{{OpKind::Relu, DType::F32, {0, RegionStep::kNone, RegionStep::kNone}},
                       {OpKind::Neg, DType::F32, {RegionStep::kStep, RegionStep::kNone, RegionStep::kNone}}},
                      {0}};
  const NodeId region = n.b.create_node(OpKind::ElementwiseRegion, std::vector{x}, a);
  n.g.add_output(n.conv(n.conv(n.g.result(region), 24), 3), {});
  n.g.add_output(n.conv(n.g.result(region, 1), 8), {});
  CHECK(n.block(n.g.result(region)) == 16);
  CHECK(n.block(n.g.result(region, 1)) == 16);
  CHECK(n.block(x) == 16);
}

TEST_CASE("an image that something else reads stays row-major, with all that share its elements") {
  Net n;
  const ValueId a = n.conv(n.x, 32), b = n.conv(a, 32), y = n.b.add(a, b), c = n.conv(y, 32);
  n.g.add_output(n.conv(c, 16), {});
  CHECK(n.block(a) == 16);
  n.g.add_output(n.b.reshape(y, {32, 64}), {});
  CHECK(n.block(a) == 0);
  CHECK(n.block(b) == 0);
  CHECK(n.block(y) == 0);
  CHECK(n.block(c) == 16);
}

TEST_CASE("a block belongs to one group, and images of one pixel stay") {
  Net n;
  const ValueId a = n.conv(n.x, 48), b = n.conv(a, 48, 2), c = n.conv(a, 48, 48);
  n.g.add_output(n.conv(b, 1), {});
  n.g.add_output(n.conv(c, 1), {});
  CHECK(n.block(a) == 8);
  n.g.add_output(n.conv(n.conv(a, 48, 12), 1), {});
  CHECK(n.block(a) == 0);
  const ValueId e = n.conv(n.x, 16), mean = n.b.reduce(ReduceOp::Mean, e, {2, 3}, true), f = n.conv(mean, 16);
  const ValueId scaled = n.b.mul(e, f);
  n.g.add_output(n.conv(scaled, 16), {});
  CHECK(n.block(e) == 16);
  CHECK(n.block(scaled) == 16);
  CHECK(n.block(f) == 0);
}

TEST_CASE("rows and columns of an image have its blocks, cut out of it or joined, and stay views of a row-major one") {
  Net n;
  const ValueId a = n.conv(n.x, 32), top = n.b.narrow(a, 2, 0, 4), left = n.b.narrow(a, 3, 0, 4);
  const ValueId both = n.b.concat(std::array{top, n.b.narrow(a, 2, 4, 4)}, 2);
  n.g.add_output(n.conv(both, 16), {});
  n.g.add_output(n.conv(left, 16), {});
  const ValueId of_input = n.b.narrow(n.x, 2, 2, 3);
  n.g.add_output(n.conv(of_input, 16), {});
  const auto root = [&](ValueId v) { return assign_layouts(n.g, 16).root[v.raw]; };
  for (ValueId v : {a, top, left, both}) {
    CHECK(n.block(v) == 16);
    CHECK(root(v) == v);
  }
  CHECK(n.block(of_input) == 0);
  CHECK(root(of_input) == n.x);
  n.g.add_output(n.b.reshape(top, {32, 32}), {});
  for (ValueId v : {a, top, left, both}) CHECK(n.block(v) == 0);
}
