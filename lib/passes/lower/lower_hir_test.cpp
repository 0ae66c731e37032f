#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Hir {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  PassRun run;
  Dim batch = m.dims.symbol("batch"), seq = m.dims.symbol("seq");
  Hir() { m.stage = Stage::Hir; }
  ValueId in(std::string_view name, std::vector<Dim> dims) { return b.input(name, tensor_type(DType::F32, std::move(dims))); }
};

// One of each block.
void build(Hir& h, OpKind op) {
  Builder& b = h.b;
  const ValueId x = h.in("x", {h.batch, h.seq, 8});
  ValueId y;
  switch (op) {
    case OpKind::Linear:
    case OpKind::LinearFused:
      y = b.create(op, {x, h.in("w", {6, 8}), h.in("bias", {6})},
                   FusedMatMulAttrs{false, true, {true, OpKind::LeakyRelu, 0.25, 0}});
      break;
    case OpKind::SwiGLU: y = b.create(op, {x, h.in("up", {8, 12}), h.in("gate", {8, 12}), h.in("down", {12, 8})}); break;
    case OpKind::ResidualRmsNorm:
      y = b.create(op, {x, h.in("r", {h.batch, h.seq, 8}), h.in("gamma", {8}), h.in("beta", {8})}, NormAttrs{2, 1e-4});
      break;
    case OpKind::DepthwiseConv1dCausal: y = b.create(op, {x, h.in("w", {8, 1, 1, 3}), h.in("left", {h.batch, 2, 8})}); break;
    case OpKind::SharedLinearPair: {
      const std::vector<ValueId> in{x, h.in("w1", {8, 4}), h.in("w2", {8, 5})};
      const NodeId n = b.create_node(op, in, NoAttrs{});
      h.g.add_output(h.g.result(n, 1), h.m.symbol("second"));
      y = h.g.result(n);
      break;
    }
    default: {
      std::vector<ValueId> in{x,
                              h.in("n1", {8}),
                              h.in("s1", {8}),
                              h.in("q", {8, 8}),
                              h.in("k", {8, 4}),
                              h.in("v", {8, 4}),
                              h.in("o", {8, 8}),
                              h.in("n2", {8}),
                              h.in("s2", {8}),
                              h.in("gate", {8, 12}),
                              h.in("up", {8, 12}),
                              h.in("down", {12, 8}),
                              h.in("cos", {3, 2}),
                              h.in("sin", {3, 2})};
      y = b.create(op, in, DecoderAttrs{2, 4, 1, 1e-5, MaskKind::Causal});
    }
  }
  REQUIRE(y.valid());
  h.g.set_node_name(h.g.def(y), h.m.symbol("/block"));
  h.g.add_output(y, h.m.symbol("y"));
}

constexpr OpKind kBlocks[] = {OpKind::Linear,          OpKind::LinearFused,           OpKind::SharedLinearPair, OpKind::SwiGLU,
                              OpKind::ResidualRmsNorm, OpKind::DepthwiseConv1dCausal, OpKind::LlamaDecoderBlock};

}  // namespace

TEST_CASE("every block is lowered under both policies and computes the same") {
  for (OpKind op : kBlocks)
    for (FusionPolicy policy : {FusionPolicy::Fusable, FusionPolicy::Direct}) {
      Hir before, after;
      build(before, op), build(after, op);
      after.run.options.fusion = policy;
      CHECK_MESSAGE(count(after.run(after.m, "lower_hir"), "blocks_lowered") == 1, name(op));
      CHECK_MESSAGE(after.run.diagnostics.ok(), after.run.diagnostics.text());
      for (NodeId n : after.g.nodes()) CHECK_FALSE(has_trait(after.g.op(n), kHir));
      CHECK(after.m.stage == Stage::Mir);
      CHECK_FALSE(after.run(after.m, "lower_hir").changed);
      if (eval::has_evaluator(op)) same_results(before.m, after.m, 3);
      for (NodeId n : after.g.nodes()) {
        if (has_trait(after.g.op(n), kLeaf)) continue;
        CHECK(after.m.text(after.m.origin(after.g.origin(n)).sources.at(0)) == "/block");
      }
    }
}

TEST_CASE("the policies differ where there is a fused operation") {
  Hir h, d;
  build(h, OpKind::Linear), build(d, OpKind::Linear);
  d.run.options.fusion = FusionPolicy::Direct;
  h.run(h.m, "lower_hir"), d.run(d.m, "lower_hir");
  CHECK(ops(h.g) == "input input input matmul add leaky_relu");
  CHECK(ops(d.g) == "input input input fused_matmul_bias_act");
}

TEST_CASE("a decoder block attends with grouped keys, without repeating them") {
  Hir h;
  build(h, OpKind::LlamaDecoderBlock);
  h.run(h.m, "lower_hir");
  CHECK(ops(h.g).find("concat") == std::string::npos);
  CHECK(ops(h.g).find("expand") == std::string::npos);
}
