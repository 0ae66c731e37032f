// Attention of 8-bit integers: one kernel computes both matmuls. For CPU threads, keys and values are packed for a dot unit
// first.
#include "codegen/fused_bodies.h"
#include "ir/region.h"
#include "kernel/builders/attention_dots.h"
#include "kernel/builders/gemm.h"

namespace rlxc::codegen {
namespace {

using kernel::GemmSpec;

// One of the two matmuls. The operands of its steps are those that the steps read.
struct Product {
  size_t right, left_zero, right_zero;  // operands of the node
  DType left;
  Dim n, k;
  std::vector<RegionStep> steps;
  std::vector<size_t> operands;  // of the steps

  void add_operands(std::span<const RegionStep> own) {
    for (const RegionStep& s : own)
      for (uint16_t a : s.args)
        if (a != RegionStep::kNone && !(a & RegionStep::kStep) && std::ranges::find(operands, a) == operands.end())
          operands.push_back(a);
  }
  // Computes an argument of the steps from the value of step `root`.
  kernel::FusedBody body(size_t root, uint16_t wanted) const { return steps_body(steps, {root}, {wanted}, operands); }
};

std::span<const Dim> batch_of(const Node& node, size_t i) { return node.dims(i).first(node.dims(i).size() - 2); }

const kernel::DotUnit* unit_of(const Node& node, const Product& p) {
  return kernel::gemm_dot_unit(p.left, node.dtype(p.right), node.mapping());
}

GemmSpec spec_of(Node& node, Scope& s, const Product& p) {
  GemmSpec g;
  g.batch = s.shape(batch_of(node, 0));
  g.m = s.size(node.dims(0).end()[-2]);
  g.n = s.size(p.n);
  g.k = s.size(p.k);
  g.accumulate = DType::I32;
  g.dots = unit_of(node, p);
  g.a_shift = kernel::dot_shift(p.left, g.dots->a);
  g.b_shift = kernel::dot_shift(node.dtype(p.right), g.dots->b);
  return g;
}

uint32_t pack(Node& node, const Product& p) {
  DimTable& t = node.table();
  const Dim w(kernel::gemm_panel(node.mapping(), DType::I32)), rows = t.add(t.ceil_div(p.k, Dim(kernel::kWordCodes)), Dim(1));
  const uint32_t panels =
      node.scratch(DType::I32, t.mul(t.product(batch_of(node, p.right)), t.mul(t.ceil_div(p.n, w), t.mul(w, rows))));
  Scope s(node, "pack");
  GemmSpec g = spec_of(node, s, p);
  g.batch = s.shape(batch_of(node, p.right));
  g.m = 1;
  g.b = s.in(p.right, node.dims(p.right));
  s.bind({Binding::Kind::Scratch, panels});
  kernel::build_pack_dots(s.builder(), g, "panels", node.mapping());
  s.finish();
  return panels;
}

// Adds the right operand, packed if there are panels, zero points and operands of the steps.
void bind_product(Node& node, Scope& s, const Product& p, std::optional<uint32_t> panels, std::span<const Dim> result,
                  GemmSpec* g) {
  if (panels) {
    g->b = s.scratch(*panels);
    g->b.strides = kernel::broadcast_operand(s.kernel(), "", DType::I8, s.shape(batch_of(node, p.right)), g->batch).strides;
    g->packed = true;
  } else {
    std::vector<Dim> dims(node.dims(0).begin(), node.dims(0).end());
    std::ranges::copy(node.dims(p.right).last(2), dims.end() - 2);
    g->b = s.in(p.right, dims);
  }
  const auto zero = [&](size_t i, std::optional<Operand>* to) {
    if (i >= node.graph.operands(node.id).size() || !node.has(i)) return;
    *to = s.in(i);
    (*to)->strides.assign(g->batch.size() + 1, 0);
  };
  zero(p.left_zero, &g->a_zero);
  zero(p.right_zero, &g->b_zero);
  for (const size_t i : p.operands) g->epilogue.inputs.push_back(s.in(i, result));
}

// Scratch buffers of all scores, and of the probabilities as integers.
struct ScoreBuffers {
  uint32_t scores, probabilities;
};

ScoreBuffers score_buffers(Node& node, std::span<const Dim> dims, const Product& values) {
  const Dim all = node.table().product(dims);
  return {node.scratch(DType::F32, all), node.scratch(values.left, node.table().add(all, Dim(kernel::attention_slack())))};
}

}  // namespace

bool lower_q_attention(Node& node) {
  const bool grid = node.mapping().workgroups;
  const std::span<const RegionStep> steps = node.attrs<FusionAttrs>().steps;
  const size_t second = last_matmul_step(steps);
  const auto softmax = static_cast<size_t>(std::ranges::find(steps, OpKind::Softmax, &RegionStep::op) - steps.begin());
  std::vector<Dim> scores_dims(node.dims(0).begin(), node.dims(0).end());
  scores_dims.back() = node.dims(1).back();
  Product of_scores{1, 3, 4, node.dtype(0), scores_dims.back(), node.dims(0).back(), {steps.begin(), steps.end()}, {}};
  Product of_values{2, 5, 6, steps[second - 1].dtype, node.dims(2).back(), scores_dims.back(), steps_from(steps, second), {}};
  of_scores.steps.resize(second);
  for (Product* p : {&of_scores, &of_values}) {
    p->add_operands(p->steps);
    if (!unit_of(node, *p)) return node.fail("no dot unit for these types");
  }
  std::optional<uint32_t> keys, values;
  if (!grid) keys = pack(node, of_scores), values = pack(node, of_values);
  std::optional<ScoreBuffers> buffers;
  if (!grid && (!scores_dims.end()[-2].is_static() || !scores_dims.back().is_static()))
    buffers = score_buffers(node, scores_dims, of_values);
  Scope s(node);
  kernel::IntegerAttentionSpec spec;
  spec.scores = spec_of(node, s, of_scores);
  spec.values = spec_of(node, s, of_values);
  spec.scores.a = s.in(0, node.dims(0));
  bind_product(node, s, of_scores, keys, scores_dims, &spec.scores);
  bind_product(node, s, of_values, values, node.result_dims(), &spec.values);
  spec.values.c = s.out();
  spec.values.a.dtype = of_values.left;
  if (buffers) {
    const auto bind = [&](uint32_t buffer) {
      Operand o = s.scratch(buffer);
      o.strides = kernel::dense(s.kernel(), o.name, o.dtype, s.shape(scores_dims)).strides;
      return o;
    };
    spec.scores.c = bind(buffers->scores);
    spec.values.a = bind(buffers->probabilities);
  }
  spec.scores.epilogue.body = of_scores.body(0, steps[softmax].args[0]);
  spec.probability.body = of_scores.body(softmax, step_arg(second - 1));
  spec.values.epilogue.body = of_values.body(0, step_arg(of_values.steps.size() - 1));
  kernel::build_integer_attention(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
