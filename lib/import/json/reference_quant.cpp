// Quantization in the reference vocabulary: packed weights, integer matmuls, fake quantization.
#include <algorithm>
#include <array>
#include <cctype>

#include "import/compose/packed.h"
#include "import/json/reference_rows.h"
#include "transform/quantized.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

// Packed weights.

struct Scheme {
  std::string name;  // "Int8Block", "GgufQ4K"
  int64_t block = 0;
  std::optional<BlockFormat> gguf;
};

// Returns why a ggml format is unsupported.
std::string_view unsupported_reason(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"iq1", "is not supported: its codes stand for entries of code books, which no formula gives"},
      {"iq2", "is not supported: its codes stand for entries of code books, which no formula gives"},
      {"iq3", "is not supported: its codes stand for entries of code books, which no formula gives"},
      {"q1_0", "is not supported: how a block of 128 elements lies in 18 bytes is not laid down"},
      {"q2_0", "is not supported: how a block of 128 elements lies in 34 bytes is not laid down"},
      {"nvfp4", "is not supported: how a block of 16 elements lies in 9 bytes is not laid down"}};
  for (const auto& [name, why] : kReasons)
    if (format.starts_with(name)) return why;
  return "is unknown";
}

std::optional<Scheme> scheme_of(Node& n) {
  Scheme s;
  const ReferenceTag tag = reference_tag(n, "scheme");
  if (!n.good) return std::nullopt;
  s.name = tag.name;
  s.block = tag.number("block_size");
  if (s.name.starts_with("Gguf")) {  // GgufQ4K, GgufQ4_0, GgufIQ4NL
    std::string text;
    for (char c : s.name.substr(4)) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (text.ends_with("k")) text.insert(text.size() - 1, "_");
    if (text.starts_with("iq") && text.size() > 3 && text[3] != '_') text.insert(3, "_");
    if (text != "nvfp4") s.gguf = block_format_from_name(text);
    if (!s.gguf) {
      n.fail(Code::UnsupportedAttribute, "the format " + s.name + " " + std::string(unsupported_reason(text)));
      return std::nullopt;
    }
  }
  const bool blocked = s.name == "Int8Block" || s.name == "Int8BlockAsym" || s.name == "Int4Block";
  if (blocked && (s.block < 1 || s.block > 1 << 20)) {
    n.fail(Code::BadAttribute, "block_size is out of range");
    return std::nullopt;
  }
  if (!blocked && !s.gguf && s.name != "Fp8E4m3" && s.name != "Fp8E5m2" && s.name != "Nvfp4Block") {
    n.fail(Code::UnsupportedAttribute, "the scheme \"" + s.name + "\" is unknown");
    return std::nullopt;
  }
  return s;
}

// Repeats each row `block` times, for the blocks of rows of w [k, n].
ValueId spread_rows(Node& n, ValueId rows, Dim k, Dim columns, int64_t block) {
  DimTable& t = n.b.dims();
  const Dim groups = t.ceil_div(k, Dim(block)), whole = t.mul(groups, Dim(block));
  const ValueId each = n.b.expand(n.b.reshape(rows, {groups, Dim(1), columns}), {groups, Dim(block), columns});
  const ValueId all = n.b.reshape(each, {whole, columns});
  return t.equal(whole, k) ? all : n.b.narrow(all, 0, Dim(0), k);
}

// Unpacks 4-bit values of a row-major matrix, low half first.
ValueId nibbles(Node& n, ValueId packed, Dim k, Dim columns) {
  DimTable& t = n.b.dims();
  const Dim bytes = t.product(sizes(n, packed)), count = t.mul(k, columns);
  const ValueId all = compose::unpack_bits(n.b, n.b.reshape(packed, {bytes}), 4);
  return n.b.reshape(t.equal(t.mul(bytes, Dim(2)), count) ? all : n.b.narrow(all, 0, Dim(0), count), {k, columns});
}

// Decodes consecutive blocks to f32 [rows, k].
ValueId gguf_rows(Node& n, BlockFormat f, ValueId packed, Dim rows, Dim k) {
  DimTable& t = n.b.dims();
  if (!packed.valid()) return {};
  if (!t.divides(Dim(block_elements(f)), k)) {
    n.fail(Code::BadShape, "rows must be whole blocks of " + std::to_string(block_elements(f)));
    return ValueId();
  }
  const Dim blocks = t.floor_div(t.mul(rows, k), Dim(block_elements(f)));
  return n.b.reshape(compose::decode_blocks(n.b, f, n.b.reshape(packed, {blocks, Dim(block_bytes(f))})), {rows, k});
}

// x [..., k], packed weights, scales, zero points (or the global scale).
ValueId dequant_matmul(Node& n) {
  if (reference_tag(n, "scheme").name.starts_with("Mlx")) return reference_mlx_matmul(n);
  const auto s = scheme_of(n);
  if (!s || !n.count(s->gguf ? 2 : 4, s->gguf ? 2 : 4) || n.rank(0) < 2 || n.type.rank() < 2) return {};
  Builder& b = n.b;
  const ValueId x = b.cast(n.in[0], kReal);
  const Dim k = sizes(n, x).back(), columns = n.type.dims.back();
  if (s->gguf) return b.matmul(x, gguf_rows(n, *s->gguf, n.in[1], columns, k), false, true);
  const auto as_real = [&](size_t i) { return b.cast(n.in[i], kReal); };
  const auto by_codes = [&](ValueId w, ValueId scale, ValueId zero, int64_t block) {
    return b.create(OpKind::DequantMatMul, {x, w, scale, zero}, DequantMatMulAttrs{false, block, {}});
  };
  if (s->name.starts_with("Fp8")) {
    const DType t = s->name == "Fp8E4m3" ? DType::F8E4M3FN : DType::F8E5M2;
    return by_codes(b.create(OpKind::BitCast, {b.reshape(n.in[1], {k, columns})}, CastAttrs{t, true}),
                    b.reshape(as_real(2), {Dim(1), columns}), {}, 0);
  }
  ValueId w;
  if (s->name == "Nvfp4Block") {
    const ValueId scales = compose::decode_scale_bytes(b, n.in[2]);
    w = b.mul(compose::look_up(b, fp4_values(), nibbles(n, n.in[1], k, columns)), spread_rows(n, scales, k, columns, 16));
    w = b.mul(w, b.reshape(as_real(3), {}));
  } else {
    const std::vector<Dim> by_block{b.dims().ceil_div(k, Dim(s->block)), columns};
    const ValueId q = s->name == "Int4Block" ? nibbles(n, n.in[1], k, columns) : b.reshape(n.in[1], {k, columns});
    return by_codes(q, b.reshape(as_real(2), by_block), b.reshape(as_real(3), by_block), s->block);
  }
  return b.matmul(x, w);
}

// Decodes expert weights [E,K,N] from consecutive packed rows [N,K].
ValueId expert_weights(Node& n, BlockFormat f, ValueId packed, Dim experts, Dim k, Dim columns) {
  const ValueId rows = gguf_rows(n, f, packed, n.b.dims().mul(experts, columns), k);
  return n.b.transpose(n.b.reshape(rows, {experts, columns, k}), {0, 2, 1});
}

ValueId dequant_moe_weights(Node& n) {
  const auto s = scheme_of(n);
  if (!s || !n.count(1, 1)) return {};
  if (!s->gguf || n.type.rank() != 3) {
    n.fail(Code::UnsupportedAttribute, "needs a gguf format and [E,K,N]");
    return ValueId();
  }
  return expert_weights(n, *s->gguf, n.in[0], n.type.dims[0], n.type.dims[1], n.type.dims[2]);
}

ValueId grouped_matmul(Node& n) { return n.count(3, 3) ? reference_by_expert(n, n.in[0], n.in[1], n.in[2]) : ValueId(); }

ValueId dequant_grouped_matmul(Node& n) {
  const auto s = scheme_of(n);
  if (!s || !n.count(3, 3)) return {};
  DimTable& t = n.b.dims();
  if (!s->gguf || n.rank(0) != 2 || n.type.rank() != 2) {
    n.fail(Code::UnsupportedAttribute, "needs a gguf format and x [M,K]");
    return ValueId();
  }
  const Dim k = sizes(n, n.in[0])[1], columns = n.type.dims[1], bytes = t.product(sizes(n, n.in[1]));
  const Dim elements = t.mul(t.floor_div(bytes, Dim(block_bytes(*s->gguf))), Dim(block_elements(*s->gguf)));
  const Dim experts = t.floor_div(elements, t.mul(k, columns));
  return reference_by_expert(n, n.in[0], expert_weights(n, *s->gguf, n.in[1], experts, k, columns), n.in[2]);
}

// Integer matmuls.

ValueId round_away(Builder& b, ValueId v) {  // halves away from 0
  const ValueId up = b.unary(OpKind::Floor, b.add(b.unary(OpKind::Abs, v), b.scalar(b.graph().dtype(v), 0.5)));
  return b.mul(b.unary(OpKind::Sign, v), up);
}

ValueId zero_point(Node& n, std::string_view field) { return n.b.scalar(DType::I8, static_cast<double>(n.integer(field, 0))); }

// Returns i8 of (accumulator + bias) * mult + out_zp.
ValueId requantized(Node& n, ValueId accumulator, ValueId bias) {
  Builder& b = n.b;
  const ValueId scaled = b.mul(b.cast(b.add(accumulator, bias), kReal), b.scalar(kReal, n.number("mult", 1)));
  const ValueId moved = b.add(round_away(b, scaled), b.scalar(kReal, static_cast<double>(n.integer("out_zp", 0))));
  return b.cast(b.create(OpKind::Clamp, {moved}, ClampAttrs{-128, 127}), DType::I8);
}

ValueId q_matmul(Node& n) {
  if (!n.count(3, 3)) return {};
  return requantized(n, n.b.create(OpKind::QMatMul, {n.in[0], n.in[1], zero_point(n, "x_zp"), zero_point(n, "w_zp")}), n.in[2]);
}

ValueId q_conv2d(Node& n) {
  if (!n.count(3, 3)) return {};
  ConvAttrs a = reference_conv_attrs(n);
  if (!n.good) return {};
  const ValueId sum = n.b.create(OpKind::QConv, {n.in[0], n.in[1], zero_point(n, "x_zp"), zero_point(n, "w_zp")}, std::move(a));
  return requantized(n, sum, n.b.reshape(n.in[2], {n.b.dims().product(sizes(n, n.in[2])), Dim(1), Dim(1)}));
}

// Fake quantization: values -qm..qm with a scale per channel, or one scale.

struct Channels {
  std::vector<int64_t> axes;  // reduced axes
  std::vector<Dim> shape;     // shape of a scale, with ones
};

std::optional<Channels> channels_of(Node& n, ValueId x) {
  Channels c;
  const auto d = sizes(n, x);
  const int64_t kept = n.find("axis") ? n.axis(n.integer("axis"), static_cast<int>(d.size())) : -1;
  if (!n.good) return std::nullopt;
  for (int64_t i = 0; i < static_cast<int64_t>(d.size()); ++i) {
    c.shape.push_back(i == kept ? d[static_cast<size_t>(i)] : Dim(1));
    if (i != kept) c.axes.push_back(i);
  }
  return c;
}

std::optional<double> largest_code(Node& n) {
  switch (n.integer("bits", 8)) {
    case 8: return 127;
    case 4: return 7;
    case 2: return 1;
    default: n.fail(Code::BadAttribute, "bits must be 8, 4 or 2"); return std::nullopt;
  }
}

// Attributes of FakeQuantize and of its gradient; nullopt after an error.
std::optional<FakeQuantizeAttrs> fake_quantize_attrs(Node& n) {
  const auto qm = largest_code(n);
  if (!qm) return std::nullopt;
  FakeQuantizeAttrs a;
  a.bits = n.integer("bits", 8);
  if (n.find("axis")) a.axis = n.axis(n.integer("axis"), static_cast<int>(sizes(n, n.in[0]).size()));
  const std::string ste = n.find("ste") ? n.word("ste") : "Identity";
  constexpr std::string_view kNames[] = {"Identity", "ClippedIdentity", "HardTanh", "Tanh"};
  const auto* found = std::ranges::find(kNames, ste);
  if (found == std::end(kNames)) {
    n.fail(Code::BadAttribute, "the gradient \"" + ste + "\" is unknown");
    return std::nullopt;
  }
  a.ste = static_cast<StraightThroughKind>(found - kNames);
  return n.good ? std::optional(a) : std::nullopt;
}

ValueId fake_quantize(Node& n) {
  auto a = n.count(1, 2) ? fake_quantize_attrs(n) : std::nullopt;
  if (!a) return {};
  const std::string mode = n.word("scale_mode");
  if (mode == "Fixed" && n.count(2, 2)) {
    a->mode = FakeQuantizeMode::Fixed;
    return n.b.create(OpKind::FakeQuantize, {n.in[0], n.in[1]}, *a);
  }
  if (mode.empty() && n.find("scale_mode")) {
    n.fail(Code::UnsupportedAttribute, "a moving average updates its state in place");
    return ValueId();
  }
  return n.good ? n.b.create(OpKind::FakeQuantize, {n.in[0]}, *a) : ValueId();
}

ValueId fake_quantize_lsq(Node& n) {
  auto a = n.count(2, 2) ? fake_quantize_attrs(n) : std::nullopt;
  if (!a) return {};
  a->mode = FakeQuantizeMode::Fixed;
  a->ste = StraightThroughKind::ClippedIdentity;
  return n.b.create(OpKind::FakeQuantize, {n.in[0], n.in[1]}, *a);
}

// The gradient through the rounding.
ValueId fake_quantize_backward(Node& n) {
  const auto a = n.count(2, 2) ? fake_quantize_attrs(n) : std::nullopt;
  if (!a) return {};
  const transform::Term x{&n.b, n.in[0]}, dy{&n.b, n.in[1]}, slope = transform::fake_quantize_slope(x, x.with({}), *a);
  return slope.valid() ? (dy * slope).v : dy.v;
}

ValueId lsq_backward_x(Node& n) {
  const auto qm = largest_code(n);
  const auto c = qm && n.count(3, 3) ? channels_of(n, n.in[0]) : std::nullopt;
  if (!c) return {};
  const DType t = n.b.graph().dtype(n.in[0]);
  const ValueId z = n.b.unary(OpKind::Abs, n.b.div(n.in[0], n.b.reshape(n.in[1], c->shape)));
  return n.b.create(OpKind::Where, {n.b.create(OpKind::Le, {z, n.b.scalar(t, *qm)}), n.in[2], n.b.scalar(t, 0)});
}

ValueId lsq_backward_scale(Node& n) {
  const auto qm = largest_code(n);
  const auto c = qm && n.count(3, 3) ? channels_of(n, n.in[0]) : std::nullopt;
  if (!c) return {};
  Builder& b = n.b;
  const ValueId z = b.div(n.in[0], b.reshape(n.in[1], c->shape)), limit = b.scalar(b.graph().dtype(n.in[0]), *qm);
  const ValueId inside = b.create(OpKind::Le, {b.unary(OpKind::Abs, z), limit});
  const ValueId psi = b.create(OpKind::Where, {inside, b.sub(round_away(b, z), z), b.mul(b.unary(OpKind::Sign, z), limit)});
  return b.reshape(b.reduce(ReduceOp::Sum, b.mul(psi, n.in[2]), c->axes, true), sizes(n, n.in[1]));
}

}  // namespace

ValueId reference_by_expert(ReferenceNode& n, ValueId x, ValueId weights, ValueId experts) {
  if (sizes(n, x).size() != 2) {
    n.fail(Code::BadShape, "needs x [M,K]");
    return ValueId();
  }
  return n.b.create(OpKind::GroupedMatMul, {x, weights, n.b.cast(experts, DType::I64)});
}

std::span<const ReferenceRow> reference_quant_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"DequantMatMul", dequant_matmul},
      {"DequantGroupedMatMul", dequant_grouped_matmul},
      {"DequantMoEWeights", dequant_moe_weights},
      {"GroupedMatMul", grouped_matmul},
      {"QMatMul", q_matmul},
      {"QConv2d", q_conv2d},
      {"FakeQuantize", fake_quantize},
      {"FakeQuantizeLSQ", fake_quantize_lsq},
      {"FakeQuantizeBackward", fake_quantize_backward},
      {"FakeQuantizeLSQBackwardX", lsq_backward_x},
      {"FakeQuantizeLSQBackwardScale", lsq_backward_scale},
  };
  return kRows;
}

}  // namespace rlxc::import_json
