// Packed weights in MLX's format: rows [n,k] of quantized values, packed from the low bits up, with a scale per group of a row.
// Affine: value * scale + bias. MXFP4 and MXFP8: a 4- or 8-bit float times a power of two (OCP Microscaling Formats).
#include "import/compose/packed.h"
#include "import/json/reference_rows.h"
#include "ir/term.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::Term;

struct MlxScheme {
  enum Kind { Affine, Mxfp4, Mxfp8 } kind = Affine;
  int64_t bits = 4, group = 32;
};
std::optional<MlxScheme> mlx_scheme_of(Node& n) {
  const ReferenceTag tag = reference_tag(n, "scheme");
  MlxScheme s;
  s.group = tag.number(tag.has("group_size") ? "group_size" : tag.has("group") ? "group" : "g");
  if (tag.name == "MlxAffine") s.bits = tag.number("bits");
  else if (tag.name == "MlxMxfp4") s.kind = MlxScheme::Mxfp4;
  else if (tag.name == "MlxMxfp8") s.kind = MlxScheme::Mxfp8, s.bits = 8;
  else return n.good ? n.fail(Code::UnsupportedAttribute, "the scheme \"" + tag.name + "\" is unknown") : false, std::nullopt;
  if (s.bits >= 2 && s.bits <= 8 && s.bits != 7 && s.group >= 8 && s.group <= 1 << 20) return s;
  return n.fail(Code::BadAttribute, "bits or the size of a group are out of range"), std::nullopt;
}

// Unpacks the quantized values to one row of numbers.
Term codes(Node& n, const MlxScheme& s, ValueId packed) {
  Builder& b = n.b;
  const auto real = [&](ValueId v) { return Term{&b, b.cast(v, kReal)}; };
  const Dim bytes = b.dims().product(b.graph().dims(packed));
  packed = b.reshape(packed, {bytes});
  if (s.kind == MlxScheme::Mxfp8) return real(b.create(OpKind::BitCast, {packed}, CastAttrs{DType::F8E4M3FN, true}));
  if (s.kind == MlxScheme::Mxfp4) return {&b, compose::look_up(b, fp4_values(), compose::unpack_bits(b, packed, 4))};
  if (8 % s.bits == 0) return real(compose::unpack_bits(b, packed, static_cast<int>(s.bits)));
  std::vector<float> powers;
  for (int64_t i = 0; i < s.bits; ++i) powers.push_back(static_cast<float>(1 << i));
  const Dim count = b.dims().floor_div(b.dims().mul(bytes, Dim(8)), Dim(s.bits));
  const Term bits = reshape(real(compose::unpack_bits(b, packed, 1)), {count, Dim(s.bits)});
  return sum(bits * bits.with(b.constant(make_data(kReal, {s.bits}, powers))), {1}, false);
}

// Returns f32 [rows, k].
Term weights(Node& n, const MlxScheme& s, Dim rows, Dim k) {
  DimTable& t = n.b.dims();
  if (!t.divides(Dim(s.group), k) || n.b.graph().dtype(n.in[1]) != DType::U8)
    return n.fail(Code::BadShape, "needs bytes, and rows that are whole groups of " + std::to_string(s.group)), Term{&n.b, {}};
  const Dim groups = t.floor_div(k, Dim(s.group));
  const auto of_group = [&](size_t i) {
    ValueId v = n.in[i];
    if (s.kind != MlxScheme::Affine) v = n.b.create(OpKind::BitCast, {v}, CastAttrs{DType::F8E8M0, true});
    return reshape(Term{&n.b, n.b.cast(v, kReal)}, {rows, groups, Dim(1)});
  };
  const Term scaled = reshape(codes(n, s, n.in[1]), {rows, groups, Dim(s.group)}) * of_group(2);
  return reshape(s.kind == MlxScheme::Affine ? scaled + of_group(3) : scaled, {rows, k});
}

// x [M,K], quantized experts [E,out,K], scales and biases [E,out,groups], the expert of each row.
ValueId mlx_grouped_matmul(Node& n) {
  const auto s = n.count(5, 5) ? mlx_scheme_of(n) : std::nullopt;
  if (!s) return {};
  const auto scales = Term{&n.b, n.in[2]}.dims();
  if (n.rank(0) != 2 || n.type.rank() != 2 || scales.size() != 3)
    return n.fail(Code::BadShape, "needs x [M,K] and scales [experts, out, groups]"), ValueId();
  const Dim k = Term{&n.b, n.in[0]}.dims()[1], out = n.type.dims[1];
  const Term w = reshape(weights(n, *s, n.b.dims().mul(scales[0], out), k), {scales[0], out, k});
  return w.valid() ? reference_by_expert(n, n.in[0], transpose(w, {0, 2, 1}).v, n.in[4]) : ValueId();
}

}  // namespace

ValueId reference_mlx_matmul(ReferenceNode& n) {  // x, codes, scales, biases
  const auto s = n.count(4, 4) ? mlx_scheme_of(n) : std::nullopt;
  if (!s || n.rank(0) < 2 || n.type.rank() < 2) return n.good ? n.fail(Code::BadShape, "needs x [.., K]"), ValueId() : ValueId();
  const Term x{&n.b, n.b.cast(n.in[0], kReal)};
  return x.valid() ? matmul(x, weights(n, *s, n.type.dims.back(), x.dims().back()), false, true).v : ValueId();
}

std::span<const ReferenceRow> reference_mlx_rows() {
  static constexpr ReferenceRow kRows[] = {{"DequantGroupedMatMulMlx", mlx_grouped_matmul}};
  return kRows;
}

}  // namespace rlxc::import_json
