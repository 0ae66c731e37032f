// Transformer blocks, solvers, sampling and complex numbers of the reference vocabulary.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "import/compose/solve.h"
#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

// Transformer blocks.

struct Heads {
  int64_t count, width;
};
std::optional<Heads> heads_of(Node& n) {
  const Heads h{n.integer("num_heads"), n.integer("head_dim")};
  if (n.good && h.count >= 1 && h.width >= 1 && h.count <= 1 << 20 && h.width <= 1 << 20) return h;
  if (n.good) n.fail(Code::BadAttribute, "num_heads or head_dim is out of range");
  return std::nullopt;
}

ValueId biased(Node& n, ValueId x, ValueId w, ValueId bias) {
  const ValueId y = n.b.matmul(x, w);
  return bias.valid() ? n.b.add(y, bias) : y;
}

struct AttentionWeights {
  ValueId qkv, qkv_bias, out, out_bias, mask, cos, sin;
};
ValueId attention_block(Node& n, Heads h, ValueId x, const AttentionWeights& w) {
  const auto d = sizes(n, x);
  if (d.size() != 3) {
    n.fail(Code::BadShape, "needs x [batch, length, width]");
    return ValueId();
  }
  const ValueId qkv = biased(n, x, w.qkv, w.qkv_bias);
  const Dim hidden(h.count * h.width);
  std::array<ValueId, 3> parts;
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = n.b.narrow(qkv, 2, Dim(static_cast<int64_t>(i) * h.count * h.width), hidden);
    if (i < 2 && w.cos.valid())
      parts[i] = n.b.create(OpKind::Rope, {parts[i], w.cos, w.sin},
                            RopeAttrs{h.width, h.width, RopeStyle::NeoX, AttentionLayout::Packed});
  }
  AttentionAttrs a;
  a.num_heads = a.num_kv_heads = h.count;
  a.layout = a.out_layout = AttentionLayout::Packed;
  a.mask = MaskKind::Custom;
  a.finite_mask = true;
  const ValueId y = n.b.create(OpKind::Attention, {parts[0], parts[1], parts[2], reference_custom_mask(n, w.mask)}, a);
  return biased(n, y, w.out, w.out_bias);
}

ValueId fused_attention_block(Node& n) {
  const auto h = heads_of(n);
  const bool bias = n.flag("has_bias"), rope = n.flag("has_rope");
  const size_t count = 4 + 2 * bias + 2 * rope;
  if (!h || !n.count(count, count)) return {};
  AttentionWeights w{n.in[1], {}, n.in[2], {}, n.in[3], {}, {}};
  if (bias) {
    w.qkv_bias = n.in[4];
    w.out_bias = n.in[5];
  }
  if (rope) {
    w.cos = n.in[count - 2];
    w.sin = n.in[count - 1];
  }
  return attention_block(n, *h, n.in[0], w);
}

ValueId fused_transformer_layer(Node& n) {  // post-norm
  const auto h = heads_of(n);
  const bool bias = n.flag("has_bias");
  Epilogue act;
  if (!h || !n.count(bias ? 14 : 10, bias ? 14 : 10) || !reference_epilogue(n, &act)) return {};
  size_t at = 1;
  const auto next = [&] { return n.in[at++]; };
  const auto next_bias = [&] { return bias ? n.in[at++] : ValueId(); };
  AttentionWeights w;
  w.qkv = next();
  w.qkv_bias = next_bias();
  w.out = next();
  w.out_bias = next_bias();
  w.mask = n.in.back();
  const ValueId gamma1 = next(), beta1 = next(), fc1 = next(), bias1 = next_bias(), fc2 = next(), bias2 = next_bias(),
                gamma2 = next(), beta2 = next();
  const int64_t last = n.rank(0) - 1;
  const auto norm = [&](ValueId x, ValueId gamma, ValueId beta, std::string_view eps) {
    return n.b.create(OpKind::LayerNorm, {x, gamma, beta}, NormAttrs{last, n.number(eps, 1e-12)});
  };
  const ValueId h1 = norm(n.b.add(attention_block(n, *h, n.in[0], w), n.in[0]), gamma1, beta1, "eps1");
  ValueId f = biased(n, h1, fc1, bias1);
  if (act.has) f = n.b.unary(act.op, f);
  return norm(n.b.add(biased(n, f, fc2, bias2), h1), gamma2, beta2, "eps2");
}

// Rotary angles of 2-D grid positions for adjacent pairs: the column rotates the first half of a head, the row the second.
ValueId axial_rope_2d(Node& n) {
  const int64_t columns = n.integer("end_x"), rows = n.integer("end_y"), width = n.integer("head_dim"),
                repeat = std::max<int64_t>(n.integer("repeat_factor", 1), 1);
  const double theta = n.number("theta", 10000);
  if (!n.good || !n.count(1, 1)) return {};
  if (columns < 1 || rows < 1 || width < 4 || width % 4 != 0 || width > 1 << 16 || columns > 1 << 12 || rows > 1 << 12 ||
      repeat > 1 << 12) {
    n.fail(Code::BadAttribute, "the grid or head_dim is out of range");
    return ValueId();
  }
  const int64_t length = columns * rows * repeat, quarter = width / 4;
  if (length * width > int64_t{1} << 28) {
    n.fail(Code::TooLarge, "the grid is too large");
    return ValueId();
  }
  std::vector<float> cos, sin;
  for (int64_t token = 0; token < length; ++token)
    for (int64_t c = 0; c < 2 * quarter; ++c) {
      const int64_t at = token / repeat, place = c < quarter ? at % columns : at / columns;
      const double angle =
          static_cast<double>(place) * std::pow(theta, -4.0 * static_cast<double>(c % quarter) / static_cast<double>(width));
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  const auto table = [&](const std::vector<float>& v) {
    return n.b.cast(n.b.constant(make_data(DType::F32, {length, 2 * quarter}, v)), n.type.dtype);
  };
  return n.b.create(OpKind::Rope, {n.in[0], table(cos), table(sin)},
                    RopeAttrs{width, width, RopeStyle::GptJ, AttentionLayout::Packed});
}

// Linear systems.

ValueId dense_solve(Node& n) {  // a [.., n, n], b [.., n] or [.., n, k]
  if (!n.count(2, 2)) return {};
  const auto d = sizes(n, n.in[1]);
  if (n.rank(1) == n.rank(0)) return compose::solve(n.b, n.in[0], n.in[1]);
  if (n.rank(1) + 1 != n.rank(0)) {
    n.fail(Code::BadShape, "a and b do not fit");
    return ValueId();
  }
  std::vector<Dim> column = d;
  column.emplace_back(1);
  return n.b.reshape(compose::solve(n.b, n.in[0], n.b.reshape(n.in[1], column)), d);
}

// Sampling.

// Philox 4x32-10 with the reference vocabulary's first multiplier. Returns word `index` of the blocks 0, 1, ...
uint32_t philox_word(uint64_t seed, uint64_t index) {
  uint32_t s[4] = {static_cast<uint32_t>(index / 4), static_cast<uint32_t>(index / 4 >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{s[0]} * 0xD2561A75u, p1 = uint64_t{s[2]} * 0xCD9E8D57u;
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ s[1] ^ k0, static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ s[3] ^ k1, static_cast<uint32_t>(p0)};
    std::copy(next, next + 4, s);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return s[index % 4];
}

// Samples a class for each row of logits [B,V] with temperature, top-k and top-p.
ValueId sample(Node& n) {
  const int64_t k = n.integer("top_k", 0), seed = n.integer("seed", 0);
  const double p = n.number("top_p", 1), temperature = n.number("temperature", 1);
  if (!n.good || !n.count(1, 1)) return {};
  Builder& b = n.b;
  const auto d = sizes(n, n.in[0]);
  const auto rows = d.size() == 2 ? b.dims().constant_value(d[0]) : std::nullopt,
             classes = d.size() == 2 ? b.dims().constant_value(d[1]) : std::nullopt;
  if (!rows || !classes || *rows > 1 << 20 || *classes < 1) {
    n.fail(Code::UnsupportedAttribute, "needs logits [B,V] of static shape");
    return ValueId();
  }
  const DType t = DType::F32;
  const auto sorted = [&](ValueId x, int64_t count) {
    return b.create_node(OpKind::TopK, std::array{x}, TopKAttrs{Dim(count), 1, true, true});
  };
  ValueId z = b.div(b.cast(n.in[0], t), b.scalar(t, std::max(temperature, 1e-6)));
  if (k > 0 && k < *classes) {
    const NodeId top = sorted(z, k);
    if (!top.valid()) return {};
    const ValueId least = b.narrow(b.graph().result(top), 1, Dim(k - 1), Dim(1));
    z = b.create(OpKind::Where, {b.create(OpKind::Lt, {z, least}), b.scalar(t, -std::numeric_limits<double>::infinity()), z});
  }
  ValueId probability = b.create(OpKind::Softmax, {z}, AxisAttrs{1});
  if (p < 1) {  // keeps a class if the more likely ones have less than p together
    const NodeId order = sorted(probability, *classes);
    if (!order.valid()) return {};
    const ValueId down = b.graph().result(order), before = b.create(OpKind::Cumsum, {down}, CumAttrs{1, true, false});
    const ValueId kept = b.create(OpKind::Where, {b.create(OpKind::Lt, {before, b.scalar(t, p)}), down, b.scalar(t, 0)});
    probability = b.create(OpKind::ScatterElements, {probability, b.graph().result(order, 1), kept}, ScatterAttrs{1});
    probability = b.div(probability, b.reduce(ReduceOp::Sum, probability, {1}, true));
  }
  std::vector<float> draws;
  for (int64_t i = 0; i < *rows; ++i)
    draws.push_back(
        static_cast<float>(philox_word(seed == 0 ? 0xDEADBEEF : static_cast<uint64_t>(seed), static_cast<uint64_t>(i)) >> 8) /
        16777216.0f);
  const ValueId r = b.constant(make_data(t, {*rows, 1}, draws));
  const ValueId reached =
      b.cast(b.create(OpKind::Le, {r, b.create(OpKind::Cumsum, {probability}, CumAttrs{1, false, false})}), DType::I32);
  const ValueId first = b.create(OpKind::ArgReduce, {reached}, ArgAttrs{1, true, false, false});
  const ValueId any = b.cast(b.reduce(ReduceOp::Max, reached, {1}, false), DType::Bool);
  const ValueId last = b.scalar(DType::I64, static_cast<double>(*classes - 1));
  return b.cast(b.create(OpKind::Where, {any, first, last}), n.type.dtype);
}

// Complex numbers, as pairs along a last axis.

ValueId parts(Node& n, ValueId z) { return n.b.create(OpKind::BitCast, {z}, CastAttrs{DType::F32, true}); }
ValueId whole(Node& n, ValueId p) { return n.b.create(OpKind::BitCast, {p}, CastAttrs{DType::C64, true}); }

ValueId complex_norm_sq(Node& n) {
  if (!n.count(1, 1)) return {};
  const ValueId z = parts(n, n.in[0]);
  return n.b.reduce(ReduceOp::Sum, n.b.mul(z, z), {n.rank(0)}, false);
}
ValueId complex_norm_sq_backward(Node& n) {  // g z
  if (!n.count(2, 2)) return {};
  auto d = sizes(n, n.in[1]);
  d.emplace_back(1);
  return whole(n, n.b.mul(parts(n, n.in[0]), n.b.reshape(n.in[1], d)));
}
ValueId conjugate(Node& n) {
  if (!n.count(1, 1)) return {};
  return whole(n, n.b.mul(parts(n, n.in[0]), n.b.constant(make_data(DType::F32, {2}, std::vector<float>{1, -1}))));
}

// The last axis has complex numbers, or all real parts followed by all imaginary parts.
ValueId fft(Node& n) {
  FftAttrs a;
  a.inverse = n.flag("inverse");
  const std::string norm = n.find("norm") ? n.word("norm") : "Backward";
  if (norm == "Forward") a.norm = a.inverse ? FftNorm::InverseN : FftNorm::None;
  else if (norm == "Ortho") a.norm = FftNorm::Unitary;
  else if (norm != "Backward") {
    n.fail(Code::BadAttribute, "the norm \"" + norm + "\" is unknown");
    return ValueId();
  }
  const int rank = n.rank(0);
  if (!n.count(1, 1) || rank < 1) return {};
  a.axis = rank - 1;
  if (n.b.graph().dtype(n.in[0]) == DType::C64) return whole(n, n.b.create(OpKind::Fft, {parts(n, n.in[0])}, a));
  const auto d = sizes(n, n.in[0]);
  if (!n.b.dims().divides(Dim(2), d.back())) {
    n.fail(Code::BadShape, "the last size must be even");
    return ValueId();
  }
  auto split = d;
  split.back() = Dim(2);
  split.push_back(n.b.dims().floor_div(d.back(), Dim(2)));
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < rank - 1; ++i) perm.push_back(i);
  perm.push_back(rank);
  perm.push_back(rank - 1);
  const ValueId pairs = n.b.transpose(n.b.reshape(n.in[0], split), perm);
  return n.b.reshape(n.b.transpose(n.b.create(OpKind::Fft, {pairs}, a), perm), d);
}

}  // namespace

std::span<const ReferenceRow> reference_fused_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"FusedAttentionBlock", fused_attention_block},
      {"FusedTransformerLayer", fused_transformer_layer},
      {"AxialRope2d", axial_rope_2d},
      {"DenseSolve", dense_solve},
      {"BatchedDenseSolve", dense_solve},
      {"Sample", sample},
      {"ComplexNormSq", complex_norm_sq},
      {"ComplexNormSqBackward", complex_norm_sq_backward},
      {"Conjugate", conjugate},
      {"Fft", fft},
  };
  return kRows;
}

}  // namespace rlxc::import_json
