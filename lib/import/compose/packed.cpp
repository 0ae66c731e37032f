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
  ValueId half(int64_t from) { return b.cast(read_bytes(b, bytes(from, 2), DType::F16), kReal); }  // [n,1]
  ValueId signed_bytes(int64_t from, int64_t count) { return cast(b.cast(bytes(from, count), DType::I8)); }
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

ValueId decode_small(Block k, int width, bool min) {
  const int64_t high = min ? 4 : 2, codes = high + (width == 5 ? 4 : 0);
  ValueId q = k.spread(codes, 16, 16, kHalves, 15);
  if (width == 5) q = k.joined(q, k.spread(high, 4, 1, kEighths, 1), 4);
  if (min) return k.b.add(k.b.mul(k.cast(q), k.half(0)), k.half(2));
  return k.b.mul(k.b.sub(k.cast(q), k.real(1 << (width - 1))), k.half(0));
}

ValueId decode_medium(Block k, bool fifth) {
  const ValueId a = k.bytes(4, 4), b = k.bytes(8, 4), c = k.bytes(12, 4);
  const ValueId scale = k.b.concat(std::array{k.bit_and(a, 63), k.joined(k.bit_and(c, 15), k.shr(a, 6), 4)}, 1);
  const ValueId min = k.b.concat(std::array{k.bit_and(b, 63), k.joined(k.shr(c, 4), k.shr(b, 6), 4)}, 1);
  ValueId q = k.spread(fifth ? 48 : 16, 128, 32, kHalves, 15);
  if (fifth) q = k.joined(q, k.spread(16, 32, 32, kEighths, 1), 4);
  const ValueId scaled = k.by_run(k.b.mul(k.cast(scale), k.half(0)), 8, k.cast(q), 256);
  return k.by_run(k.b.mul(k.cast(min), k.half(2)), 8, scaled, 256, OpKind::Sub);
}

ValueId decode_two(Block k) {
  const ValueId s = k.bytes(0, 16), q = k.spread(16, 64, 32, kQuarters, 3);
  const ValueId scaled = k.by_run(k.b.mul(k.cast(k.bit_and(s, 15)), k.half(80)), 16, k.cast(q), 256);
  return k.by_run(k.b.mul(k.cast(k.shr(s, 4)), k.half(82)), 16, scaled, 256, OpKind::Sub);
}

ValueId decode_three(Block k) {
  const ValueId low = k.spread(96, 8, 8, kHalves, 15), high = k.spread(104, 4, 4, kQuarters, 3);
  const ValueId scale = k.b.sub(k.cast(k.joined(low, high, 4)), k.real(32));
  const ValueId q = k.joined(k.spread(32, 64, 32, kQuarters, 3), k.spread(0, 32, 32, kEighths, 1), 2);
  return k.by_run(k.b.mul(scale, k.half(108)), 16, k.b.sub(k.cast(q), k.real(4)), 256);
}

ValueId decode_six(Block k) {
  const ValueId q = k.joined(k.spread(0, 128, 64, kHalves, 15), k.spread(128, 64, 32, kQuarters, 3), 4);
  return k.by_run(k.b.mul(k.signed_bytes(192, 16), k.half(208)), 16, k.b.sub(k.cast(q), k.real(32)), 256);
}

ValueId decode_table(Block k, bool power_of_two) {
  const ValueId q = k.spread(power_of_two ? 1 : 2, 16, 16, kHalves, 15);
  const ValueId d =
      power_of_two ? k.cast(k.b.create(OpKind::BitCast, {k.bytes(0, 1)}, CastAttrs{DType::F8E8M0, true})) : k.half(0);
  return k.b.mul(look_up(k.b, power_of_two ? fp4_values() : iq4_nl_values(), q), d);
}

ValueId decode_four_xs(Block k) {
  const ValueId scale = k.b.sub(k.cast(k.joined(k.spread(4, 4, 1, kHalves, 15), k.spread(2, 2, 1, kQuarters, 3), 4)), k.real(32));
  return k.by_run(k.b.mul(scale, k.half(0)), 8, look_up(k.b, iq4_nl_values(), k.spread(8, 128, 16, kHalves, 15)), 256);
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
ValueId decode_ternary(Block k, ValueId codes, int64_t scale) {
  return k.b.mul(k.b.sub(k.cast(codes), k.real(1)), k.half(scale));
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

ValueId decode_blocks(Builder& b, BlockFormat f, ValueId blocks) {
  if (!blocks.valid()) return {};
  Block k{b, blocks, b.graph().dims(blocks)[0]};
  switch (f) {
    case BlockFormat::Q4_0: return decode_small(k, 4, false);
    case BlockFormat::Q4_1: return decode_small(k, 4, true);
    case BlockFormat::Q5_0: return decode_small(k, 5, false);
    case BlockFormat::Q5_1: return decode_small(k, 5, true);
    case BlockFormat::Q8_0: return b.mul(k.signed_bytes(2, 32), k.half(0));
    case BlockFormat::Q2_K: return decode_two(k);
    case BlockFormat::Q3_K: return decode_three(k);
    case BlockFormat::Q4_K: return decode_medium(k, false);
    case BlockFormat::Q5_K: return decode_medium(k, true);
    case BlockFormat::Q6_K: return decode_six(k);
    case BlockFormat::Q8_K: return b.mul(k.signed_bytes(4, 256), read_bytes(b, k.bytes(0, 4), kReal));
    case BlockFormat::IQ4_NL: return decode_table(k, false);
    case BlockFormat::IQ4_XS: return decode_four_xs(k);
    case BlockFormat::TQ1_0:
      return decode_ternary(k,
                            b.concat(std::array{digits(k, 0, 32, {1, 3, 9, 27, 81}), digits(k, 32, 16, {1, 3, 9, 27, 81}),
                                                digits(k, 48, 4, {1, 3, 9, 27})},
                                     1),
                            52);
    case BlockFormat::TQ2_0: return decode_ternary(k, k.spread(0, 64, 32, kQuarters, 3), 64);
    case BlockFormat::MXFP4: return decode_table(k, true);
  }
  return {};
}

}  // namespace rlxc::compose
