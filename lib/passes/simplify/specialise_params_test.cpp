#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("a parameter of another type than f32 is specialised with bytes of its own type") {
  PassFixture f;
  const std::vector<int64_t> values{7, 1LL << 40};
  const DataId data = f.m.data.add(make_data(DType::I64, {2}, values));
  const ValueId n = f.b.param("n", tensor_type(DType::I64, {2}), data), w = f32_param(f.b, "w", {2});
  f.g.add_output(f.b.add(n, n), {});
  f.g.add_output(w, {});
  f.run.options.specialised_params = {"n"};
  CHECK(f.run(f.m, "specialise_params").changed);
  CHECK_FALSE(f.run(f.m, "specialise_params").changed);
  CHECK(ops(f.g) == "constant param add");
  CHECK(f.run(f.m, "constant_folding").changed);
  const TensorData& sum = f.m.data[f.g.attrs<DataAttrs>(f.g.def(f.g.outputs()[0])).data];
  CHECK(element_as_int(sum, 1) == 1LL << 41);
}

TEST_CASE("a parameter whose values are not known cannot be specialised") {
  PassFixture f;
  f.g.add_output(f.b.unary(OpKind::Neg, f.b.param("w", tensor_type(DType::F32, {2}))), {});
  f.run.options.specialised_params = {"w"};
  CHECK_FALSE(f.run(f.m, "specialise_params").changed);
  CHECK(f.run.diagnostics.items().at(0).code == Code::MissingWeights);
}
