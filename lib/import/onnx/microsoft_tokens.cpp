// Operators of com.microsoft on tokens, hashes and windows: https://github.com/microsoft/onnxruntime docs/ContribOperators.md
#include <array>
#include <limits>

#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// The sum of a bool along an axis, as i64.
ValueId count_of(Op& op, ValueId m, int64_t axis) { return op.b.reduce(ReduceOp::Sum, op.b.cast(m, DType::I64), {axis}, false); }

// Element i of an axis, in range or not, as columns of `x` clamped to its last element.
ValueId clamped_gather(Op& op, ValueId x, ValueId at, Dim size, int64_t axis) {
  const ValueId last = op.b.sub(size_of(op, size), integer(op, 1));
  const ValueId index = compute(op, OpKind::Max, compute(op, OpKind::Min, at, last), integer(op, 0));
  return op.b.create(OpKind::Gather, {x, index}, AxisAttrs{axis});
}

}  // namespace

// Operands: ids [B,L], scores [B,V]. A token that would end an n-gram of the ids gets the score -inf.
void ngram_repeat_block(Op& op) {
  const int64_t n = op.i("ngram_size", 0);
  if (n < 1 || n > 1 << 16) return (void)op.fail(Code::BadAttribute, "ngram_size must be >= 1");
  if (op.rank(0) != 2 || op.rank(1) != 2) return (void)op.fail(Code::BadShape, "needs ids [B,L] and scores [B,V]");
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const Dim length = op.sizes(0)[1];
  const Dim starts = dims.max(dims.sub(length, Dim(n - 1)), Dim(0));
  if (starts == Dim(0)) return op.set_ref(0, op.ref(1));
  const ValueId ids = b.cast(op.in(0), DType::I64), at = positions(op, starts);
  ValueId banned;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const ValueId here = b.create(OpKind::Gather, {ids, b.add(at, integer(op, k))}, AxisAttrs{1});
    const ValueId tail =
        clamped_gather(op, ids, b.reshape(b.add(size_of(op, length), integer(op, k + 1 - n)), {Dim(1)}), length, 1);
    const ValueId same = compute(op, OpKind::Eq, here, tail);
    banned = banned.valid() ? compute(op, OpKind::And, banned, same) : same;
  }
  const ValueId token = b.create(OpKind::Gather, {ids, b.add(at, integer(op, n - 1))}, AxisAttrs{1});
  const DType t = op.dtype(1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ValueId update = b.expand(b.scalar(t, -kInfinity), {op.sizes(0)[0], starts});
  if (banned.valid()) update = select(op, banned, update, b.scalar(t, kInfinity));
  op.set(0, b.create(OpKind::ScatterElements, {op.in(1), token, update}, ScatterAttrs{1, Reduction::Min}));
}

// Operands: source [L], tokens [T], where the last match ended [1], predicted tokens [L+1-match]. Results: the tokens, followed
// by the predicted ones up to the first that differs from the source; the end of the only match of their last n-gram in the
// source.
void bifurcation_detector(Op& op) {
  const int64_t least = op.i("min_ngram_size", 0), most = op.i("max_ngram_size", 0);
  if (least < 1 || most < least || most > 256) return (void)op.fail(Code::BadAttribute, "the sizes of n-grams are out of range");
  if (op.rank(0) != 1 || op.rank(1) != 1 || (op.has(3) && op.rank(3) != 1))
    return (void)op.fail(Code::BadShape, "tokens need one axis");
  Builder& b = op.b;
  const Dim size = op.sizes(0)[0];
  const ValueId source = op.in(0), length = size_of(op, size), one = integer(op, 1), none = integer(op, -1);
  ValueId tokens = op.in(1), count = size_of(op, op.sizes(1)[0]);
  if (op.has(3)) {
    const ValueId from = b.reshape(op.in(2), {}), guess = op.in(3);
    const ValueId at = positions(op, op.sizes(3)[0]);
    const ValueId same = compute(op, OpKind::Eq, guess, clamped_gather(op, source, b.add(at, from), size, 0));
    const ValueId inside = compute(op, OpKind::Lt, b.add(at, from), length);
    const ValueId run = b.create(OpKind::Cumprod, {b.cast(compute(op, OpKind::And, same, inside), DType::I64)}, CumAttrs{0});
    const ValueId taken = b.add(b.reduce(ReduceOp::Sum, run, {0}, false), one);
    tokens = b.concat(std::array{tokens, first_part(op, guess, 0, taken)}, 0);
    count = b.add(count, taken);
  }
  if (!tokens.valid()) return;
  const Dim all = op.graph().dims(tokens)[0];
  const ValueId at = positions(op, size);
  ValueId found = none, going = b.scalar(DType::Bool, 1);
  for (int64_t n = least; n <= most; ++n) {
    ValueId match = compute(op, OpKind::Le, b.add(at, integer(op, n)), length);
    for (int64_t k = 0; k < n; ++k) {
      const ValueId last = clamped_gather(op, tokens, b.add(count, integer(op, k - n)), all, 0);
      match = compute(op, OpKind::And, match,
                      compute(op, OpKind::Eq, clamped_gather(op, source, b.add(at, integer(op, k)), size, 0), last));
    }
    const ValueId matches = count_of(op, match, 0);
    const ValueId end = b.add(b.reduce(ReduceOp::Min, select(op, match, at, length), {0}, false), integer(op, n));
    going = compute(op, OpKind::And, going, compute(op, OpKind::Ge, count, integer(op, n)));
    going = compute(op, OpKind::And, going, compute(op, OpKind::Ge, matches, one));
    const ValueId at_end = compute(op, OpKind::Ge, end, length), many = compute(op, OpKind::Gt, matches, one);
    found = select(op, going, select(op, b.unary(OpKind::Not, at_end), select(op, many, none, end), end), found);
    going = compute(op, OpKind::And, going, b.unary(OpKind::Not, at_end));
  }
  op.set(0, tokens);
  op.set(1, b.reshape(found, op.sizes(2)));
}

// MurmurHash3 of the bytes of each number, in 32-bit words.
void murmur_hash(Op& op) {
  Builder& b = op.b;
  const int64_t seed = op.i("seed", 0);
  const DType out = op.i("positive", 1) != 0 ? DType::U32 : DType::I32;
  const int bytes = bits(op.dtype(0)) / 8;
  if (bytes != 4 && bytes != 8) return (void)op.unsupported("needs numbers of 32 or 64 bits: " + op.show(0));
  const auto word = [&](uint32_t v) { return b.scalar(DType::U32, v); };
  const auto binary = [&](OpKind kind, ValueId x, ValueId y) { return b.create(kind, {x, y}); };
  const auto rotated = [&](ValueId x, uint32_t by) {
    return binary(OpKind::BitOr, binary(OpKind::Shl, x, word(by)), binary(OpKind::Shr, x, word(32 - by)));
  };
  const auto mixed = [&](ValueId x, uint32_t shift) { return binary(OpKind::BitXor, x, binary(OpKind::Shr, x, word(shift))); };
  std::vector<ValueId> words;
  if (bytes == 4) {
    words.push_back(b.create(OpKind::BitCast, {op.in(0)}, CastAttrs{DType::U32}));
  } else {
    const ValueId x = b.create(OpKind::BitCast, {op.in(0)}, CastAttrs{DType::U64});
    words.push_back(b.cast(binary(OpKind::BitAnd, x, b.scalar(DType::U64, 4294967295.0)), DType::U32));
    words.push_back(b.cast(binary(OpKind::Shr, x, b.scalar(DType::U64, 32)), DType::U32));
  }
  ValueId h = word(static_cast<uint32_t>(seed));
  for (const ValueId w : words) {
    const ValueId k = b.mul(rotated(b.mul(w, word(0xcc9e2d51)), 15), word(0x1b873593));
    h = b.add(b.mul(rotated(binary(OpKind::BitXor, h, k), 13), word(5)), word(0xe6546b64));
  }
  h = binary(OpKind::BitXor, h, word(static_cast<uint32_t>(bytes)));
  h = b.mul(mixed(h, 16), word(0x85ebca6b));
  h = b.mul(mixed(h, 13), word(0xc2b2ae35));
  op.set(0, b.create(OpKind::BitCast, {mixed(h, 16)}, CastAttrs{out}));
}

// Results: the distinct elements in the order of their first occurrence, the place of each element among them, their counts.
void ms_unique(Op& op) {
  if (op.rank(0) != 1) return (void)op.fail(Code::BadShape, "needs a vector: " + op.show(0));
  const NodeId n = op.b.create_node(OpKind::Unique, std::array{op.in(0)}, UniqueAttrs{0, true, false});
  constexpr std::array<size_t, 3> kResults{0, 2, 3};
  for (size_t i = 0; n.valid() && i < kResults.size(); ++i) op.set(i, op.graph().result(n, kResults[i]));
}

// All slices of `size` elements of an axis, `step` apart; the elements of a slice become the last axis.
void unfold_tensor(Op& op) {
  const auto axis = op.axis(op.i("dim", -1), op.rank(0));
  const int64_t size = op.i("size", 0), step = op.i("step", 1);
  if (!axis) return;
  if (size < 1 || step < 1) return (void)op.fail(Code::BadAttribute, "size and step must be >= 1");
  DimTable& dims = op.dims();
  const Dim slices = dims.add(dims.floor_div(dims.sub(op.sizes(0)[static_cast<size_t>(*axis)], Dim(size)), Dim(step)), Dim(1));
  const ValueId first = op.b.reshape(op.b.mul(positions(op, slices), integer(op, step)), {slices, Dim(1)});
  const ValueId y = op.b.create(OpKind::Gather, {op.in(0), op.b.add(first, positions(op, Dim(size)))}, AxisAttrs{*axis});
  std::vector<int64_t> perm;
  for (int64_t i = 0; i <= op.rank(0); ++i)
    if (i != *axis + 1) perm.push_back(i);
  perm.push_back(*axis + 1);
  op.set(0, op.b.transpose(y, std::move(perm)));
}

// Operands: characters [S,W] (0: none), filters [F,1,K,E], bias [F], character embeddings [C,E]. Each word becomes the largest
// tanh of its convolution; a word without characters is 0.
void word_conv_embedding(Op& op) {
  for (const char* name : {"embedding_size", "conv_window_size", "char_embedding_size"}) op.i(name, -1);  // the shapes say these
  if (op.rank(0) != 2 || op.rank(1) != 4 || op.rank(3) != 2)
    return (void)op.fail(Code::BadShape, "needs words [S,W], filters [F,1,K,E] and embeddings [C,E]");
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const Dim words = op.sizes(0)[0], width = op.sizes(0)[1], filters = op.sizes(1)[0], window = op.sizes(1)[2];
  const auto k = dims.constant_value(window);
  if (!k || *k < 1) return (void)op.unsupported("the size of the filters must be known");
  const ValueId used = compute(op, OpKind::Gt, op.in(0), b.scalar(op.dtype(0), 0));
  const ValueId starts = b.reshape(b.narrow(used, 1, Dim(0), Dim(1)), {words});
  const ValueId length = select(op, starts, count_of(op, used, 1), integer(op, 0));
  const ValueId looked = b.reshape(compute(op, OpKind::Max, length, integer(op, *k)), {words, Dim(1)});
  const auto ahead = [&](ValueId limit, Dim n) {
    return b.reshape(b.cast(compute(op, OpKind::Lt, positions(op, n), limit), op.dtype(1)), {words, n, Dim(1)});
  };
  const ValueId x = b.mul(b.create(OpKind::Gather, {op.in(3), op.in(0)}, AxisAttrs{0}), ahead(looked, width));
  const Dim places = dims.sub(width, Dim(*k - 1));
  ConvAttrs a{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 1};
  const ValueId conv = b.create(OpKind::Conv, {b.reshape(x, {words, Dim(1), width, op.sizes(3)[1]}), op.in(1), op.in(2)}, a);
  const ValueId y = b.transpose(b.reshape(b.unary(OpKind::Tanh, conv), {words, filters, places}), {0, 2, 1});
  const ValueId seen = compute(op, OpKind::Lt, positions(op, places), b.sub(looked, integer(op, *k - 1)));
  const ValueId kept = select(op, b.reshape(seen, {words, places, Dim(1)}), y, b.scalar(op.dtype(1), -1e12));
  const ValueId best = b.reduce(ReduceOp::Max, kept, {1}, false);
  const ValueId empty = b.reshape(compute(op, OpKind::Eq, length, integer(op, 0)), {words, Dim(1)});
  op.set(0, select(op, empty, b.scalar(op.dtype(1), 0), best));
}

// Operands: images [N,C,H,W], boxes [R,4] as y1, x1, y2, x2 in [0,1], the image of each box [R], the size of the crops [2].
void crop_and_resize(Op& op) {
  const std::string_view mode = op.s("mode", "bilinear");
  const double outside_value = op.f("extrapolation_value", 0);
  const auto crop = op.need_ints(3, "crop size");
  if (!crop) return;
  if (mode != "bilinear" && mode != "nearest") return (void)op.fail(Code::BadAttribute, "mode must be bilinear or nearest");
  if (op.rank(0) != 4 || op.rank(1) != 2 || crop->size() != 2 || (*crop)[0] < 1 || (*crop)[1] < 1)
    return (void)op.fail(Code::BadShape, "needs images [N,C,H,W], boxes [R,4] and a crop size of two numbers >= 1");
  Builder& b = op.b;
  const DType t = op.dtype(1);
  const Dim boxes = op.sizes(1)[0], h((*crop)[0]), w((*crop)[1]);
  const auto real = [&](double v) { return b.scalar(t, v); };
  struct Axis {
    ValueId at, last;  // positions in pixels [R,n]; the last pixel
  };
  const auto along = [&](size_t axis, Dim n) {
    const auto bound = [&](int64_t i) { return b.narrow(op.in(1), 1, Dim(i), Dim(1)); };
    const ValueId start = bound(static_cast<int64_t>(axis)), end = bound(static_cast<int64_t>(axis) + 2);
    const ValueId last = b.cast(b.sub(size_of(op, op.sizes(0)[axis + 2]), integer(op, 1)), t);
    if (n == Dim(1)) return Axis{b.mul(b.mul(b.add(start, end), real(0.5)), last), last};
    const ValueId i = positions(op, n), steps = real(static_cast<double>(n.size() - 1));
    const ValueId step = b.div(b.mul(b.sub(end, start), last), steps);
    const ValueId at = b.add(b.mul(start, last), b.mul(b.cast(i, t), step));
    return Axis{select(op, compute(op, OpKind::Eq, i, integer(op, n.size() - 1)), b.mul(end, last), at), last};
  };
  const Axis y = along(0, h), x = along(1, w);
  const auto beyond = [&](const Axis& a) {
    return compute(op, OpKind::Or, compute(op, OpKind::Lt, a.at, real(0)), compute(op, OpKind::Gt, a.at, a.last));
  };
  const auto pixel = [&](ValueId at, const Axis& a, std::vector<Dim> shape) {
    const ValueId inside = compute(op, OpKind::Max, compute(op, OpKind::Min, at, a.last), real(0));
    return b.expand(b.reshape(b.cast(inside, DType::I64), std::move(shape)), {boxes, h, w, Dim(1)});
  };
  const ValueId image = b.transpose(op.in(0), {0, 2, 3, 1});
  const ValueId batch = b.expand(b.reshape(b.cast(op.in(2), DType::I64), {boxes, Dim(1), Dim(1), Dim(1)}), {boxes, h, w, Dim(1)});
  const auto sample = [&](ValueId py, ValueId px) {
    const ValueId rows = pixel(py, y, {boxes, h, Dim(1), Dim(1)}), columns = pixel(px, x, {boxes, Dim(1), w, Dim(1)});
    return b.create(OpKind::GatherNd, {image, b.concat(std::array{batch, rows, columns}, 3)}, BatchDimsAttrs{0});
  };
  ValueId out;
  if (mode == "nearest") {
    const auto rounded = [&](const Axis& a) { return b.unary(OpKind::Floor, b.add(a.at, real(0.5))); };
    out = sample(rounded(y), rounded(x));
  } else {
    const ValueId top = b.unary(OpKind::Floor, y.at), left = b.unary(OpKind::Floor, x.at);
    const ValueId bottom = b.unary(OpKind::Ceil, y.at), right = b.unary(OpKind::Ceil, x.at);
    const ValueId dy = b.cast(b.reshape(b.sub(y.at, top), {boxes, h, Dim(1), Dim(1)}), op.dtype(0)),
                  dx = b.cast(b.reshape(b.sub(x.at, left), {boxes, Dim(1), w, Dim(1)}), op.dtype(0));
    const auto between = [&](ValueId p, ValueId q, ValueId share) { return b.add(p, b.mul(b.sub(q, p), share)); };
    out =
        between(between(sample(top, left), sample(top, right), dx), between(sample(bottom, left), sample(bottom, right), dx), dy);
  }
  const ValueId hidden =
      compute(op, OpKind::Or, b.reshape(beyond(y), {boxes, h, Dim(1)}), b.reshape(beyond(x), {boxes, Dim(1), w}));
  const ValueId masked = select(op, b.reshape(hidden, {boxes, h, w, Dim(1)}), b.scalar(op.dtype(0), outside_value), out);
  op.set(0, b.transpose(masked, {0, 3, 1, 2}));
}

// Whether all elements of all operands are finite; or whether none is infinite, or NaN.
void is_all_finite(Op& op) {
  const bool infinite = op.i("isinf_only", 0) != 0, nan = op.i("isnan_only", 0) != 0;
  if (infinite && nan) return (void)op.fail(Code::BadAttribute, "isinf_only and isnan_only exclude each other");
  ValueId bad;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i)) continue;
    const ValueId x = op.b.reshape(op.in(i), {op.dims().product(op.sizes(i))});
    const auto note = [&](ValueId m) {
      const ValueId some = op.b.reduce(ReduceOp::Max, op.b.cast(m, DType::U8), {0}, false);
      bad = bad.valid() ? compute(op, OpKind::Max, bad, some) : some;
    };
    if (!nan) note(op.b.create(OpKind::IsInf, {x}, AlphaBetaAttrs{1, 1}));
    if (!infinite) note(op.b.unary(OpKind::IsNan, x));
  }
  if (bad.valid()) op.set(0, compute(op, OpKind::Eq, bad, op.b.scalar(DType::U8, 0)));
}

}  // namespace rlxc::onnx_import
