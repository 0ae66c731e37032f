// Matrix products of com.microsoft with weights of 2 to 8 bits.
#include <array>
#include <span>

#include "import/compose/packed.h"
#include "import/onnx/attention.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr size_t kAbsentInput = SIZE_MAX;

ValueId with_bias(Op& op, ValueId y, size_t bias) { return op.has(bias) && y.valid() ? op.b.add(y, op.in(bias)) : y; }

// A weight [n,k] of blocks along k, and its input numbers.
struct BitWeight {
  int64_t n, k;
  size_t quantized, scale, zero, group, bias;
};

// Reinterprets byte rows as [n, k] of `width` bits. Returns an invalid value if the contents are not constant, or not as many.
ValueId quantized_values(Op& op, const BitWeight& w, int64_t width) {
  if (width == 8) return op.b.reshape(op.in(w.quantized), {Dim(w.n), Dim(w.k)});
  const TensorData* given = op.tensor(w.quantized);
  if (!given || given->splat || given->elements() != w.n * (w.k * width / 8)) return {};
  TensorData d = *given;
  d.dtype = width == 4 ? DType::U4 : DType::U2;
  d.dims = {w.n, w.k};
  return op.b.constant(std::move(d));
}

// x [...,K] times the weight: u8 [N, blocks, block*bits/8], scales [N*blocks], zero points (packed the same way, or numbers;
// default: the middle of the range), the block of each of the K inputs, bias.
ValueId product_of_bits(Op& op, ValueId x, const BitWeight& w) {
  const int64_t width = op.i("bits", 4), block = op.i("block_size", 0), k = w.k, n = w.n;
  // The lowest precision allowed for x; 4 allows 8 bits. x is not rounded where the weight is dequantized.
  const int64_t level = op.i("accuracy_level", 0);
  const auto refuse = [&](bool out_of_range, std::string message) {
    if (out_of_range) op.fail(Code::BadAttribute, std::move(message));
    else op.unsupported(std::move(message));
    return ValueId();
  };
  if (level < 0 || level > 4) return refuse(true, "accuracy_level must be between 0 and 4");
  if (width != 2 && width != 4 && width != 8) return refuse(false, "bits must be 2, 4 or 8");
  if (op.i("weight_prepacked", 0) != 0) return refuse(false, "a weight packed for one GPU");
  if (k < 1 || n < 1 || block < 16 || k > 1 << 28 || n > 1 << 28 || block > 1 << 20 || op.dtype(w.quantized) != DType::U8)
    return refuse(true, "K, N or block_size are out of range");
  const int64_t blocks = (k + block - 1) / block, fields = 8 / width;
  Builder& b = op.b;
  const DType t = op.dtype(0);
  // Rows of packed bytes -> [N, count] bytes.
  const auto bytes = [&](size_t i, int64_t count) {
    const int64_t packed = (count + fields - 1) / fields;
    const ValueId all = compose::unpack_bits(b, b.reshape(op.in(i), {Dim(n), Dim(packed)}), static_cast<int>(width));
    return packed * fields == count ? all : b.narrow(all, 1, Dim(0), Dim(count));
  };
  const auto unpacked = [&](size_t i, int64_t count) { return b.cast(bytes(i, count), t); };
  const Dim rows(n), columns(blocks);
  const bool grouped = op.has(w.group), zeros = op.has(w.zero);
  BitWeight whole = w;
  whole.k = blocks * block;
  if (const ValueId q = grouped ? ValueId() : quantized_values(op, whole, width); q.valid()) {
    ValueId point = b.constant(make_data(DType::U8, {1, 1}, std::vector<uint8_t>{static_cast<uint8_t>(1 << (width - 1))}));
    if (zeros)
      point = op.dtype(w.zero) == DType::U8 ? bytes(w.zero, blocks)
                                            : b.reshape(b.cast(op.in(w.zero), op.dtype(w.scale)), {rows, columns});
    const bool rounds =
        level == 4 && (!zeros || op.dtype(w.zero) == DType::U8);  // as onnxruntime: not with zero points of floats
    if (whole.k != k && x.valid()) {                              // zeros for the rest of the last block
      PadAttrs p;
      p.before.assign(static_cast<size_t>(op.graph().rank(x)), Dim(0));
      p.after = p.before;
      p.after.back() = Dim(whole.k - k);
      x = b.create(OpKind::Pad, {x}, std::move(p));
    }
    const ValueId y = b.create(OpKind::DequantMatMul, {x, q, b.reshape(op.in(w.scale), {rows, columns}), point},
                               DequantMatMulAttrs{.trans_b = true, .block = block, .act = {}, .int8_x = rounds});
    return with_bias(op, y, w.bias);
  }
  ValueId q = b.reshape(unpacked(w.quantized, blocks * block), {rows, columns, Dim(block)});
  ValueId scale = b.reshape(b.cast(op.in(w.scale), t), {rows, columns, Dim(1)}),
          zero = b.scalar(t, static_cast<double>(1 << (width - 1)));
  if (zeros)
    zero =
        b.reshape(op.dtype(w.zero) == DType::U8 ? unpacked(w.zero, blocks) : b.cast(op.in(w.zero), t), {rows, columns, Dim(1)});
  if (grouped) {
    const ValueId at = b.narrow(b.cast(op.in(w.group), DType::I64), 0, Dim(0), Dim(k));
    const auto of_input = [&](ValueId v) { return b.create(OpKind::Gather, {b.reshape(v, {rows, columns}), at}, AxisAttrs{1}); };
    q = b.narrow(b.reshape(q, {rows, Dim(blocks * block)}), 1, Dim(0), Dim(k));
    scale = of_input(scale);
    if (zeros) zero = of_input(zero);
  }
  ValueId v = b.mul(b.sub(q, zero), scale);
  if (!grouped) {
    v = b.reshape(v, {rows, Dim(blocks * block)});
    if (blocks * block != k) v = b.narrow(v, 1, Dim(0), Dim(k));
  }
  return with_bias(op, b.matmul(x, v, false, true), w.bias);
}

// Input 0 (plus input 1), with an RMS norm by input 2; sets output `sum` to the sum. The inputs may be absent.
ValueId normed_input(Op& op, size_t sum) {
  const double eps = op.f("epsilon", 1e-5);
  const ValueId x = op.has(1) ? op.b.add(op.in(0), op.in(1)) : op.in(0);
  op.set(sum, x);
  if (!op.has(2)) return x;
  return op.b.create(OpKind::RmsNorm, {x, op.in(2)}, NormAttrs{op.rank(0) - 1, eps});
}

// x [..., K] times w [N, K], in f32 where the weight is decoded.
ValueId product_of_decoded(Op& op, ValueId w, size_t bias) {
  return with_bias(op, op.b.matmul(op.in(0), op.b.cast(w, op.dtype(0)), false, true), bias);
}

// One scale for each block of a row: v [N, blocks*block] times scale [N, blocks], cut to K columns.
ValueId scaled_blocks(Op& op, ValueId v, ValueId scale, Dim columns, int64_t block) {
  Builder& b = op.b;
  const Dim rows = op.graph().dims(v)[0], blocks = op.graph().dims(scale)[1];
  const Dim whole = op.dims().mul(blocks, Dim(block));
  if (!op.dims().equal(whole, columns)) {
    PadAttrs p;
    p.before = {Dim(0), Dim(0)};
    p.after = {Dim(0), op.dims().sub(whole, columns)};
    v = b.create(OpKind::Pad, {v}, std::move(p));
  }
  const ValueId y = b.mul(b.reshape(v, {rows, blocks, Dim(block)}), b.reshape(scale, {rows, blocks, Dim(1)}));
  return b.narrow(b.reshape(y, {rows, whole}), 1, Dim(0), columns);
}

}  // namespace

void matmul_n_bits(Op& op) { op.set(0, product_of_bits(op, op.in(0), {op.i("N", 0), op.i("K", 0), 1, 2, 3, 4, 5})); }

// Operands: x, a value to add, the scale of an RMS norm, then weight, scales and bias of the gate and of what it scales.
void matmul_n_bits_mlp(Op& op) {
  const int64_t n = op.i("N", 0), k = op.i("K", 0);
  const std::string_view name = op.s("activation", "");
  if (name != "silu") return (void)op.unsupported("activation " + quote(name));
  const ValueId x = normed_input(op, 1);
  const ValueId gate = product_of_bits(op, x, {n, k, 3, 4, kAbsentInput, kAbsentInput, 5});
  const ValueId up = product_of_bits(op, x, {n, k, 6, 7, kAbsentInput, kAbsentInput, 8});
  if (gate.valid() && up.valid()) op.set(0, op.b.mul(op.b.unary(OpKind::Silu, gate), up));
}

// Operands: x, a value to add, the scale of an RMS norm, then weight, scales and bias of q, k and v.
void matmul_n_bits_qkv(Op& op) {
  const int64_t k = op.i("K", 0), q = op.i("Nq", 0), kv = op.i("Nkv", 0);
  const ValueId x = normed_input(op, 3);
  for (size_t i = 0; i < 3; ++i)
    op.set(i, product_of_bits(op, x, {i == 0 ? q : kv, k, 3 + 3 * i, 4 + 3 * i, kAbsentInput, kAbsentInput, 5 + 3 * i}));
}

// Operands: x, codes of 4 bits (high bits first) of the flat weight [N,K], one scale for each block of it.
void matmul_bnb4(Op& op) {
  static constexpr std::array<float, 16> kFp4 = {
      0,     5.208333333e-03F,  0.66666667F,  1,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
      -0.0F, -5.208333333e-03F, -0.66666667F, -1, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
  static constexpr std::array<float, 16> kNf4 = {-1.0F,
                                                 -0.6961928009986877F,
                                                 -0.5250730514526367F,
                                                 -0.39491748809814453F,
                                                 -0.28444138169288635F,
                                                 -0.18477343022823334F,
                                                 -0.09105003625154495F,
                                                 0,
                                                 0.07958029955625534F,
                                                 0.16093020141124725F,
                                                 0.24611230194568634F,
                                                 0.33791524171829224F,
                                                 0.44070982933044434F,
                                                 0.5626170039176941F,
                                                 0.7229568362236023F,
                                                 1};
  const int64_t n = op.i("N", 0), k = op.i("K", 0), block = op.i("block_size", 0), type = op.i("quant_type", -1);
  op.i("training_mode", 0);  // says whether a gradient follows
  if (n < 1 || k < 1 || n > 1 << 24 || k > 1 << 24 || block < 16 || block > 1 << 20 || (type != 0 && type != 1))
    return (void)op.fail(Code::BadAttribute, "N, K, block_size or quant_type are out of range");
  Builder& b = op.b;
  const int64_t count = n * k, blocks = (count + block - 1) / block;
  if (op.dtype(1) != DType::U8) return (void)op.fail(Code::BadType, "the weight must be bytes: " + op.show(1));
  const int64_t packed = (count + 1) / 2;
  const ValueId codes = compose::spread_bits(b, b.reshape(op.in(1), {Dim(packed)}), Dim(1), {4, 0}, 15);
  ValueId v = compose::look_up(b, type == 0 ? std::span<const float>(kFp4) : std::span<const float>(kNf4), codes);
  PadAttrs p;
  p.before = {Dim(0)};
  p.after = {Dim(blocks * block - 2 * packed)};
  v = b.reshape(b.create(OpKind::Pad, {v}, std::move(p)), {Dim(blocks), Dim(block)});
  const ValueId scale = b.reshape(b.cast(op.in(2), DType::F32), {Dim(blocks), Dim(1)});
  const ValueId flat = b.narrow(b.reshape(b.mul(v, scale), {Dim(blocks * block)}), 0, Dim(0), Dim(count));
  const ValueId w = b.cast(b.reshape(flat, {Dim(n), Dim(k)}), op.dtype(0));
  op.set(0, b.matmul(op.in(0), w, false, op.i("transB", 1) != 0));
}

// Operands: x [...,K], the columns of the weight in blocks of 4-bit codes, the shape [K,N] of the weight. A block has its scale,
// a zero point for blk_quant_type 1, and runs of 16 bytes: the low halves of a run are elements 0 to 15, the high ones 16 to 31.
void matmul_fp_q4(Op& op) {
  const int64_t type = op.i("blk_quant_type", 1);
  const auto shape = op.need_ints(2, "shape of the weight");
  if (!shape) return;
  if (type < 0 || type > 2) return (void)op.unsupported("blk_quant_type must be 0, 1 or 2");
  const int64_t block = type == 2 ? 64 : 32, head = type == 1 ? 5 : 4, bytes = head + block / 2;
  if (shape->size() != 2 || (*shape)[0] < 1 || (*shape)[1] < 1 || (*shape)[0] > 1 << 24 || (*shape)[1] > 1 << 24)
    return (void)op.fail(Code::BadShape, "the shape of the weight must be two numbers >= 1");
  const int64_t k = (*shape)[0], n = (*shape)[1], blocks = (k + block - 1) / block;
  if (op.dtype(1) != DType::U8) return (void)op.fail(Code::BadType, "the weight must be bytes: " + op.show(1));
  Builder& b = op.b;
  const Dim all(n * blocks);
  const ValueId data = b.reshape(op.in(1), {all, Dim(bytes)});
  const auto part = [&](int64_t from, int64_t size) { return b.narrow(data, 1, Dim(from), Dim(size)); };
  const ValueId codes = compose::spread_bits(b, part(head, block / 2), Dim(16), {0, 4}, 15);
  const ValueId zero = type == 1 ? b.cast(part(4, 1), DType::F32) : b.scalar(DType::F32, 8);
  const ValueId v = b.mul(b.sub(b.cast(codes, DType::F32), zero), compose::read_bytes(b, part(0, 4), DType::F32));
  const ValueId rows = b.reshape(v, {Dim(n), Dim(blocks * block)});
  op.set(0, product_of_decoded(op, b.narrow(rows, 1, Dim(0), Dim(k)), kAbsentInput));
}

// Operands: x, E2M1 codes [N,K/2] (low half first), E4M3 bytes of the scales [N,blocks], a scale of all, scale of x (unused),
// bias.
void matmul_fp4_blocks(Op& op) {
  const int64_t block = op.i("block_size", 16);
  if (op.rank(1) != 2 || op.rank(2) != 2 || block < 1 || block > 1 << 20 || op.dtype(1) != DType::U8 || op.dtype(2) != DType::U8)
    return (void)op.fail(Code::BadShape, "needs bytes [N,K/2] and their scales [N,blocks]");
  Builder& b = op.b;
  const ValueId codes = compose::unpack_bits(b, op.in(1), 4);
  static constexpr std::array<float, 16> kE2M1 = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  const ValueId scale = b.cast(b.create(OpKind::BitCast, {op.in(2)}, CastAttrs{DType::F8E4M3FN}), DType::F32);
  const ValueId v = scaled_blocks(op, compose::look_up(b, kE2M1, codes), scale, op.dims().mul(op.sizes(1)[1], Dim(2)), block);
  op.set(0, product_of_decoded(op, b.mul(v, b.reshape(op.in(3), {})), 5));
}

// Operands: x, E4M3 numbers [N,K], scales [N,blocks], a scale by which x is rounded to E4M3, bias.
void matmul_fp8_blocks(Op& op) {
  const int64_t block = op.i("block_size", 128);
  if (op.rank(1) != 2 || op.rank(2) != 2 || block < 1 || block > 1 << 20)
    return (void)op.fail(Code::BadShape, "needs a weight [N,K] and scales [N,blocks]");
  Builder& b = op.b;
  const ValueId w = scaled_blocks(op, b.cast(op.in(1), DType::F32), op.in(2), op.sizes(1)[1], block);
  if (!op.has(3)) return op.set(0, product_of_decoded(op, w, 4));
  const ValueId scale = b.reshape(op.in(3), {});
  const ValueId rounded = b.cast(b.cast(b.div(b.cast(op.in(0), DType::F32), scale), DType::F8E4M3FN), DType::F32);
  const ValueId x = b.cast(b.mul(rounded, scale), op.dtype(0));
  op.set(0, with_bias(op, b.matmul(x, b.cast(w, op.dtype(0)), false, true), 4));
}

// Operands: a, b (floats of 8 to 32 bits), c, scales of a and b.
void gemm_float8(Op& op) {
  if (op.has(5)) return (void)op.unsupported("a scale of the result");
  const auto to = dtype_from_onnx(static_cast<int>(op.i("dtype", 1)));
  if (!to || !is_float(*to) || bits(*to) < 16) return (void)op.unsupported("a result of 8 bits");
  Builder& b = op.b;
  const auto operand = [&](size_t i) {
    const ValueId x = b.cast(op.in(i), DType::F32);
    return op.has(i + 3) ? b.mul(x, b.reshape(op.in(i + 3), {})) : x;
  };
  ValueId y = b.matmul(operand(0), operand(1), op.i("transA", 0) != 0, op.i("transB", 0) != 0);
  const auto times = [&](ValueId x, double factor) { return factor == 1 ? x : b.mul(x, b.scalar(DType::F32, factor)); };
  y = times(y, op.f("alpha", 1));
  if (const double beta = op.f("beta", 0); op.has(2) && beta != 0) y = b.add(y, times(b.cast(op.in(2), DType::F32), beta));
  const std::string_view name = op.s("activation", "NONE");
  if (name == "RELU") y = b.unary(OpKind::Relu, y);
  else if (name != "NONE") return (void)op.unsupported("activation " + quote(name));
  op.set(0, b.cast(y, *to));
}

// Operands of 16 bits, exact products: u32 if both are unsigned, else i32.
void matmul_integer16(Op& op) {
  const DType t = op.dtype(0) == DType::U16 && op.dtype(1) == DType::U16 ? DType::U32 : DType::I32;
  op.set(0, op.b.matmul(op.b.cast(op.in(0), t), op.b.cast(op.in(1), t)));
}

}  // namespace rlxc::onnx_import
