#include "kernel/builders/gemm_codes.h"

#include <algorithm>

namespace rlxc::kernel {
namespace {

constexpr int32_t kBitsOf2To23 = 0x4b000000;  // of an f32, whose last bit counts as 1
constexpr int64_t k2To23 = 1 << 23;
constexpr int64_t kWordBytes = 4;

}  // namespace

CodeRuns::CodeRuns(GemmOperands& o, const Mapping& m, int64_t most, int64_t width) : o_(o), b_(o.b) {
  const GemmSpec& s = o.spec;
  if (!s.quantized || s.packed || s.b_at || s.b_row || s.accumulate != DType::F32) return;
  const int64_t bits = s.quantized->bits, block = s.quantized->block;
  if (bits > 8 || 8 % bits != 0) return;
  size_ = contiguous_lanes(s.b, s.b.strides.size() - 2, o.k, std::min<int64_t>(most, m.load_lanes(1) * 8 / bits));
  while (size_ > 1 && block % size_ != 0) size_ /= 2;
  bytes_ = size_ * bits / 8;
  if (bytes_ < kWordBytes) size_ = 1;
  width_ = std::min({width, size_, int64_t{m.max_vector_lanes}, 32 / bits});
}

Expr CodeRuns::codes(Expr k, Expr column, Expr condition) const {
  const int lanes = static_cast<int>(bytes_);
  const Expr none = broadcast(constant_int(b_.kernel(), o_.from_b.type().dtype, 0), lanes);
  return o_.from_b.load_if(condition, o_.where_b(k, column) / (8 / o_.spec.quantized->bits), none, lanes);
}

CodeRuns::Parameters CodeRuns::parameters(Expr k, Expr column, Expr condition) const {
  const Expr scale = o_.spec.quantized->scale ? o_.scale_of_b(k, column, condition) : b_.f32(1);
  return {scale, o_.zero_point_of_b(k, column, DType::F32, condition)};
}

// The float of an integer below 2^23 is made of its bits, which takes less time than a conversion.
void CodeRuns::each(Expr run, Expr zero, const std::function<void(int64_t first, Expr values)>& body) const {
  const Quantized& q = *o_.spec.quantized;
  const int lanes = static_cast<int>(width_);
  const auto all = [&](Expr v) { return broadcast(v, lanes); };
  const auto number = [&](int32_t v) { return constant_int(b_.kernel(), DType::I32, v); };
  const bool by_bits = q.is_integer && (!q.zero || q.zero_quantized);  // then the zero point is an integer, too
  const Expr words = b_.let("words", bitcast_to(run, Type(DType::I32, static_cast<int>(bytes_ / kWordBytes))));
  if (by_bits) zero = b_.let("zero", zero + static_cast<double>(k2To23 + q.sign));
  for (int64_t first = 0; first < size_; first += width_) {
    const Expr shifts = ramp(number(static_cast<int32_t>(first * q.bits % 32)), q.bits, lanes);
    const Expr word = bytes_ == kWordBytes ? words : rlxc::kernel::lane(words, static_cast<int>(first * q.bits / 32));
    const Expr code = b_.let("code", all(word) >> shifts & all(number((1 << q.bits) - 1)));
    const Expr positive = q.sign ? code ^ all(number(q.sign)) : code;
    Expr v;
    if (by_bits) v = bitcast_to(positive | all(number(kBitsOf2To23)), Type(DType::F32, lanes));
    else v = cast_to(q.is_integer ? positive - q.sign : q.value(code), DType::F32);
    body(first, v - all(zero));
  }
}

}  // namespace rlxc::kernel
