#include "passes/passes.h"
#include "passes/quantize/tensor_names.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// x -> relu(x w1) w2, with named values.
struct Mlp {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  PassRun run;
  explicit Mlp(DType t = DType::F32, bool tap_output = false) {
    const Dim batch = m.dims.symbol("batch");
    const ValueId x = b.input("x", tensor_type(t, {batch, 8})), w1 = b.param("w1", tensor_type(t, {8, 6})),
                  w2 = b.param("w2", tensor_type(t, {6, 4}));
    const ValueId h = b.unary(OpKind::Relu, b.matmul(x, w1)), y = b.matmul(h, w2);
    g.set_value_name(h, m.symbol("h"));
    g.set_value_name(y, m.symbol("y"));
    g.set_value_name(b.create(OpKind::ArgReduce, {y}, ArgAttrs{1}), m.symbol("class"));
    g.add_output(y, m.symbol("y"));
    if (tap_output) g.add_output(h, m.symbol("h"));
    run.options.calibration.emplace();
  }
  Mlp& tap(std::string name, std::vector<double> scales, std::optional<int64_t> axis = {}, std::vector<int64_t> zeros = {}) {
    run.options.calibration->entries.push_back({std::move(name), {axis, std::move(scales), std::move(zeros)}});
    return *this;
  }
  PassResult operator()() { return run(m, "insert_q_dq"); }
  std::string refused() {
    const std::string before = ops(g);
    CHECK_FALSE((*this)().changed);
    CHECK(ops(g) == before);
    REQUIRE_FALSE(run.diagnostics.items().empty());
    CHECK(run.diagnostics.items()[0].code == Code::BadCalibration);
    return run.diagnostics.text();
  }
};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

const std::vector<double> kColumns{0.01, 0.02, 0.015, 0.0157, 0.016, 0.012};

}  // namespace

TEST_CASE("tensors of the record are quantized per tensor and per channel; the result stays close") {
  Mlp before, after;
  after.tap("x", {2.0 / 127})
      .tap("w1", {0.0158, 0.0158, 0.0158, 0.0158, 0.0158, 0.0158}, 1)
      .tap("h", {16.0 / 255}, {}, {-128})
      .tap("w2", {2.0 / 127});
  const PassResult r = after();
  CHECK(count(r, "pairs_inserted") == 4);
  CHECK(after.run.diagnostics.items().empty());
  CHECK(after.run.notes.size() == 4);
  CHECK(after.run.notes[0].value == "x");
  CHECK(after.run.notes[0].to == "i8");
  for (uint64_t seed = 1; seed <= 5; ++seed)
    CHECK(eval::compare(results_of(after.m, seed)[0], results_of(before.m, seed)[0], 1, 1).cosine > 0.999);
  CHECK_FALSE(after().changed);
  CHECK(after.run.notes.size() == 4);
}

TEST_CASE("readers read the dequantized value, and so do outputs") {
  Mlp f(DType::F32, true);
  f.tap("h", {0.05}).tap("y", {0.1});
  f();
  CHECK(f.run.notes.size() == 2);
  for (ValueId v : f.g.outputs()) {
    REQUIRE(f.g.op(f.g.def(v)) == OpKind::Dequantize);
    const NodeId q = f.g.def(f.g.operand(f.g.def(v), 0));
    REQUIRE(f.g.op(q) == OpKind::Quantize);
    CHECK(f.g.use_count(f.g.operand(q, 0)) == 1);
  }
  CHECK(f.g.op(f.g.def(f.g.operand(f.g.def(f.g.operand(f.g.def(f.g.outputs()[1]), 0)), 0))) == OpKind::Relu);
}

TEST_CASE("a tensor that only float layers read is not quantized, and no pair of it is reported") {
  Mlp f;
  f.tap("w1", {0.0157});
  for (NodeId n : f.g.nodes())
    if (f.g.op(n) == OpKind::MatMul) f.g.set_node_name(n, f.m.symbol("fc"));
  f.run.options.calibration->float_layers = {"fc"};
  CHECK_FALSE(f().changed);
  CHECK(f.run.notes.empty());
}

TEST_CASE("tensors without a name are called by their kind, whatever their numbers are") {
  const auto names = [](bool other_numbers) {
    Module m;
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {4, 4}));
    if (other_numbers) m.main().erase(m.main().def(b.mul(x, x)));
    const ValueId y = b.mul(x, x);
    m.main().add_output(b.matmul(b.mul(y, y), y), m.symbol("y"));
    std::vector<std::string> all;
    each_tensor(m, [&](GraphId id, ValueId v, const std::string& name) {
      all.push_back(name);
      if (const NodeId n = m.graph(id).def(v); m.graph(id).op(n) == OpKind::MatMul)
        CHECK(layer_name(m.graph(id), n, name) == name);
    });
    return all;
  };
  CHECK(names(false) == std::vector<std::string>{"x", "mul", "mul~2", "matmul"});
  CHECK(names(true) == names(false));
}

TEST_CASE("the element type of the tensor is kept") {
  Mlp f(DType::F16);
  f.tap("x", {0.0157}).tap("w1", kColumns, 1);
  CHECK(f().changed);
  for (NodeId n : f.g.nodes())
    if (f.g.op(n) == OpKind::Dequantize) CHECK(f.g.dtype(f.g.result(n)) == DType::F16);
}

TEST_CASE("an entry that does not fit changes nothing and is an error that names the tensor") {
  CHECK(has(Mlp().tap("x", {0.1}).tap("z", {0.1}).refused(), "tensor \"z\": the model has no tensor of this name"));
  CHECK(has(Mlp().tap("w1", {0.1, 0.2}, 1).refused(), "has 6 coordinates on axis 1, the entry has 2 scales"));
  CHECK(has(Mlp().tap("w1", {0.1}, 2).refused(), "has rank 2, the axis of the entry is 2"));
  CHECK(has(Mlp().tap("x", {0.1, 0.1}, 0).refused(), "a symbolic number of"));
  CHECK(has(Mlp().tap("x", {0.1, 0.1}).refused(), "no axis"));
  CHECK(has(Mlp().tap("class", {0.1}).refused(), "not a tensor of floats"));
  CHECK(has(Mlp().tap("x", {0.1}).tap("x", {0.2}).refused(), "has two entries"));
  CHECK(has(Mlp(DType::F16).tap("x", {1e-9}).refused(), "not positive and finite as f16"));
  CHECK(has(Mlp().tap("x", {0.1}, {}, {300}).refused(), "zero point"));
}

TEST_CASE("a tensor that became part of another operation is a warning, not an error") {
  Mlp f;
  f.m.symbol("gone");
  f.tap("x", {0.1}).tap("gone", {0.1});
  CHECK(f().changed);
  CHECK(f.run.diagnostics.ok());
  CHECK(has(f.run.diagnostics.text(), "\"gone\""));
}

TEST_CASE("without a record nothing happens") {
  Mlp f;
  f.run.options.calibration.reset();
  CHECK_FALSE(f().changed);
}

TEST_CASE("a layer that the record keeps float reads the unrounded value") {
  Mlp f;
  const NodeId first = f.g.def(f.g.operand(f.g.def(f.g.operand(f.g.def(f.g.outputs()[0]), 0)), 0));
  const NodeId second = f.g.def(f.g.outputs()[0]);
  f.g.set_value_name(f.g.result(first), f.m.symbol("first"));
  f.tap("x", {2.0 / 127}).tap("h", {16.0 / 255}, {}, {-128});
  f.run.options.calibration->float_layers = {std::string(f.g.label(first).bytes())};
  CHECK(count(f(), "pairs_inserted") == 1);  // nothing else reads x
  CHECK(f.g.op(f.g.def(f.g.operand(first, 0))) == OpKind::Input);
  CHECK(f.g.op(f.g.def(f.g.operand(second, 0))) == OpKind::Dequantize);
}
