// Attention: maps every layout to strides of one builder.
#include <cmath>
#include <optional>

#include "codegen/lowerings.h"
#include "kernel/builders/attention.h"

namespace rlxc::codegen {
namespace {

struct View {
  Dim batch, heads, length, width;
};

View view_of(DimTable& t, std::span<const Dim> d, AttentionLayout layout, int64_t heads, bool transposed) {
  if (layout == AttentionLayout::Packed) return {d[0], Dim(heads), d[1], t.floor_div(d[2], Dim(heads))};
  if (layout == AttentionLayout::BSHD) return {d[0], d[2], d[1], d[3]};
  return transposed ? View{d[0], d[1], d[3], d[2]} : View{d[0], d[1], d[2], d[3]};
}

// Returns the operand with strides of batch, head, position and element.
Operand by_heads(Operand o, const Index& width, AttentionLayout layout, bool transposed) {
  const Dims d = o.strides;
  if (layout == AttentionLayout::Packed) o.strides = {d[0], width, d[1], 1};
  else if (layout == AttentionLayout::BSHD) o.strides = {d[0], d[2], d[1], d[3]};
  else if (transposed) o.strides = {d[0], d[1], d[3], d[2]};
  return o;
}

}  // namespace

bool lower_attention(Node& node) {
  const auto& a = node.attrs<AttentionAttrs>();
  DimTable& t = node.table();
  const bool transposed = a.k_transposed && a.layout == AttentionLayout::BHSD;
  const int64_t kv_heads = a.kv_heads();
  const View q = view_of(t, node.dims(0), a.layout, a.num_heads, false),
             k = view_of(t, node.dims(1), a.layout, kv_heads, transposed),
             v = view_of(t, node.dims(2), a.layout, kv_heads, false);
  const auto heads = t.constant_value(q.heads), groups = t.constant_value(k.heads), width = t.constant_value(q.width),
             value_width = t.constant_value(v.width);
  if (!heads || !groups || !width || !value_width) return node.fail("heads and head sizes must be constants");
  if (*groups == 0 || *heads % *groups || *width < 1 || *value_width < 1 || *value_width > 4096)
    return node.fail("heads or head sizes do not fit the kernel");
  const auto spec_in = [&](Scope& s) {
    kernel::AttentionSpec spec;
    spec.batch = s.size(q.batch);
    spec.heads = s.size(q.heads);
    spec.queries = s.size(q.length);
    spec.keys = s.size(k.length);
    spec.group = *heads / *groups;
    spec.width = *width;
    spec.value_width = *value_width;
    spec.mask_is_bias = a.mask == MaskKind::Bias;
    spec.causal = a.mask == MaskKind::Causal || a.mask == MaskKind::SlidingWindow;
    if (a.mask == MaskKind::SlidingWindow) spec.window = a.window;
    // A row can lack a visible key only with a mask, or with fewer keys than queries.
    spec.finite = a.finite_mask && (node.has(3) || !t.at_least(t.sub(k.length, q.length), 0));
    spec.scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(*width));
    spec.softcap = a.softcap;
    return spec;
  };
  const auto add_inputs = [&](Scope& s, kernel::AttentionSpec& spec) {
    spec.q = by_heads(s.in(0), *width, a.layout, false);
    spec.k = by_heads(s.in(1), *width, a.layout, transposed);
    spec.v = by_heads(s.in(2), *value_width, a.layout, false);
    if (node.has(3)) spec.mask = s.in(3, std::vector<Dim>{q.batch, q.heads, q.length, k.length});
  };
  const auto add_result = [&](Scope& s, kernel::AttentionSpec& spec) {
    spec.epilogue = s.quantized_result(kAttentionScale, 4);
    spec.y = by_heads(s.out(), *value_width, a.out_layout, false);
  };
  // `of_one`: launched in runs of one query, as in decoding, or only in the others; absent: always.
  const auto emit = [&](std::optional<bool> of_one) {
    const auto begin = [&](Scope& s) {
      kernel::AttentionSpec spec = spec_in(s);
      if (of_one) s.launch_if(q.length, *of_one);
      if (of_one.value_or(false)) spec.queries = 1;
      return spec;
    };
    Scope s(node, of_one.value_or(false) ? "query" : "");
    kernel::AttentionSpec spec = begin(s);
    add_inputs(s, spec);
    const int64_t parts = kernel::attention_parts(spec, node.mapping());
    if (parts == 1) {
      add_result(s, spec);
      kernel::build_attention(s.builder(), spec, node.mapping());
      return s.finish();
    }
    const int64_t in_row = kernel::attention_part_elements(spec, parts), in_head = in_row * kernel::constant_value(spec.queries);
    const uint32_t of_parts = node.scratch(kernel::compute_dtype(node.dtype(0)), t.mul(q.batch, Dim(*heads * in_head)));
    spec.y = s.scratch(of_parts);
    spec.y.strides = {*heads * in_head, in_head, in_row, 1};
    kernel::build_attention(s.builder(), spec, node.mapping(), parts);
    s.finish();
    Scope sum(node, "sum");
    kernel::AttentionSpec whole = begin(sum);
    whole.q.dtype = spec.q.dtype;
    const Operand from = sum.scratch(of_parts);
    add_result(sum, whole);
    kernel::build_attention_sum(sum.builder(), whole, from, parts, node.mapping());
    sum.finish();
  };
  const auto has_row_form = [&] {
    if (q.length.is_static()) return false;
    Scope probe(node);
    kernel::AttentionSpec spec = spec_in(probe);
    add_inputs(probe, spec);
    spec.queries = 1;
    return kernel::attention_has_few_queries(spec, node.mapping());
  };
  if (!has_row_form()) return emit({}), true;
  emit(true);
  emit(false);
  return true;
}

}  // namespace rlxc::codegen
