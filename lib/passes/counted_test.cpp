#include "passes/counted.h"

#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  Dim n = m.dims.symbol("n"), k = m.dims.symbol("k");
  ValueId i(double v) { return b.scalar(DType::I64, v); }
  ValueId range(double start = 0, double step = 1) { return b.create(OpKind::Range, {i(start), i(step)}, DimsAttrs{{n}, false}); }
  ValueId constant(std::vector<int64_t> dims, const std::vector<int64_t>& v) {
    return b.constant(make_data(DType::I64, dims, v));
  }
  // "axis from the end:start", or nothing
  std::string of(ValueId v) {
    const auto c = counted(g, v);
    return c ? std::to_string(c->axis) + ":" + m.dims.text(c->start) : "";
  }
};

}  // namespace

TEST_CASE("what counts along an axis does so through views and added integers") {
  Fixture f;
  Builder& b = f.b;
  CHECK(f.of(f.range()) == "0:0");
  CHECK(f.of(f.range(3)) == "0:3");
  CHECK(f.of(f.range(0, 2)) == "");
  const ValueId column = b.reshape(f.range(), {f.n, 1});
  CHECK(f.of(column) == "1:0");
  CHECK(f.of(b.expand(column, {f.k, f.n, 7})) == "1:0");
  CHECK(f.of(b.transpose(b.expand(column, {f.k, f.n, 7}), {1, 2, 0})) == "2:0");
  CHECK(f.of(b.narrow(b.expand(column, {f.n, 7}), 0, Dim(2), Dim(1))) == "1:2");
  CHECK(f.of(b.narrow(b.expand(column, {f.n, 7}), 1, Dim(2), Dim(1))) == "1:0");
  CHECK(f.of(b.sub(b.add(f.i(5), f.range()), f.i(7))) == "0:-2");
  CHECK(f.of(b.add(f.range(), b.create(OpKind::DimValue, {}, DimsAttrs{{f.k}, false}))) == "0:k");
  CHECK(f.of(b.sub(f.i(5), f.range())) == "");
  CHECK(f.of(b.cast(f.range(), DType::F32)) == "0:0");
  CHECK(f.of(b.cast(f.range(), DType::Bool)) == "");
  CHECK(f.of(b.cast(f.range(), DType::I8)) == "");
  CHECK(f.of(b.reshape(b.expand(column, {f.n, 6}), {f.n, 2, 3})) == "2:0");
  CHECK(f.of(b.reshape(b.expand(f.range(), {2, 3, f.n}), {6, f.n})) == "0:0");
  CHECK(f.of(b.reshape(b.expand(f.range(), {6, f.n}), {f.m.dims.mul(f.n, Dim(6))})) == "");
  CHECK(f.of(b.input("x", tensor_type(DType::I64, {4}))) == "");
}

TEST_CASE("constants count along one axis; parts of an index do so for each column") {
  Fixture f;
  CHECK(f.of(f.constant({4}, {5, 6, 7, 8})) == "0:5");
  CHECK(f.of(f.constant({2, 2}, {0, 0, 1, 1})) == "1:0");
  CHECK(f.of(f.constant({2, 2}, {0, 1, 1, 2})) == "");
  CHECK(f.of(f.constant({3}, {0, 1, 1})) == "");
  CHECK(f.of(f.constant({2}, {4, 4})) == "");
  CHECK(f.of(f.b.constant(make_data(DType::F32, {2}, std::vector<float>{0.5F, 1.5F}))) == "");

  const auto parts = index_parts(f.g, f.constant({2, 3, 2}, {9, 0, 9, 1, 9, 2, 9, 0, 9, 1, 9, 2}));
  REQUIRE(parts.size() == 2);
  CHECK_FALSE(parts[0].axis);
  CHECK(parts[0].start == Dim(9));
  CHECK(parts[1].axis == 0);
  CHECK(index_parts(f.g, f.constant({2, 2}, {0, 1, 1, 3})).empty());

  const ValueId rows = f.b.expand(f.b.reshape(f.range(), {f.n, 1, 1}), {f.n, 3, 1});
  const ValueId columns = f.b.expand(f.b.reshape(f.constant({3}, {1, 2, 3}), {3, 1}), {f.n, 3, 1});
  const ValueId both[] = {rows, columns};
  const auto joined = index_parts(f.g, f.b.concat(both, 2));
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].axis == 1);
  CHECK(joined[1].axis == 0);
  CHECK(joined[1].start == Dim(1));
  CHECK(index_parts(f.g, f.b.input("at", tensor_type(DType::I64, {3, 1}))).empty());
  CHECK(index_parts(f.g, f.b.reshape(f.range(), {f.n})).empty());  // the last axis has no index components
}
