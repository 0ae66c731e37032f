// Tests fused ops and HIR blocks against chains of plain ops.
#include <functional>

#include "eval/equivalence.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

namespace {
using Build = std::function<std::vector<ValueId>(Builder&, const std::vector<ValueId>&)>;

// Builds both graphs from the same inputs and compares their results.
void check_same(const std::vector<std::vector<int64_t>>& shapes, const Build& one, const Build& other) {
  Module a, b;
  Diagnostics d;
  for (Module* m : {&a, &b}) {
    Builder build(m->main(), &d);
    std::vector<ValueId> in;
    for (const auto& s : shapes)
      in.push_back(build.input("x" + std::to_string(in.size()), tensor_type(DType::F64, {s.begin(), s.end()})));
    for (ValueId v : (m == &a ? one : other)(build, in)) m->main().add_output(v, m->symbol("y"));
  }
  REQUIRE_MESSAGE(d.ok(), d.text());
  std::string why;
  CHECK_MESSAGE(eval::same_results(a, b, 5, 1e-9, 1e-11, &why), why);
}
std::vector<ValueId> all_results(Builder& b, NodeId n) {
  std::vector<ValueId> out;
  for (size_t i = 0; n.valid() && i < b.graph().result_count(n); ++i) out.push_back(b.graph().result(n, i));
  return out;
}
}  // namespace

TEST_CASE("fused matmul, convolution") {
  const Epilogue act{true, LeakyRelu, 0.1, 0};
  auto leaky = [](Builder& b, ValueId x) { return b.create(LeakyRelu, {x}, AlphaBetaAttrs{0.1, 0}); };
  check_same(
      {{2, 3, 4}, {5, 4}, {5}, {2, 3, 5}},
      [&](Builder& b, const auto& x) {
        return std::vector{b.create(FusedMatMulBiasAct, {x[0], x[1], x[2], x[3]}, FusedMatMulAttrs{false, true, act})};
      },
      [&](Builder& b, const auto& x) {
        return std::vector{leaky(b, b.add(b.add(b.matmul(x[0], x[1], false, true), x[2]), x[3]))};
      });
  ConvAttrs conv;
  conv.strides = {1, 1}, conv.pads_begin = {1, 1}, conv.pads_end = {1, 1}, conv.dilations = {1, 1};
  check_same(
      {{1, 2, 4, 4}, {3, 2, 3, 3}, {3}, {1, 3, 4, 4}},
      [&](Builder& b, const auto& x) {
        return std::vector{b.create(FusedConvBiasAct, {x[0], x[1], x[2], x[3]}, FusedConvAttrs{conv, act})};
      },
      [&](Builder& b, const auto& x) {
        return std::vector{leaky(b, b.add(b.create(Conv, {x[0], x[1], x[2]}, conv), x[3]))};
      });
}

TEST_CASE("fused residual norms, SwiGLU") {
  for (const auto& kinds : {std::pair{FusedResidualLN, LayerNorm}, std::pair{FusedResidualRmsNorm, RmsNorm}}) {
    const OpKind fused = kinds.first, plain = kinds.second;
    check_same(
        {{2, 3, 4}, {2, 3, 4}, {4}, {4}, {4}},
        [&](Builder& b, const auto& x) {
          return all_results(b, b.create_node(fused, x, NormAttrs{2, 1e-3}));
        },
        [&](Builder& b, const auto& x) {
          const ValueId s = b.add(b.add(x[0], x[1]), x[2]);
          return std::vector{b.create(plain, {s, x[3], x[4]}, NormAttrs{2, 1e-3}), s};
        });
  }
  for (const bool gate_first : {false, true})
    check_same(
        {{2, 6}},
        [&](Builder& b, const auto& x) {
          return std::vector{b.create(FusedSwiGLU, {x[0]}, SwiGLUAttrs{gate_first, {}})};
        },
        [&](Builder& b, const auto& x) {
          const ValueId first = b.narrow(x[0], 1, Dim(0), Dim(3)), second = b.narrow(x[0], 1, Dim(3), Dim(3));
          return std::vector{gate_first ? b.mul(second, b.unary(Silu, first)) : b.mul(first, b.unary(Silu, second))};
        });
}

TEST_CASE("blocks of the HIR") {
  check_same(
      {{2, 4}, {4, 3}, {3}},
      [](Builder& b, const auto& x) {
        return std::vector{b.create(Linear, {x[0], x[1], x[2]})};
      },
      [](Builder& b, const auto& x) { return std::vector{b.add(b.matmul(x[0], x[1]), x[2])}; });
  check_same(
      {{2, 4}, {4, 3}, {4, 5}},
      [](Builder& b, const auto& x) { return all_results(b, b.create_node(SharedLinearPair, x, NoAttrs{})); },
      [](Builder& b, const auto& x) {
        return std::vector{b.matmul(x[0], x[1]), b.matmul(x[0], x[2])};
      });
  check_same(
      {{2, 3, 4}, {4, 6}, {4, 6}, {6, 4}},
      [](Builder& b, const auto& x) {
        return std::vector{b.create(SwiGLU, {x[0], x[1], x[2], x[3]})};
      },
      [](Builder& b, const auto& x) {
        return std::vector{b.matmul(b.mul(b.matmul(x[0], x[1]), b.unary(Silu, b.matmul(x[0], x[2]))), x[3])};
      });
  check_same(
      {{2, 4}, {2, 4}, {4}, {4}},
      [](Builder& b, const auto& x) {
        return std::vector{b.create(ResidualRmsNorm, {x[0], x[1], x[2], x[3]}, NormAttrs{1, 1e-4})};
      },
      [](Builder& b, const auto& x) {
        return std::vector{b.create(RmsNorm, {b.add(x[0], x[1]), x[2], x[3]}, NormAttrs{1, 1e-4})};
      });
  check_same(
      {{2, 5, 3}, {3, 1, 1, 4}, {2, 3, 3}},
      [](Builder& b, const auto& x) {
        return std::vector{b.create(DepthwiseConv1dCausal, {x[0], x[1], x[2]})};
      },
      [](Builder& b, const auto& x) {
        ConvAttrs conv;
        conv.strides = conv.dilations = {1, 1}, conv.pads_begin = conv.pads_end = {0, 0}, conv.groups = 3;
        const ValueId parts[] = {x[2], x[0]};
        const ValueId wide = b.reshape(b.transpose(b.concat(parts, 1), {0, 2, 1}), {Dim(2), Dim(3), Dim(1), Dim(8)});
        return std::vector{b.transpose(b.reshape(b.create(Conv, {wide, x[1]}, conv), {Dim(2), Dim(3), Dim(5)}), {0, 2, 1})};
      });
}

TEST_CASE("decoder block against its parts") {
  // x, ln1_g, ln1_b, q_w, k_w, v_w, o_w, ln2_g, ln2_b, gate_w, up_w, down_w, cos, sin: 4 heads of 2 over 2 key heads.
  const std::vector<std::vector<int64_t>> shapes{{2, 3, 6}, {6}, {6},    {6, 8}, {6, 4}, {6, 4}, {8, 6},
                                                 {6},       {6}, {6, 5}, {6, 5}, {5, 6}, {3, 1}, {3, 1}};
  DecoderAttrs block;
  block.num_heads = 4, block.head_dim = 2, block.num_kv_heads = 2;
  check_same(
      shapes, [&](Builder& b, const auto& x) { return std::vector{b.create(LlamaDecoderBlock, std::span(x), block)}; },
      [&](Builder& b, const auto& x) {
        const NormAttrs norm{2, 1e-5};
        const ValueId n = b.create(RmsNorm, {x[0], x[1], x[2]}, norm);
        RopeAttrs rope;
        rope.head_dim = rope.n_rot = 2, rope.layout = AttentionLayout::Packed;
        AttentionAttrs attention;
        attention.num_heads = 4, attention.num_kv_heads = 2, attention.layout = attention.out_layout = AttentionLayout::Packed,
        attention.mask = MaskKind::Causal;
        const ValueId q = b.create(Rope, {b.matmul(n, x[3]), x[12], x[13]}, rope),
                      k = b.create(Rope, {b.matmul(n, x[4]), x[12], x[13]}, rope);
        const ValueId y = b.add(x[0], b.matmul(b.create(Attention, {q, k, b.matmul(n, x[5])}, attention), x[6]));
        const ValueId m = b.create(RmsNorm, {y, x[7], x[8]}, norm);
        return std::vector{b.add(y, b.matmul(b.mul(b.unary(Silu, b.matmul(m, x[9])), b.matmul(m, x[10])), x[11]))};
      });
}

TEST_CASE("every operation has an evaluator") {
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (op != Return) CHECK_MESSAGE(eval::has_evaluator(op), name(op));
  }
}
