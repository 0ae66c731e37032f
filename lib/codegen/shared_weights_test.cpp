// A forward and a backward module with the same weights. Both refer to the bytes of the model's files: no result may overwrite a
// weight, and views of weights take no memory.
#include <doctest/doctest.h>

#include "backend/weight_files.h"
#include "codegen/make_package.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"

using namespace rlxc;

namespace {

// A parameter with its bytes in a file of the model, as the importer creates it.
ValueId weight(Module& m, Builder& b, std::string_view name, std::vector<int64_t> dims, uint64_t offset) {
  uint64_t count = 1;
  for (int64_t d : dims) count *= static_cast<uint64_t>(d);
  TensorData data = make_data(DType::F32, dims, std::vector<float>(count, 0.5f));
  data.file = "weights.bin", data.offset = offset;
  return b.param(name, tensor_type(DType::F32, {dims.begin(), dims.end()}), m.data.add(std::move(data)));
}

LirModule plan(std::unique_ptr<Module> m) {
  Diagnostics d;
  auto lir = plan_lir(std::move(m), {.verify = true}, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  return std::move(*lir);
}

// y = tanh(x w1) w2
LirModule forward() {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(4), Dim(64)}));
  const ValueId w1 = weight(*m, b, "w1", {64, 64}, 0), w2 = weight(*m, b, "w2", {64, 8}, 16384);
  m->main().add_output(b.matmul(b.unary(OpKind::Tanh, b.matmul(x, w1)), w2), m->symbol("y"));
  return plan(std::move(m));
}

// dx = ((dy w2^T) (1 - h^2)) w1^T, with w1 as a view of other sizes
LirModule backward() {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId dy = b.input("dy", tensor_type(DType::F32, {Dim(4), Dim(8)})),
                h = b.input("h", tensor_type(DType::F32, {Dim(4), Dim(64)}));
  const ValueId w2 = weight(*m, b, "w2", {64, 8}, 16384), w1 = weight(*m, b, "w1", {64, 64}, 0);
  const ValueId dh = b.create(OpKind::MatMul, {dy, w2}, MatMulAttrs{false, true});
  const ValueId slope = b.create(OpKind::Sub, {dh, b.create(OpKind::Mul, {dh, b.create(OpKind::Mul, {h, h})})});
  const ValueId rows = b.narrow(b.reshape(w1, {2, 32, 64}), 0, 1, 1);
  const ValueId seen = b.create(OpKind::MatMul, {slope, b.reshape(rows, {32, 64})}, MatMulAttrs{false, true});
  m->main().add_output(seen, m->symbol("dx"));
  return plan(std::move(m));
}

}  // namespace

TEST_CASE("forward and backward refer to the same bytes of the same files") {
  const LirModule modules[] = {forward(), backward()};
  std::map<std::string, std::tuple<std::string, uint64_t, uint64_t>> where[2];
  for (int i : {0, 1}) {
    Diagnostics d;
    const auto package = codegen::make_package(modules[i], "part", {}, d);
    REQUIRE_MESSAGE(package.has_value(), d.text());
    const WeightFiles located = locate_weights(*package, {.max_packed_bytes = 0});
    CHECK_FALSE(located.has_own());  // nothing is copied
    for (size_t w = 0; w < package->weights.size(); ++w)
      where[i][package->weights[w].name.bytes()] = {located.files[located.weights[w].file].bytes(), located.weights[w].offset,
                                                    located.weights[w].stored};
  }
  CHECK(where[0].size() == 2);
  CHECK(where[0] == where[1]);
  CHECK(where[0]["w2"] == std::tuple<std::string, uint64_t, uint64_t>{"weights.bin", 16384, 2048});
}

TEST_CASE("activations of a backward module have a region of their own, and views of weights lie in weights") {
  const LirModule lir = backward();
  const Graph& g = lir.module->main();
  size_t views = 0, activations = 0;
  for (NodeId n : g.nodes()) {
    const Slot& s = lir.plans[0].slot[g.result(n).raw];
    if (g.op(n) == OpKind::Param) CHECK(s.region == Region::Weights);
    activations += s.region == Region::Activations;
    if (!s.view || g.op(g.def(s.root)) != OpKind::Param) continue;
    ++views;
    CHECK(s.region == Region::Weights);
    const Slot& root = lir.plans[0].slot[s.root.raw];
    const int64_t at = s.offset.size() - root.offset.size();
    CHECK(at == (g.op(n) == OpKind::Reshape && s.size == root.size ? 0 : 32 * 64 * 4));
    CHECK(at + s.size.size() <= root.size.size());
  }
  CHECK(views == 3);
  CHECK(activations > 0);
  CHECK(lir.plans[0].arena_size.size() < 16384);  // holds no weight
}
