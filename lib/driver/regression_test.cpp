// Common compiler mistakes, each named after the symptom. docs/mistakes.md lists all of them, with the tests elsewhere that cover
// the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "import/json/import.h"
#include "ir/bind_dims.h"
#include "memory/plan_lir.h"
#include "support/count_launches.h"
#include "support/rewrite.h"
#include "transform/gradients.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// Runs a graph through a target's pipeline. Its results and outputs must be preserved.
struct Compile {
  std::unique_ptr<Module> before = std::make_unique<Module>(), after = std::make_unique<Module>();
  Compile(const Rewrite::Build& build, const char* target = "cpu") {
    for (Module* m : {before.get(), after.get()}) {
      Builder b(m->main());
      for (ValueId v : build(b)) m->main().add_output(v, m->symbol("y" + std::to_string(m->main().outputs().size())));
    }
    CompileOptions o;
    o.verify = true;
    Compiled out;
    Diagnostics d;
    REQUIRE_MESSAGE(optimise(*after, *find_target(target), o, {}, {}, &out, d), d.text());
    std::string why;
    CHECK_MESSAGE(eval::same_results(*before, *after, 1, 1e-4, 1e-5, &why), why);
    const Graph &g = before->main(), &h = after->main();
    REQUIRE(g.outputs().size() == h.outputs().size());
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      CHECK(before->bytes(g.output_name(i)) == after->bytes(h.output_name(i)));
      CHECK(text(g.type(g.outputs()[i]), before->dims) == text(h.type(h.outputs()[i]), after->dims));
    }
    REQUIRE(g.inputs().size() == h.inputs().size());
  }
  int64_t count(OpKind op) const {
    int64_t n = 0;
    for (NodeId k : after->main().nodes()) n += after->main().op(k) == op;
    return n;
  }
};

LirModule plan(const std::function<ValueId(Builder&)>& build) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  m->main().add_output(build(b), {});
  Diagnostics d;
  auto lir = plan_lir(std::move(m), {.verify = true}, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  return std::move(*lir);
}

}  // namespace

TEST_CASE("the declared sizes of a recurrent network's input are replaced by a guess") {
  RnnAttrs a;
  a.hidden = 2;
  const Compile c([&](Builder& b) {
    const ValueId x = f32_input(b, "x", {1, 1, 640});
    const NodeId n =
        b.create_node(OpKind::Lstm, std::vector<ValueId>{x, f32_param(b, "w", {1, 8, 640}), f32_param(b, "r", {1, 8, 2})}, a);
    return std::vector{b.graph().result(n, 0)};
  });
  const Graph& g = c.after->main();
  CHECK(num_elements(g.type(g.result(g.inputs()[0]))) == 640);
}

TEST_CASE("the rows of a batch of one stay unbound") {
  Module m;
  Builder b(m.main());
  const Dim rows = m.dims.mul(m.dims.symbol("batch"), m.dims.symbol("seq"));
  m.main().add_output(b.unary(OpKind::Exp, f32_input(b, "x", {rows, 4})), {});
  bind_dims(m, {{"batch", 1}, {"seq", 7}});
  CHECK(num_elements(m.main().type(m.main().outputs()[0])) == 28);
}

TEST_CASE("a bias that is declared late becomes two parameters of one name") {
  const Compile c([](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 4}), y = b.matmul(x, f32_param(b, "w", {4, 4}));
    const ValueId bias = f32_param(b, "late", {4});
    return std::vector{b.unary(OpKind::Gelu, b.add(y, bias)), b.unary(OpKind::Neg, bias)};
  });
  int64_t late = 0;
  for (NodeId n : c.after->main().nodes()) late += c.after->text(c.after->main().value_name(c.after->main().result(n))) == "late";
  CHECK(late == 1);
}

TEST_CASE("a resize in front of elementwise nodes is dropped, or tiles the picture") {
  ResizeAttrs a;
  a.coord = CoordMode::Asymmetric, a.nearest = NearestMode::Floor;
  for (const char* target : {"cpu", "metal", "tpu"})
    Compile(
        [&](Builder& b) {
          ValueId x = f32_input(b, "x", {1, 2, 3, 3});
          for (int64_t size : {6, 12}) {  // two resizes in a row
            a.sizes = {1, 2, size, size};
            x = b.create(OpKind::Resize, {x}, a);
          }
          return std::vector{b.unary(OpKind::Relu, b.add(x, f32_param(b, "c", {2, 1, 1})))};
        },
        target);
}

TEST_CASE("slices of a batch that different operations read all get the first one's") {
  Compile([](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 4});
    const ValueId parts[] = {b.unary(OpKind::Relu, b.narrow(x, 0, 1, 1)), b.unary(OpKind::Tanh, b.narrow(x, 0, 0, 1)),
                             b.unary(OpKind::Relu, b.narrow(x, 0, 2, 1))};
    return std::vector{b.concat(parts, 0)};
  });
}

TEST_CASE("a transpose that moves bytes counts as free, or one that moves none as a launch") {
  const auto launches = [](std::vector<Dim> dims) {
    return count_launches(*plan([&](Builder& b) {
                             const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", dims));
                             return b.unary(OpKind::Tanh, b.transpose(x, {0, 2, 1}));
                           }).module);
  };
  CHECK(launches({3, 4, 5}) == 3);
  CHECK(launches({3, 4, 1}) == 2);
}

TEST_CASE("outputs are exchanged for cheaper ones without being asked") {
  const Compile c([](Builder& b) {
    const ValueId spectrum = b.create(OpKind::Fft, {f32_input(b, "x", {2, 8, 1})}, FftAttrs{1, false, true, FftNorm::None, 0});
    const ValueId power = b.reduce(ReduceOp::SumSquare, spectrum, {2}, false);
    return std::vector{spectrum, b.create(OpKind::ArgReduce, {power}, ArgAttrs{1, true, false, false}), spectrum};
  });
  CHECK(c.count(OpKind::Fft) == 1);
}

TEST_CASE("an operation without a meaning here is replaced by a stand-in") {
  Diagnostics d;
  CHECK(
      import_json::parse_json(
          R"({"name": "g", "nodes": [{"id": 0, "op": {"GaussianSplatRender": {"width": 4, "height": 4}}, "inputs": [], "shape": {"dims": [{"Static": 64}], "dtype": "F32"}}], "outputs": [0]})",
          "", {}, d) == nullptr);
  CHECK(d.text().find("GaussianSplatRender") != std::string::npos);
}

TEST_CASE("control flow inside a loop's body, its later results or a small condition are lost") {
  const auto build = [](Builder& b) {
    Module& m = b.module();
    Graph& then = m.graph(m.make_graph("then"));
    Graph& otherwise = m.graph(m.make_graph("otherwise"));
    Graph& body = m.graph(m.make_graph("body"));
    const Type scalar = tensor_type(DType::F32, {});
    for (Graph* g : {&then, &otherwise}) {
      Builder inner(*g);
      const ValueId v = inner.input("v", scalar);
      g->add_output(g == &then ? inner.add(v, inner.scalar(DType::F32, 1)) : inner.mul(v, inner.scalar(DType::F32, 0.5)), {});
      g->add_output(inner.unary(g == &then ? OpKind::Neg : OpKind::Exp, v), {});
    }
    Builder inner(body);
    const ValueId i = inner.input("i", tensor_type(DType::I64, {}));
    inner.input("going", tensor_type(DType::Bool, {}));
    const ValueId a = inner.input("a", scalar), c = inner.input("c", scalar);
    const ValueId small = inner.create(OpKind::Lt, {a, inner.scalar(DType::F32, 3)});
    const NodeId branch =
        inner.create_node(OpKind::If, std::vector<ValueId>{small, a}, IfAttrs{}, std::vector<GraphId>{then.id(), otherwise.id()});
    const ValueId going = inner.create(OpKind::Lt, {inner.cast(i, DType::F32), inner.scalar(DType::F32, 200)});
    for (ValueId v :
         {going, body.result(branch, 0), inner.add(c, inner.mul(body.result(branch, 1), inner.scalar(DType::F32, 1e-3)))})
      body.add_output(v, {});
    const ValueId x = b.reduce(ReduceOp::Mean, f32_input(b, "x", {3}), {0}, false);
    const NodeId loop =
        b.create_node(OpKind::Loop, std::vector<ValueId>{b.scalar(DType::I64, 300), b.scalar(DType::Bool, 1), x, x}, LoopAttrs{2},
                      std::vector<GraphId>{body.id()});
    return std::vector{b.graph().result(loop, 0), b.graph().result(loop, 1)};
  };
  Compile{build};
}

TEST_CASE("the pieces of an operation compute in f32 whatever its type") {
  for (DType t : {DType::F64, DType::F16}) {
    PassRun run;
    run.target.native.reset(static_cast<size_t>(OpKind::GroupNorm));
    Module m;
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(t, {2, 4, 3}));
    m.main().add_output(b.create(OpKind::GroupNorm, {x}, GroupNormAttrs{2, 1e-4}), {});
    run(m, "decompose");
    CHECK_MESSAGE(run.diagnostics.ok(), run.diagnostics.text());
    CHECK(m.main().dtype(m.main().outputs()[0]) == t);
  }
}

TEST_CASE("random draws of different seeds become one") {
  const Rewrite r("common_subexpression_elimination", [](Builder& b) {
    RandomAttrs a;
    a.dims = {4};
    const ValueId first = b.create(OpKind::Random, {}, a);
    a.seed = 1;
    return std::vector{b.add(first, b.create(OpKind::Random, {}, a))};
  });
  CHECK(r.left() == "random random add");
}

TEST_CASE("a slice of the first axis with symbolic inner sizes cannot be planned") {
  const LirModule lir = plan([](Builder& b) {
    const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", {4, b.dims().symbol("n")}));
    return b.unary(OpKind::Neg, b.narrow(x, 0, 1, 2));
  });
  CHECK(count_launches(*lir.module) == 2);
}

TEST_CASE("an integer output keeps every buffer alive") {
  const LirModule lir = plan([](Builder& b) {
    ValueId v = f32_input(b, "x", {64, 64});
    for (int i = 0; i < 6; ++i) v = b.matmul(v, v);
    return b.create(OpKind::ArgReduce, {v}, ArgAttrs{1, true, false, false});
  });
  CHECK(lir.plans[0].arena_size.size() == 2 * 64 * 64 * 4);
}

TEST_CASE("weights are quantized again at every call") {
  const LirModule lir = plan([](Builder& b) {
    const ValueId w = f32_param(b, "w", {4, 4}), scale = b.scalar(DType::F32, 0.1);
    const ValueId q = b.create(OpKind::Quantize, {w, scale}, QuantAttrs{});
    return b.matmul(f32_input(b, "x", {2, 4}), b.create(OpKind::Dequantize, {q, scale}, QuantAttrs{0, 0, DType::F32}));
  });
  CHECK(count_launches(*lir.module) == 1);
}

TEST_CASE("gradients are those of other values once passes have renumbered the graph") {
  // Passes remove the dead node, and fuse the matmul with its bias.
  const Compile c([](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 8}), w = f32_param(b, "w", {8, 6}), bias = f32_param(b, "bias", {6});
    b.unary(OpKind::Exp, x);
    const ValueId y = b.unary(OpKind::Relu, b.add(b.matmul(x, w), bias));
    Diagnostics d;
    const ValueId wrt[] = {w, bias, x};
    const auto g = transform::gradients(b, b.reduce(ReduceOp::Sum, b.mul(y, y), {0, 1}, false), {}, wrt, {}, d);
    REQUIRE_MESSAGE(g, d.text());
    return *g;
  });
  const Graph& g = c.after->main();
  CHECK(std::ranges::equal(g.dims(g.outputs()[0]), std::array{Dim(8), Dim(6)}));
  CHECK(std::ranges::equal(g.dims(g.outputs()[1]), std::array{Dim(6)}));
  CHECK(std::ranges::equal(g.dims(g.outputs()[2]), std::array{Dim(4), Dim(8)}));
}

namespace {

// Forward and backward pass of a layer: the gradients by a weight, a slice of which is also an output, and by the input.
LirModule training_plan() {
  return plan([](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 8}), w = f32_param(b, "w", {16, 6});
    const ValueId part = b.reshape(b.narrow(w, 0, 8, 8), {8, 6});
    const ValueId y = b.unary(OpKind::Tanh, b.matmul(x, part));
    Diagnostics d;
    const ValueId wrt[] = {x};
    const auto g = transform::gradients(b, b.reduce(ReduceOp::Sum, b.mul(y, y), {0, 1}, false), {}, wrt, {}, d);
    REQUIRE_MESSAGE(g, d.text());
    return b.unary(OpKind::Neg, (*g)[0]);
  });
}

}  // namespace

TEST_CASE("what the backward part makes lies over weights that the forward part still reads") {
  const LirModule lir = training_plan();
  const Graph& g = lir.module->main();
  int64_t made = 0;
  for (NodeId n : g.nodes()) {
    const Slot& s = lir.plans[0].slot[g.result(n).raw];
    CHECK((g.op(n) == OpKind::Param) <= (s.region == Region::Weights));
    if (has_trait(g.op(n), kLeaf) || s.view) continue;
    CHECK(s.region != Region::Weights);
    ++made;
  }
  CHECK(made >= 4);
}

TEST_CASE("a part of a weight has no place where gradients read it") {
  const LirModule lir = training_plan();
  const Graph& g = lir.module->main();
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::Narrow) continue;
    const Slot &part = lir.plans[0].slot[g.result(n).raw], &whole = lir.plans[0].slot[g.operand(n, 0).raw];
    CHECK(part.region == Region::Weights);
    CHECK(part.view);
    CHECK(part.offset == g.module().dims.add(whole.offset, Dim(8 * 6 * 4)));
  }
}

TEST_CASE("slices of a batch read other nodes once passes have renumbered the graph") {
  // The dead nodes are removed, the sum is fused, and the slices and their concatenation are recreated.
  const Compile c([](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 4}), other = f32_input(b, "other", {3, 4});
    b.unary(OpKind::Exp, b.add(other, x));
    const ValueId sum = b.add(b.mul(x, x), other);
    const ValueId parts[] = {b.unary(OpKind::Relu, b.narrow(sum, 0, 2, 1)), b.unary(OpKind::Relu, b.narrow(sum, 0, 0, 1)),
                             b.unary(OpKind::Relu, b.narrow(other, 0, 1, 1))};
    return std::vector{b.concat(parts, 0)};
  });
  CHECK(c.count(OpKind::Exp) == 0);
}
