// Decompositions of ops that move elements.
#include <algorithm>

#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

using enum OpKind;

std::vector<ValueId> tile(Expansion& e) {
  const auto repeats = e.attrs<DimsAttrs>().dims;
  std::vector<Dim> split, wide;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const Dim d = e.dim(e.in(0), static_cast<int>(i));
    split.push_back(Dim(1)), split.push_back(d);
    wide.push_back(repeats[i]), wide.push_back(d);
  }
  return {e.b.reshape(e.b.expand(e.b.reshape(e.in(0), split), wide), e.result_dims())};
}

std::vector<ValueId> slice(Expansion& e) {
  const auto& a = e.attrs<SliceAttrs>();
  if (a.step == 1) return {e.b.narrow(e.in(0), a.axis, a.start, a.len)};
  const ValueId step = e.b.scalar(DType::I64, static_cast<double>(a.step));
  const ValueId index = e.b.create(Range, {e.size(a.start), step}, DimsAttrs{{a.len}, false});
  return {e.b.create(Gather, {e.in(0), index}, AxisAttrs{a.axis})};
}

std::vector<ValueId> reverse(Expansion& e) {
  ValueId x = e.in(0);
  for (int64_t axis : e.attrs<AxesAttrs>().axes) {
    const Dim d = e.dim(x, static_cast<int>(axis));
    const ValueId last = e.size(e.b.dims().sub(d, Dim(1)));
    const ValueId index = e.b.create(Range, {last, e.b.scalar(DType::I64, -1)}, DimsAttrs{{d}, false});
    x = e.b.create(Gather, {x, index}, AxisAttrs{axis});
  }
  return {x};
}

std::vector<ValueId> trilu(Expansion& e) {
  const auto& a = e.attrs<TriluAttrs>();
  const ValueId x = e.in(0);
  if (e.g.dtype(x) == DType::String) return {};
  const ValueId row = e.b.reshape(e.positions(e.dim(x, -2)), {e.dim(x, -2), Dim(1)}), column = e.positions(e.dim(x, -1));
  const ValueId k =
      e.has(1) ? e.b.reshape(e.b.cast(e.in(1), DType::I64), {}) : e.b.scalar(DType::I64, static_cast<double>(a.diagonal));
  const ValueId keep = e.b.create(a.upper ? Ge : Le, {column, e.b.add(row, k)});
  return {e.b.create(Where, {keep, x, e.num(x, 0)})};
}

std::vector<ValueId> one_hot(Expansion& e) {
  const auto& a = e.attrs<OneHotAttrs>();
  const ValueId depth = e.size(a.depth);
  const ValueId given = e.b.cast(e.in(0), DType::I64);
  const ValueId index = e.b.create(Where, {e.b.create(Lt, {given, e.b.scalar(DType::I64, 0)}), e.b.add(given, depth), given});
  std::vector<Dim> sizes = e.dims(e.in(0));
  sizes.insert(sizes.begin() + a.axis, Dim(1));
  const int rank = static_cast<int>(sizes.size());
  const ValueId hit = e.b.create(Eq, {e.b.reshape(index, sizes), e.along(e.positions(a.depth), a.axis, rank)});
  const ValueId off = e.b.reshape(e.b.narrow(e.in(1), 0, 0, 1), {}), on = e.b.reshape(e.b.narrow(e.in(1), 0, 1, 1), {});
  return {e.b.create(Where, {hit, on, off})};
}

// The operand positions that a padded axis of static dim reads.
std::vector<int64_t> padded_positions(int64_t before, int64_t size, int64_t after, PadMode mode) {
  std::vector<int64_t> out;
  for (int64_t i = -before; i < size + after; ++i) {
    if (mode == PadMode::Edge) {
      out.push_back(std::clamp<int64_t>(i, 0, size - 1));
    } else if (mode == PadMode::Wrap) {
      out.push_back((i % size + size) % size);
    } else {
      const int64_t period = std::max<int64_t>(1, 2 * (size - 1)), k = (i % period + period) % period;
      out.push_back(k < size ? k : period - k);
    }
  }
  return out;
}

std::vector<ValueId> pad(Expansion& e) {
  const auto& a = e.attrs<PadAttrs>();
  DimTable& t = e.b.dims();
  ValueId x = e.in(0);
  for (size_t i = 0; i < a.before.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const Dim size = e.dim(x, static_cast<int>(i));
    const auto before = t.constant_value(a.before[i]), after = t.constant_value(a.after[i]);
    if (!before || !after) return {};
    if (*before == 0 && *after == 0) continue;
    if (a.mode != PadMode::Constant) {
      constexpr int64_t kLongest = 1 << 20;  // limit on an index vector stored as a constant
      if (!size.is_static() || size.size() == 0 || size.size() + *before + *after > kLongest) return {};
      x = e.b.create(Gather, {x, e.b.ints(padded_positions(*before, size.size(), *after, a.mode))}, AxisAttrs{axis});
      continue;
    }
    if (*before < 0 || *after < 0) {
      const int64_t cut_before = std::max<int64_t>(0, -*before), cut_after = std::max<int64_t>(0, -*after);
      x = e.b.narrow(x, axis, cut_before, t.sub(size, Dim(cut_before + cut_after)));
      if (!x.valid()) return {};
    }
    const ValueId fill = e.has(1) ? e.b.reshape(e.in(1), {}) : e.num(x, 0);
    auto filled = [&](int64_t length) {
      std::vector<Dim> sizes = e.dims(x);
      sizes[i] = Dim(length);
      return e.b.expand(fill, sizes);
    };
    std::vector<ValueId> parts;
    if (*before > 0) parts.push_back(filled(*before));
    parts.push_back(x);
    if (*after > 0) parts.push_back(filled(*after));
    if (parts.size() > 1) x = e.b.concat(parts, axis);
  }
  return {x};
}

}  // namespace

std::span<const DecompositionEntry> movement_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {Tile, tile}, {Slice, slice}, {Reverse, reverse}, {Trilu, trilu}, {OneHot, one_hot}, {Pad, pad},
  };
  return kTable;
}

}  // namespace rlxc::legalise
