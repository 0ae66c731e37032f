#include "import/compose/packed.h"

#include <array>

namespace rlxc::compose {
namespace {

constexpr DType kReal = DType::F32;

std::vector<Dim> sizes(Builder& b, ValueId x) { return {b.graph().dims(x).begin(), b.graph().dims(x).end()}; }

// The fields of blocks [n, bytes].
struct Block {
  Builder& b;
  ValueId x;
  Dim n;

  ValueId bytes(int64_t from, int64_t count) { return b.narrow(x, 1, Dim(from), Dim(count)); }
  ValueId half(int64_t from) { return read_bytes(b, bytes(from, 2), DType::F16); }  // f16 [n,1]
  ValueId wide_half(int64_t from) { return cast(half(from)); }                      // f32 [n,1]
  ValueId signed_bytes(int64_t from, int64_t count) {
    return b.create(OpKind::BitCast, {bytes(from, count)}, CastAttrs{DType::I8, true});
  }
  ValueId signed_integers(int64_t from, int64_t count) { return cast(signed_bytes(from, count)); }
  ValueId spread(int64_t from, int64_t count, int64_t run, const std::vector<uint8_t>& shifts, int mask) {
    return spread_bits(b, bytes(from, count), Dim(run), shifts, mask);
  }
  ValueId cast(ValueId v) { return b.cast(v, kReal); }
  ValueId real(double v) { return b.scalar(kReal, v); }
  ValueId byte(int v) { return b.scalar(DType::U8, v); }
  ValueId bit_and(ValueId v, int mask) { return b.create(OpKind::BitAnd, {v, byte(mask)}); }
  ValueId shr(ValueId v, int by) { return b.create(OpKind::Shr, {v, byte(by)}); }
  // low | high << by
  ValueId joined(ValueId low, ValueId high, int by) {
    return b.create(OpKind::BitOr, {low, b.create(OpKind::Shl, {high, byte(by)})});
  }
  // Combines one factor per run with the elements of `runs` runs.
  ValueId by_run(ValueId factor, int64_t runs, ValueId q, int64_t count, OpKind how = OpKind::Mul) {
    const ValueId wide = b.reshape(q, {n, Dim(runs), Dim(count / runs)});
    return b.reshape(b.create(how, {wide, b.reshape(factor, {n, Dim(runs), Dim(1)})}), {n, Dim(count)});
  }
};

const std::vector<uint8_t> kHalves{0, 4}, kQuarters{0, 2, 4, 6}, kEighths{0, 1, 2, 3, 4, 5, 6, 7};

// Codes that stand for code - offset.
ValueId centred(Block k, ValueId codes, int offset) { return k.b.sub(k.b.cast(codes, DType::I8), k.b.scalar(DType::I8, offset)); }

BlockParts split_small(Block k, int width, bool min) {
  const int64_t high = min ? 4 : 2, codes = high + (width == 5 ? 4 : 0);
  ValueId q = k.spread(codes, 16, 16, kHalves, 15);
  if (width == 5) q = k.joined(q, k.spread(high, 4, 1, kEighths, 1), 4);
  if (min) return {q, width == 4 ? DType::U4 : DType::U8, 32, k.half(0), k.b.unary(OpKind::Neg, k.wide_half(2))};
  return {centred(k, q, 1 << (width - 1)), width == 4 ? DType::I4 : DType::I8, 32, k.half(0), {}};
}

BlockParts split_medium(Block k, bool fifth) {
  const ValueId a = k.bytes(4, 4), b = k.bytes(8, 4), c = k.bytes(12, 4);
  const ValueId scale = k.b.concat(std::array{k.bit_and(a, 63), k.joined(k.bit_and(c, 15), k.shr(a, 6), 4)}, 1);
  const ValueId min = k.b.concat(std::array{k.bit_and(b, 63), k.joined(k.shr(c, 4), k.shr(b, 6), 4)}, 1);
  ValueId q = k.spread(fifth ? 48 : 16, 128, 32, kHalves, 15);
  if (fifth) q = k.joined(q, k.spread(16, 32, 32, kEighths, 1), 4);
  return {q, fifth ? DType::U8 : DType::U4, 32, k.b.mul(k.cast(scale), k.wide_half(0)), k.b.mul(k.cast(min), k.wide_half(2))};
}

BlockParts split_two(Block k) {
  const ValueId s = k.bytes(0, 16), q = k.spread(16, 64, 32, kQuarters, 3);
  return {q, DType::U2, 16, k.b.mul(k.cast(k.bit_and(s, 15)), k.wide_half(80)), k.b.mul(k.cast(k.shr(s, 4)), k.wide_half(82))};
}

BlockParts split_three(Block k) {
  const ValueId low = k.spread(96, 8, 8, kHalves, 15), high = k.spread(104, 4, 4, kQuarters, 3);
  const ValueId scale = k.b.sub(k.cast(k.joined(low, high, 4)), k.real(32));
  const ValueId q = k.joined(k.spread(32, 64, 32, kQuarters, 3), k.spread(0, 32, 32, kEighths, 1), 2);
  return {centred(k, q, 4), DType::I4, 16, k.b.mul(scale, k.wide_half(108)), {}};
}

BlockParts split_six(Block k) {
  const ValueId q = k.joined(k.spread(0, 128, 64, kHalves, 15), k.spread(128, 64, 32, kQuarters, 3), 4);
  return {centred(k, q, 32), DType::I8, 16, k.b.mul(k.signed_integers(192, 16), k.wide_half(208)), {}};
}

// Codes that are entries of a table of integers.
ValueId of_table(Block k, ValueId codes, std::span<const float> table, float factor) {
  std::vector<int8_t> entries;
  for (const float v : table) entries.push_back(static_cast<int8_t>(v * factor));
  const ValueId values = k.b.constant(make_data(DType::I8, {static_cast<int64_t>(entries.size())}, entries));
  return k.b.create(OpKind::Gather, {values, k.b.cast(codes, DType::I32)}, AxisAttrs{0});
}

BlockParts split_fp4(Block k) {  // half the scale, twice the values: integers
  const auto word = [&](uint32_t v) { return k.b.scalar(DType::U32, v); };
  const auto shl = [&](ValueId v, ValueId by) { return k.b.create(OpKind::Shl, {v, by}); };
  const ValueId e = k.b.cast(k.bytes(0, 1), DType::U32);  // 2^(e-128) as f32, of which the first two are subnormal
  const ValueId bits = k.b.create(
      OpKind::Where, {k.b.create(OpKind::Lt, {e, word(2)}), shl(word(0x200000), e), shl(k.b.sub(e, word(1)), word(23))});
  const ValueId scale = k.b.create(OpKind::BitCast, {bits}, CastAttrs{kReal, true});
  return {of_table(k, k.spread(1, 16, 16, kHalves, 15), fp4_values(), 2), DType::I8, 32, scale, {}};
}

BlockParts split_nvfp4(Block k) {
  const ValueId scale = k.b.mul(decode_scale_bytes(k.b, k.bytes(0, 4)), k.real(0.5));
  return {of_table(k, k.spread(4, 32, 8, kHalves, 15), fp4_values(), 2), DType::I8, 16, scale, {}};
}

BlockParts split_table(Block k) {
  return {of_table(k, k.spread(2, 16, 16, kHalves, 15), iq4_nl_values(), 1), DType::I8, 32, k.half(0), {}};
}

BlockParts split_table_xs(Block k) {
  const ValueId scale = k.b.sub(k.cast(k.joined(k.spread(4, 4, 1, kHalves, 15), k.spread(2, 2, 1, kQuarters, 3), 4)), k.real(32));
  const ValueId codes = of_table(k, k.spread(8, 128, 16, kHalves, 15), iq4_nl_values(), 1);
  return {codes, DType::I8, 32, k.b.mul(scale, k.wide_half(0)), {}};
}

// Base-3 digits of bytes that are fractions of 256: the first digits of all bytes, then the second ones, ...
ValueId digits(Block k, int64_t from, int64_t count, const std::vector<int32_t>& powers) {
  const auto number = [&](int v) { return k.b.scalar(DType::I32, v); };
  const auto places = static_cast<int64_t>(powers.size());
  const ValueId x = k.b.reshape(k.b.cast(k.bytes(from, count), DType::I32), {k.n, Dim(1), Dim(count)});
  const ValueId moved = k.b.mul(x, k.b.constant(make_data(DType::I32, {places, 1}, powers)));
  const ValueId rest = k.b.mul(k.b.create(OpKind::BitAnd, {moved, number(255)}), number(3));
  return k.b.reshape(k.b.create(OpKind::Shr, {rest, number(8)}), {k.n, Dim(places * count)});
}
BlockParts split_ternary(Block k, ValueId codes, DType narrow, int64_t scale) {
  return {centred(k, codes, 1), narrow, 256, k.half(scale), {}};
}

}  // namespace

ValueId spread_bits(Builder& b, ValueId x, Dim run, const std::vector<uint8_t>& shifts, int mask) {
  if (!x.valid()) return {};
  const Dim count(static_cast<int64_t>(shifts.size()));
  std::vector<Dim> whole = sizes(b, x), split = whole;
  split.back() = b.dims().floor_div(whole.back(), run);
  split.insert(split.end(), {Dim(1), run});
  whole.back() = b.dims().mul(whole.back(), count);
  const ValueId by = b.constant(make_data(DType::U8, {static_cast<int64_t>(shifts.size()), 1}, shifts));
  const ValueId moved = b.create(OpKind::Shr, {b.reshape(x, split), by});
  return b.reshape(b.create(OpKind::BitAnd, {moved, b.scalar(DType::U8, mask)}), whole);
}

ValueId unpack_bits(Builder& b, ValueId x, int width) {
  if (width == 8) return x;
  std::vector<uint8_t> shifts;
  for (int i = 0; i < 8; i += width) shifts.push_back(static_cast<uint8_t>(i));
  return spread_bits(b, x, Dim(1), shifts, (1 << width) - 1);
}

ValueId read_bytes(Builder& b, ValueId x, DType t) {
  if (!x.valid()) return {};
  const int bytes = bits(t) / 8;
  const DType word = bytes == 2 ? DType::U16 : DType::U32;
  std::vector<Dim> split = sizes(b, x), whole = split;
  split.back() = whole.back() = b.dims().floor_div(split.back(), Dim(bytes));
  split.emplace_back(bytes);
  const auto last = static_cast<int64_t>(split.size()) - 1;
  const ValueId wide = b.cast(b.reshape(x, split), word);
  ValueId sum;
  for (int i = 0; i < bytes; ++i) {
    const ValueId one = b.reshape(b.narrow(wide, last, Dim(i), Dim(1)), whole);
    const ValueId part = i == 0 ? one : b.create(OpKind::Shl, {one, b.scalar(word, 8 * i)});
    sum = sum.valid() ? b.create(OpKind::BitOr, {sum, part}) : part;
  }
  return t == word ? sum : b.create(OpKind::BitCast, {sum}, CastAttrs{t, true});
}

ValueId look_up(Builder& b, std::span<const float> table, ValueId codes) {
  const ValueId values =
      b.constant(make_data(kReal, {static_cast<int64_t>(table.size())}, std::vector<float>(table.begin(), table.end())));
  return b.create(OpKind::Gather, {values, b.cast(codes, DType::I32)}, AxisAttrs{0});
}

ValueId decode_scale_bytes(Builder& b, ValueId x) {
  const ValueId v = b.cast(b.create(OpKind::BitCast, {x}, CastAttrs{DType::F8E4M3FN, true}), kReal);
  return b.create(OpKind::Where, {b.unary(OpKind::IsNan, v), b.scalar(kReal, 0), v});
}

BlockParts split_blocks(Builder& b, BlockFormat f, ValueId blocks) {
  if (!blocks.valid()) return {};
  Block k{b, blocks, b.graph().dims(blocks)[0]};
  switch (f) {
    case BlockFormat::Q4_0: return split_small(k, 4, false);
    case BlockFormat::Q4_1: return split_small(k, 4, true);
    case BlockFormat::Q5_0: return split_small(k, 5, false);
    case BlockFormat::Q5_1: return split_small(k, 5, true);
    case BlockFormat::Q8_0: return {k.signed_bytes(2, 32), DType::I8, 32, k.half(0), {}};
    case BlockFormat::Q2_K: return split_two(k);
    case BlockFormat::Q3_K: return split_three(k);
    case BlockFormat::Q4_K: return split_medium(k, false);
    case BlockFormat::Q5_K: return split_medium(k, true);
    case BlockFormat::Q6_K: return split_six(k);
    case BlockFormat::Q8_K: return {k.signed_bytes(4, 256), DType::I8, 256, read_bytes(b, k.bytes(0, 4), kReal), {}};
    case BlockFormat::IQ4_NL: return split_table(k);
    case BlockFormat::IQ4_XS: return split_table_xs(k);
    case BlockFormat::TQ1_0:
      return split_ternary(k,
                           b.concat(std::array{digits(k, 0, 32, {1, 3, 9, 27, 81}), digits(k, 32, 16, {1, 3, 9, 27, 81}),
                                               digits(k, 48, 4, {1, 3, 9, 27})},
                                    1),
                           DType::I2, 52);
    case BlockFormat::TQ2_0: return split_ternary(k, k.spread(0, 64, 32, kQuarters, 3), DType::I4, 64);
    case BlockFormat::MXFP4: return split_fp4(k);
    case BlockFormat::NVFP4: return split_nvfp4(k);
  }
  return {};
}

ValueId decode_blocks(Builder& b, BlockFormat f, ValueId blocks) {
  const BlockParts p = split_blocks(b, f, blocks);
  if (!p.codes.valid()) return {};
  Block k{b, blocks, b.graph().dims(blocks)[0]};
  const int64_t count = block_elements(f), runs = count / p.run;
  const ValueId scaled = k.by_run(k.cast(p.scale), runs, k.cast(p.codes), count);
  return p.minimum.valid() ? k.by_run(p.minimum, runs, scaled, count, OpKind::Sub) : scaled;
}

}  // namespace rlxc::compose
