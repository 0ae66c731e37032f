// The ops of the reference vocabulary, by name. Each handler creates equivalent nodes and returns their value.
#include <algorithm>
#include <unordered_map>

#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

// Enumerators with the names of IR ops.
ValueId elementwise(Node& n, uint32_t trait, size_t operands) {
  const std::string word = n.payload_word();
  const auto op = word == "Mod" ? OpKind::Fmod : op_from_name(word);  // the remainder has the sign of the dividend
  if (!n.good || !n.count(operands, operands)) return {};
  if (!op || !(has_trait(*op, trait) || (trait == kBinary && *op == OpKind::Pow))) {
    n.fail(Code::UnsupportedOp, "\"" + word + "\" is unknown");
    return ValueId();
  }
  return n.b.create(*op, n.in, default_attrs(*op));
}
ValueId activation(Node& n) { return elementwise(n, kActivation, 1); }
ValueId binary(Node& n) { return elementwise(n, kBinary, 2); }
ValueId compare(Node& n) { return elementwise(n, kCompare, 2); }

// Ops without attributes: same operands, same order.
template <OpKind kOp>
ValueId plain(Node& n) {
  const auto low = static_cast<size_t>(min_inputs(kOp));
  return n.count(low, max_inputs(kOp) < 0 ? ~size_t{0} : static_cast<size_t>(max_inputs(kOp)))
             ? n.b.create(kOp, n.in, default_attrs(kOp))
             : ValueId();
}

ValueId input(Node& n) { return n.b.input(n.word("name"), n.type); }
ValueId param(Node& n) { return n.b.param(n.word("name"), n.type); }
ValueId constant(Node& n) {
  const std::vector<int64_t> data = n.integers("data");
  std::vector<std::byte> bytes;
  for (int64_t v : data) {
    if (v < 0 || v > 255) {
      n.fail(Code::BadTensor, std::to_string(v) + " is no byte");
      return ValueId();
    }
    bytes.push_back(static_cast<std::byte>(v));
  }
  const auto want = byte_size(n.type);
  if (!want || *want != bytes.size()) {
    n.fail(Code::BadTensor, "has " + std::to_string(bytes.size()) + " bytes, its shape asks for " +
                                (want ? std::to_string(*want) : "another number"));
    return ValueId();
  }
  std::vector<int64_t> dims;
  for (Dim d : n.type.dims) dims.push_back(d.size());
  return n.b.constant(make_data(n.type.dtype, std::move(dims), bytes));
}

ValueId cast(Node& n) {
  const auto to = dtype_from_name(n.word("to"));
  if (!to) {
    n.fail(Code::BadAttribute, "\"to\" is no element type");
    return ValueId();
  }
  return n.b.create(OpKind::Cast, {n.operand(0)}, CastAttrs{*to, true});
}
// The declared shape resolves -1.
ValueId reshape(Node& n) { return n.count(1, 1) ? n.b.create(OpKind::Reshape, n.in, DimsAttrs{n.type.dims, false}) : ValueId(); }
ValueId expand(Node& n) { return n.count(1, 1) ? n.b.create(OpKind::Expand, n.in, DimsAttrs{n.type.dims, false}) : ValueId(); }
ValueId transpose(Node& n) { return n.b.create(OpKind::Transpose, {n.operand(0)}, PermAttrs{n.integers("perm")}); }
ValueId narrow(Node& n) {
  DimTable& dims = n.b.dims();
  const NarrowAttrs a{n.axis(n.integer("axis"), n.rank(0)), dims.constant(n.integer("start")), dims.constant(n.integer("len"))};
  return n.good ? n.b.create(OpKind::Narrow, {n.operand(0)}, a) : ValueId();
}
template <OpKind kOp>
ValueId with_axis(Node& n) {
  const AxisAttrs a{n.axis(n.integer("axis"), n.rank(0))};
  return n.good ? n.b.create(kOp, n.in, a) : ValueId();
}
ValueId gather(Node& n) {  // indices may be floats
  if (!n.count(2, 2)) return {};
  const AxisAttrs a{n.axis(n.integer("axis"), n.rank(0))};
  const ValueId index = is_float(n.b.graph().dtype(n.in[1])) ? n.b.cast(n.in[1], DType::I64) : n.in[1];
  return n.good ? n.b.create(OpKind::Gather, {n.in[0], index}, a) : ValueId();
}
ValueId cumsum(Node& n) {
  const CumAttrs a{n.axis(n.integer("axis"), n.rank(0)), n.flag("exclusive"), false};
  return n.good ? n.b.create(OpKind::Cumsum, n.in, a) : ValueId();
}

bool reduce_op(Node& n, std::string_view field, ReduceOp* out) {
  static constexpr std::pair<std::string_view, ReduceOp> kNames[] = {
      {"Sum", ReduceOp::Sum}, {"Mean", ReduceOp::Mean}, {"Max", ReduceOp::Max}, {"Min", ReduceOp::Min}, {"Prod", ReduceOp::Prod}};
  const std::string word = n.word(field);
  for (const auto& [name, op] : kNames)
    if (name == word) {
      *out = op;
      return true;
    }
  return n.fail(Code::BadAttribute, "\"" + word + "\" is no reduction");
}
ValueId reduce(Node& n) {
  ReduceAttrs a;
  if (!reduce_op(n, "op", &a.op)) return {};
  for (int64_t axis : n.integers("axes")) a.axes.push_back(n.axis(axis, n.rank(0)));
  std::sort(a.axes.begin(), a.axes.end());
  a.keep_dim = n.flag("keep_dim");
  return n.good ? n.b.create(OpKind::Reduce, {n.operand(0)}, std::move(a)) : ValueId();
}
// Returns indices only, as floats.
ValueId topk(Node& n) {
  TopKAttrs a;
  a.k = Dim(n.integer("k"));
  a.axis = n.rank(0) - 1;
  if (!n.good || !n.count(1, 1)) return {};
  const NodeId made = n.b.create_node(OpKind::TopK, n.in, a);
  return made.valid() ? n.b.cast(n.b.graph().result(made, 1), n.type.dtype) : ValueId();
}

ValueId dot_general(Node& n) {
  return n.b.create(OpKind::DotGeneral, n.in,
                    DotGeneralAttrs{n.integers("lhs_batch"), n.integers("rhs_batch"), n.integers("lhs_contracting"),
                                    n.integers("rhs_contracting")});
}
ValueId lora(Node& n) {
  if (!n.count(4, 4)) return {};
  const ValueId whole = n.b.matmul(n.in[0], n.in[1]), inner = n.b.matmul(n.in[0], n.in[2]), low = n.b.matmul(inner, n.in[3]);
  const ValueId scale = n.b.scalar(n.type.dtype, n.number("scale", 1)), scaled = n.b.mul(low, scale);
  return n.b.add(whole, scaled);
}

template <OpKind kOp>
ValueId norm(Node& n) {
  const NormAttrs a{n.axis(n.integer("axis", -1), n.rank(0)), n.number("eps", 1e-5)};
  return n.good && n.count(1, 3) ? n.b.create(kOp, n.in, a) : ValueId();
}
ValueId layer_norm_2d(Node& n) {
  if (!n.count(3, 3)) return {};
  const ValueId rows = n.b.transpose(n.in[0], {0, 2, 3, 1});
  return n.b.transpose(n.b.create(OpKind::LayerNorm, {rows, n.in[1], n.in[2]}, NormAttrs{3, n.number("eps", 1e-5)}),
                       {0, 3, 1, 2});
}
ValueId group_norm(Node& n) {
  return n.b.create(OpKind::GroupNorm, n.in, GroupNormAttrs{n.integer("num_groups"), n.number("eps", 1e-5)});
}
// x, residual, [bias], gamma, beta. The second result, the sum, is unused.
template <OpKind kOp>
ValueId residual_norm(Node& n) {
  const bool has_bias = n.flag("has_bias");
  if (!n.count(has_bias ? 5 : 4, has_bias ? 5 : 4)) return {};
  std::vector<ValueId> in(n.in.begin(), n.in.begin() + 2);
  in.push_back(has_bias ? n.in[2] : ValueId());
  in.insert(in.end(), n.in.end() - 2, n.in.end());
  const NodeId made = n.b.create_node(kOp, in, NormAttrs{n.rank(0) - 1, n.number("eps", 1e-5)});
  return made.valid() ? n.b.graph().result(made) : ValueId();
}
ValueId resize_nearest_2x(Node& n) { return n.count(1, 1) ? reference_twice_as_large(n, n.in[0]) : ValueId(); }

template <OpKind kOp>
ValueId conv(Node& n) {
  ConvAttrs a = reference_conv_attrs(n);
  return n.good ? n.b.create(kOp, n.in, std::move(a)) : ValueId();
}
ValueId pool(Node& n) {
  const ConvAttrs c = reference_conv_attrs(n);
  PoolAttrs a;
  a.kernel = n.integers("kernel_size");
  a.strides = c.strides;
  a.pads_begin = c.pads_begin;
  a.pads_end = c.pads_end;
  a.dilations = c.dilations;
  a.count_include_pad = true;
  return reduce_op(n, "kind", &a.op) && n.good ? n.b.create(OpKind::Pool, n.in, std::move(a)) : ValueId();
}

ValueId attention(Node& n) {
  AttentionAttrs a;
  if (!n.count(3, 4) || !reference_mask_kind(n, n.find("mask") ? "mask" : "mask_kind", &a)) return {};
  const bool needs_mask = a.mask == MaskKind::Custom || a.mask == MaskKind::Bias;
  if (needs_mask != (n.in.size() == 4)) {
    n.fail(Code::BadArity, "the mask kind and the number of inputs disagree");
    return ValueId();
  }
  a.num_heads = a.num_kv_heads = n.integer("num_heads");
  const auto layout = n.good ? reference_head_layout(n, a.num_heads) : std::nullopt;
  if (!layout) return {};
  a.layout = a.out_layout = *layout;
  a.scale = n.number("score_scale", 0);
  a.softcap = n.number("attn_logit_softcap", 0);
  std::vector<ValueId> in = n.in;
  if (a.mask == MaskKind::Custom) {
    in[3] = reference_custom_mask(n, in[3]);
    a.finite_mask = true;
  }
  return n.good ? n.b.create(OpKind::Attention, in, a) : ValueId();
}
ValueId rope(Node& n) {
  RopeAttrs a;
  if (!reference_rope_style(n, &a)) return {};
  a.head_dim = n.integer("head_dim");
  a.n_rot = n.integer("n_rot", a.head_dim);
  a.layout = n.rank(0) == 3 ? AttentionLayout::Packed : AttentionLayout::BSHD;
  return n.good && n.count(3, 3) ? n.b.create(OpKind::Rope, n.in, a) : ValueId();
}

template <OpKind kOp>
ValueId linear(Node& n) {
  FusedMatMulAttrs a;
  return reference_epilogue(n, &a.act) && n.count(2, 3) ? n.b.create(kOp, n.in, a) : ValueId();
}
ValueId fused_swiglu(Node& n) {
  SwiGLUAttrs a;
  a.gate_first = n.flag("gate_first");
  if (!n.count(1, 1)) return {};
  const ValueId v = n.b.create(OpKind::FusedSwiGLU, n.in, a);
  return v.valid() ? n.b.cast(v, n.type.dtype) : v;
}
ValueId shared_linear_pair(Node& n) {
  const int64_t slot = n.integer("slot", 0);
  if (slot < 0 || slot > 1) {
    n.fail(Code::BadAttribute, "\"slot\" is 0 or 1");
    return ValueId();
  }
  if (!n.count(3, 3)) return {};
  const NodeId made = n.b.create_node(OpKind::SharedLinearPair, n.in, NoAttrs{});
  return made.valid() ? n.b.graph().result(made, static_cast<size_t>(slot)) : ValueId();
}
ValueId decoder(Node& n) {
  DecoderAttrs a;
  AttentionAttrs mask;
  mask.mask = MaskKind::Causal;
  a.num_heads = n.integer("num_heads");
  a.head_dim = n.integer("head_dim");
  a.num_kv_heads = n.integer("num_kv_heads", a.num_heads);
  a.eps = n.number("eps", 1e-5);
  if (!n.good || !reference_mask_kind(n, "mask", &mask)) return {};
  a.mask = mask.mask;
  return n.b.create(OpKind::LlamaDecoderBlock, n.in, a);
}

// Scales are attributes here and operands in the IR.
template <OpKind kOp>
ValueId quantize(Node& n) {
  const std::vector<double> scales = n.numbers("scales");
  std::vector<int64_t> zeros = n.integers("zero_points");
  zeros.resize(scales.size());
  if (!n.good || !n.count(1, 1)) return {};
  if (scales.empty() || std::ranges::any_of(scales, [](double s) { return !(s > 0) || s - s != 0; })) {
    n.fail(Code::BadAttribute, "scales must be positive numbers");
    return ValueId();
  }
  if (std::ranges::any_of(zeros, [](int64_t z) { return z < -128 || z > 127; })) {
    n.fail(Code::BadAttribute, "zero points lie in -128..127");
    return ValueId();
  }
  QuantAttrs a;
  const bool per_axis = n.find("axis") != nullptr;
  if (per_axis) a.axis = n.axis(n.integer("axis"), n.rank(0));
  else if (scales.size() != 1) {
    n.fail(Code::BadAttribute, "several scales need an axis");
    return ValueId();
  }
  a.to = n.type.dtype;
  const DType real = kOp == OpKind::Quantize ? n.b.graph().dtype(n.in[0]) : n.type.dtype;
  std::vector<std::byte> bytes, points;
  for (double s : scales)
    for (std::byte x : element_bytes(real, s)) bytes.push_back(x);
  for (int64_t z : zeros) points.push_back(static_cast<std::byte>(z));
  if (bytes.empty()) {
    n.fail(Code::BadType, "needs a float type");
    return ValueId();
  }
  const std::vector<int64_t> dims = per_axis ? std::vector<int64_t>{static_cast<int64_t>(scales.size())} : std::vector<int64_t>{};
  const ValueId scale = n.b.constant(make_data(real, dims, bytes)), zero = n.b.constant(make_data(DType::I8, dims, points));
  return n.b.create(kOp, {n.in[0], scale, zero}, a);
}

ValueId residual_rms_block(Node& n) {
  return n.count(2, 4) ? n.b.create(OpKind::ResidualRmsNorm, n.in, NormAttrs{n.rank(0) - 1, n.number("eps", 1e-5)}) : ValueId();
}

constexpr ReferenceRow kRows[] = {
    {"Input", input},
    {"Param", param},
    {"Constant", constant},
    {"Activation", activation},
    {"Binary", binary},
    {"Compare", compare},
    {"Cast", cast},
    {"Where", plain<OpKind::Where>},
    {"Reshape", reshape},
    {"Expand", expand},
    {"Transpose", transpose},
    {"Narrow", narrow},
    {"Concat", with_axis<OpKind::Concat>},
    {"Gather", gather},
    {"Softmax", with_axis<OpKind::Softmax>},
    {"Cumsum", cumsum},
    {"Reduce", reduce},
    {"TopK", topk},
    {"MatMul", plain<OpKind::MatMul>},
    {"DotGeneral", dot_general},
    {"LoraMatMul", lora},
    {"LayerNorm", norm<OpKind::LayerNorm>},
    {"LayerNorm2d", layer_norm_2d},
    {"RmsNorm", norm<OpKind::RmsNorm>},
    {"GroupNorm", group_norm},
    {"ResizeNearest2x", resize_nearest_2x},
    {"Conv", conv<OpKind::Conv>},
    {"ConvTranspose2d", conv<OpKind::ConvTranspose>},
    {"Pool", pool},
    {"Attention", attention},
    {"Rope", rope},
    {"RoPE", rope},
    {"SelectiveScan", plain<OpKind::SelectiveScan>},
    {"FusedMatMulBiasAct", linear<OpKind::FusedMatMulBiasAct>},
    {"FusedResidualLN", residual_norm<OpKind::FusedResidualLN>},
    {"FusedResidualRmsNorm", residual_norm<OpKind::FusedResidualRmsNorm>},
    {"FusedSwiGLU", fused_swiglu},
    {"Quantize", quantize<OpKind::Quantize>},
    {"Dequantize", quantize<OpKind::Dequantize>},
    {"Linear", linear<OpKind::Linear>, true},
    {"LinearFused", linear<OpKind::LinearFused>, true},
    {"SharedLinearPair", shared_linear_pair, true},
    {"SwiGLU", plain<OpKind::SwiGLU>, true},
    {"DepthwiseConv1dCausal", plain<OpKind::DepthwiseConv1dCausal>, true},
    {"ResidualRmsNorm", residual_rms_block, true},
    {"LlamaDecoderBlock", decoder, true},
};

const ReferenceRow* find_row(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const ReferenceRow*> m;
    for (std::span<const ReferenceRow> rows :
         {std::span<const ReferenceRow>(kRows), reference_quant_rows(), reference_backward_rows(), reference_control_rows(),
          reference_fused_rows(), reference_tensor_rows(), reference_recurrent_rows(), reference_scaled_rows(),
          reference_matrix_rows(), reference_signal_rows(), reference_region_rows(), reference_spectrum_rows(),
          reference_learned_rows(), reference_manifold_rows(), reference_mlx_rows()})
      for (const ReferenceRow& r : rows) m.emplace(r.name, &r);
    return m;
  }();
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

}  // namespace

ValueId reference_twice_as_large(ReferenceNode& n, ValueId x) {
  if (!x.valid()) return {};
  if (n.b.graph().rank(x) != 4) {
    n.fail(Code::BadShape, "needs images [N,C,H,W]");
    return ValueId();
  }
  const std::vector<Dim> d(n.b.graph().dims(x).begin(), n.b.graph().dims(x).end());
  DimTable& t = n.b.dims();
  const Dim planes = t.mul(d[0], d[1]);
  const ValueId apart = n.b.reshape(x, {planes, d[2], Dim(1), d[3], Dim(1)});
  const ValueId twice = n.b.expand(apart, {planes, d[2], Dim(2), d[3], Dim(2)});
  return n.b.reshape(twice, {d[0], d[1], t.mul(d[2], Dim(2)), t.mul(d[3], Dim(2))});
}
ConvAttrs reference_conv_attrs(ReferenceNode& n) {
  ConvAttrs a;
  const size_t spatial = static_cast<size_t>(std::max(0, n.rank(0) - 2));
  const auto list = [&](std::string_view field, int64_t otherwise) {
    std::vector<int64_t> v = n.integers(field);
    if (v.empty()) v.assign(spatial, otherwise);
    return v;
  };
  a.strides = list("stride", 1);
  a.pads_begin = a.pads_end = list("padding", 0);
  a.dilations = list("dilation", 1);
  a.output_padding = list("output_padding", 0);
  a.groups = n.integer("groups", 1);
  return a;
}
// Heads are packed in the last axis, or are a separate axis.
std::optional<AttentionLayout> reference_head_layout(ReferenceNode& n, int64_t heads) {
  const auto d = n.b.graph().dims(n.in[0]);
  if (d.size() == 3) return AttentionLayout::Packed;
  const bool second = d.size() == 4 && d[1] == Dim(heads), third = d.size() == 4 && d[2] == Dim(heads);
  if (second != third) return second ? AttentionLayout::BHSD : AttentionLayout::BSHD;
  n.fail(Code::BadShape, second ? "which axis holds the heads is ambiguous: both have their number" : "no axis holds the heads");
  return std::nullopt;
}

bool reference_mask_kind(ReferenceNode& n, std::string_view field, AttentionAttrs* a) {
  const Field* f = n.find(field);
  if (!f) return true;
  JsonReader r(f->value);
  std::string_view key;
  if (r.peek() == JsonReader::Kind::Object) {
    r.begin_object();
    const bool window = r.next_key(&key) && key == "SlidingWindow" && r.integer(&a->window);
    a->mask = MaskKind::SlidingWindow;
    return window || n.fail(Code::BadAttribute, "the mask kind is unknown");
  }
  static constexpr std::pair<std::string_view, MaskKind> kNames[] = {
      {"None", MaskKind::None}, {"Causal", MaskKind::Causal}, {"Custom", MaskKind::Custom}, {"Bias", MaskKind::Bias}};
  const std::string word = n.word(field);
  for (const auto& [name, kind] : kNames)
    if (name == word) {
      a->mask = kind;
      return true;
    }
  return n.fail(Code::BadAttribute, "the mask kind \"" + word + "\" is unknown");
}

bool reference_epilogue(ReferenceNode& n, Epilogue* e) {
  if (!n.find("activation")) return true;
  const std::string word = n.word("activation");
  const auto op = op_from_name(word);
  if (!op || !has_trait(*op, kActivation))
    return n.fail(Code::UnsupportedAttribute, "the activation \"" + word + "\" is unknown");
  *e = {true, *op, 0, 0};
  return true;
}
ValueId reference_custom_mask(ReferenceNode& n, ValueId mask) {
  if (!mask.valid()) return {};
  const std::vector<Dim> d(n.b.graph().dims(mask).begin(), n.b.graph().dims(mask).end());
  if (d.size() != 2) {
    n.fail(Code::BadShape, "a custom mask has the shape [batch, keys]");
    return ValueId();
  }
  const ValueId rows = n.b.reshape(mask, {d[0], Dim(1), Dim(1), d[1]});
  return n.b.create(OpKind::Ge, {rows, n.b.scalar(n.b.graph().dtype(rows), 0.5)});
}

bool ReferenceTag::has(std::string_view field) const {
  return std::ranges::any_of(numbers, [&](const auto& f) { return f.first == field; });
}
int64_t ReferenceTag::number(std::string_view field) const {
  const auto at = std::ranges::find(numbers, field, [](const auto& f) { return std::string_view(f.first); });
  return at == numbers.end() ? 0 : at->second;
}
ReferenceTag reference_tag(ReferenceNode& n, std::string_view field) {
  ReferenceTag tag;
  const Field* f = n.find(field);
  if (!f) {
    n.fail(Code::BadAttribute, "\"" + std::string(field) + "\" is missing");
    return tag;
  }
  JsonReader r(f->value);
  std::string_view key;
  if (r.peek() != JsonReader::Kind::Object) {
    r.string(&tag.name);
  } else if (r.begin_object() && r.next_key(&key)) {
    tag.name = key;
    for (r.begin_object(); r.next_key(&key);) {
      auto& [name, value] = tag.numbers.emplace_back();
      name = key;
      if (!r.integer(&value)) break;
    }
  }
  if (!r.ok()) n.fail(Code::BadAttribute, "\"" + std::string(field) + "\": " + r.error());
  return tag;
}

ValueId reference_packed(ReferenceNode& n, std::span<const ValueId> values) {
  std::vector<ValueId> flat;
  if (values.empty()) return {};
  for (ValueId v : values) {
    if (!v.valid()) return {};
    flat.push_back(n.b.reshape(v, {n.b.dims().product(n.b.graph().dims(v))}));
  }
  return n.b.reshape(n.b.concat(flat, 0), n.type.dims);
}

bool reference_rope_style(ReferenceNode& n, RopeAttrs* a) {
  const std::string style = n.find("style") ? n.word("style") : "NeoX";
  a->style = style == "GptJ" ? RopeStyle::GptJ : RopeStyle::NeoX;
  return style == "GptJ" || style == "NeoX" || n.fail(Code::BadAttribute, "the style \"" + style + "\" is unknown");
}

ReferenceHandler find_reference_op(std::string_view name) {
  const ReferenceRow* r = find_row(name);
  return r ? r->make : nullptr;
}
bool is_reference_block(std::string_view name) {
  const ReferenceRow* r = find_row(name);
  return r && r->block;
}

}  // namespace rlxc::import_json
