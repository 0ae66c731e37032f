#include "support/random_blocks.h"

#include <cmath>
#include <limits>
#include <random>

#include "ir/builder.h"

namespace rlxc::testing {
namespace {

constexpr int64_t kBatch = 2, kRows = 4, kHidden = 8, kHeads = 2, kWidth = 4;

class Blocks {
 public:
  Blocks(Module& m, uint64_t seed, DType t) : m_(m), b_(m.main()), t_(t), random_(seed * 6364136223846793005ULL + 1) {}

  void run(int blocks) {
    ValueId x = b_.input("x", tensor_type(t_, {kBatch, kRows, kHidden}));
    image_ = b_.input("image", tensor_type(t_, {kBatch, 4, 5, 5}));
    for (int i = 0; i < blocks; ++i) {
      x = tapped(block(x));
      if (below(3) == 0) image_ = tapped(convolution(image_));
    }
    m_.main().add_output(x, m_.symbol("y"));
    m_.main().add_output(image_, m_.symbol("image_out"));
    for (ValueId v : taps_) m_.main().add_output(v, m_.symbol("tap" + std::to_string(m_.main().outputs().size())));
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  bool odd() { return below(12) == 0; }  // whether to change a detail
  double real() { return static_cast<double>(below(2001)) / 1000.0 - 1; }

  ValueId tapped(ValueId v) {
    if (odd()) taps_.push_back(below(2) ? v : b_.unary(OpKind::Tanh, v));
    return v;
  }
  ValueId num(double v) {
    if (odd()) return b_.reshape(b_.scalar(t_, v), {1});
    return b_.scalar(t_, v);
  }
  ValueId weight(std::vector<int64_t> dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::vector<std::byte> values;
    for (int64_t i = 0; i < n; ++i)
      for (std::byte byte : element_bytes(t_, real())) values.push_back(byte);
    const std::string name = "w" + std::to_string(weights_++);
    const std::vector<Dim> sizes(dims.begin(), dims.end());
    if (odd()) return b_.input(name, tensor_type(t_, sizes));  // an input instead of a constant
    return b_.param(name, tensor_type(t_, sizes), m_.data.add(make_data(t_, std::move(dims), values)));
  }
  ValueId either(OpKind op, ValueId a, ValueId b) { return below(2) ? b_.create(op, {a, b}) : b_.create(op, {b, a}); }
  ValueId add(ValueId a, ValueId b) { return tapped(either(OpKind::Add, a, b)); }
  ValueId mul(ValueId a, ValueId b) { return tapped(either(OpKind::Mul, a, b)); }
  ValueId square(ValueId x) { return below(2) ? b_.mul(x, x) : b_.create(OpKind::Pow, {x, num(2)}); }

  ValueId product(ValueId x, int64_t from, int64_t to) {
    switch (below(3)) {
      case 0: return tapped(b_.matmul(x, weight({from, to})));
      case 1: return tapped(b_.matmul(x, weight({to, from}), false, true));
      default: return tapped(b_.matmul(x, b_.transpose(weight({to, from}), {1, 0})));
    }
  }
  ValueId linear(ValueId x, int64_t from, int64_t to) {
    const ValueId y = product(x, from, to);
    if (below(4) == 0) return y;
    return add(y, odd() ? weight({kRows, to}) : odd() ? weight({1}) : odd() ? weight({1, to}) : weight({to}));
  }

  ValueId norm(ValueId x) {
    const int64_t axis = odd() ? 1 : 2;
    const auto mean = [&](ValueId v) { return tapped(b_.reduce(ReduceOp::Mean, v, {axis}, true)); };
    const bool centred = below(2) == 0;
    const ValueId d = centred ? b_.sub(x, mean(x)) : x;
    const ValueId variance = mean(square(odd() ? x : d)), eps = num(odd() ? 0.1 : 1e-5);
    const ValueId root = b_.unary(OpKind::Sqrt, add(variance, eps));
    ValueId y = below(2) ? b_.div(d, root) : mul(d, b_.unary(OpKind::Recip, root));
    if (below(4)) y = mul(y, odd() ? weight({kRows, 1}) : weight({kHidden}));
    if (below(4)) y = add(y, weight({kHidden}));
    return y;
  }

  // A norm with per-batch scale and shift, and a gated residual.
  ValueId modulated(ValueId x) {
    const ValueId given = b_.input("condition" + std::to_string(weights_++), tensor_type(t_, {kBatch, 1, kHidden}));
    const ValueId all = linear(given, kHidden, 3 * kHidden);
    const auto part = [&](int64_t i) { return b_.narrow(all, 2, i * kHidden, kHidden); };
    const ValueId n = add(mul(norm(x), add(part(0), num(1))), part(1));
    return add(x, mul(part(2), linear(n, kHidden, kHidden)));
  }

  ValueId activation(ValueId x) {
    switch (below(6)) {
      case 0: {
        const ValueId e = b_.unary(OpKind::Erf, b_.div(x, num(odd() ? 1.4 : std::sqrt(2.0))));
        return mul(mul(odd() ? b_.unary(OpKind::Neg, x) : x, add(e, num(1))), num(0.5));
      }
      case 1: {
        const ValueId cubic = add(x, mul(num(0.044715), b_.create(OpKind::Pow, {x, num(odd() ? 2 : 3)})));
        return mul(mul(num(0.5), x), add(b_.unary(OpKind::Tanh, mul(cubic, num(std::sqrt(2 / M_PI)))), num(1)));
      }
      case 2: return mul(x, b_.unary(OpKind::Sigmoid, odd() ? b_.unary(OpKind::Neg, x) : x));
      case 3:
        return mul(x, b_.create(OpKind::Clamp, {b_.add(b_.mul(x, num(1.0 / 6)), num(0.5))}, ClampAttrs{0, odd() ? 2.0 : 1.0}));
      case 4: return b_.unary(OpKind::Relu, x);
      default: return b_.create(OpKind::LeakyRelu, {x}, AlphaBetaAttrs{0.1, 0});
    }
  }

  ValueId gate(ValueId x) {
    ValueId up, lever;
    if (below(2)) {
      up = product(x, kHidden, 6), lever = product(x, kHidden, 6);
    } else {
      const ValueId both = linear(x, kHidden, 12);
      const int64_t first = odd() ? 3 : 0;
      up = tapped(b_.narrow(both, 2, first, 6)), lever = b_.narrow(both, 2, odd() ? 0 : 6, 6);
      if (below(2)) std::swap(up, lever);
    }
    const ValueId acted = below(2) ? mul(lever, b_.unary(OpKind::Sigmoid, lever)) : b_.unary(OpKind::Gelu, lever);
    return linear(mul(up, acted), 6, kHidden);
  }

  ValueId heads(ValueId x, int64_t n) { return tapped(b_.transpose(b_.reshape(x, {kBatch, kRows, n, kWidth}), {0, 2, 1, 3})); }
  ValueId rotated(ValueId x, ValueId cos, ValueId sin) {
    const ValueId low = b_.narrow(x, 3, 0, kWidth / 2), high = b_.narrow(x, 3, kWidth / 2, kWidth / 2);
    const ValueId parts[] = {odd() ? high : b_.unary(OpKind::Neg, high), low};
    return add(mul(x, cos), mul(b_.concat(parts, 3), sin));
  }
  ValueId head_norm(ValueId x) {
    const ValueId square_mean = b_.reduce(ReduceOp::Mean, square(x), {3}, true);
    return mul(weight({kWidth}), mul(x, b_.unary(OpKind::Recip, b_.unary(OpKind::Sqrt, add(square_mean, num(1e-3))))));
  }
  ValueId causal() {
    const ValueId i = b_.create(OpKind::Range, {b_.scalar(DType::I64, 0), b_.scalar(DType::I64, 1)}, DimsAttrs{{kRows}, false});
    const ValueId columns = b_.reshape(i, {1, kRows}), rows = b_.reshape(i, {kRows, 1});
    const ValueId seen = b_.create(odd() ? OpKind::Lt : OpKind::Le, {columns, rows});
    return b_.create(OpKind::Where, {seen, num(0), num(-std::numeric_limits<float>::max())});
  }
  ValueId attention(ValueId x) {
    const bool grouped = below(3) == 0;
    const int64_t kv = grouped ? 1 : kHeads;
    ValueId q = heads(linear(x, kHidden, kHidden), kHeads), k = heads(linear(x, kHidden, kv * kWidth), kv),
            v = heads(linear(x, kHidden, kv * kWidth), kv);
    if (below(3) == 0) q = head_norm(q), k = head_norm(k);
    if (below(2)) {
      const ValueId cos = b_.input("cos" + std::to_string(weights_), tensor_type(t_, {kRows, kWidth}));
      const ValueId sin = b_.input("sin" + std::to_string(weights_++), tensor_type(t_, {kRows, kWidth}));
      q = rotated(q, cos, sin), k = rotated(k, odd() ? sin : cos, sin);
    }
    if (grouped)
      for (ValueId* t : {&k, &v})
        *t = b_.reshape(b_.expand(b_.reshape(*t, {kBatch, 1, 1, kRows, kWidth}), {kBatch, 1, kHeads, kRows, kWidth}),
                        {kBatch, kHeads, kRows, kWidth});
    const double scale = odd() ? 3 : 2;
    const bool early = below(2) == 0;
    if (early) q = b_.div(q, num(scale));
    ValueId s = tapped(b_.matmul(q, below(2) ? b_.transpose(k, {0, 1, 3, 2}) : k, false, false));
    if (!early) s = below(2) ? b_.div(s, num(scale)) : mul(s, num(1 / scale));
    if (below(5) == 0) s = mul(b_.unary(OpKind::Tanh, b_.div(s, num(5))), num(odd() ? 4 : 5));
    if (below(3) == 0) s = add(s, causal());
    else if (below(3) == 0) s = add(s, b_.input("bias" + std::to_string(weights_++), tensor_type(t_, {kBatch, 1, 1, kRows})));
    const ValueId p = tapped(b_.create(OpKind::Softmax, {s}, AxisAttrs{odd() ? 2 : 3}));
    const ValueId y = b_.transpose(b_.matmul(p, v), odd() ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 2, 1, 3});
    return linear(b_.reshape(y, {kBatch, kRows, kHidden}), kHidden, kHidden);
  }

  ValueId convolution(ValueId x) {
    const int64_t groups = below(3) == 0 ? 4 : 1;
    ConvAttrs a{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, groups};
    ValueId in = x;
    if (below(3) == 0) {
      a.pads_begin = a.pads_end = {0, 0};
      in = b_.create(OpKind::Pad, {x, odd() ? b_.scalar(t_, 1) : ValueId()},
                     PadAttrs{{0, 0, 1, 1}, {0, 0, 1, 1}, odd() ? PadMode::Reflect : PadMode::Constant});
    }
    const ValueId w = weight({4, 4 / groups, 3, 3});
    const bool turned = in == x && below(4) == 0;
    if (turned) a.output_padding = {0, 0};
    ValueId y = tapped(b_.create(turned ? OpKind::ConvTranspose : OpKind::Conv, {in, w, below(2) ? weight({4}) : ValueId()}, a));
    if (below(5) == 0) y = tapped(b_.create(OpKind::GroupNorm, {y, weight({4}), weight({4})}, GroupNormAttrs{2, 1e-3}));
    if (below(2)) {
      const ValueId variance = b_.unary(OpKind::Abs, weight({4}));
      y = tapped(b_.create(OpKind::BatchNormInference, {y, weight({4}), weight({4}), weight({4}), variance}, NormAttrs{1, 1e-2}));
    } else if (below(2)) {
      y = add(mul(y, odd() ? weight({1, 1, 5, 1}) : weight({1, 4, 1, 1})), weight({4, 1, 1}));
    }
    if (below(2)) y = add(y, odd() ? b_.narrow(x, 1, 0, 1) : x);
    return below(2) ? activation(y) : y;
  }

  ValueId block(ValueId x) {
    switch (below(8)) {
      case 0: return norm(x);
      case 6: return modulated(x);
      case 1: return add(x, activation(linear(x, kHidden, kHidden)));
      case 2: return add(x, gate(x));
      case 3:
      case 4: return add(x, attention(x));
      case 5: {
        const ValueId s = add(x, odd() ? weight({kHidden}) : linear(x, kHidden, kHidden));
        return add(norm(s), odd() ? x : s);
      }
      default: {
        const ValueId e = b_.unary(OpKind::Exp, b_.sub(x, b_.reduce(ReduceOp::Max, x, {2}, true)));
        return b_.div(e, b_.reduce(ReduceOp::Sum, e, {odd() ? 1 : 2}, true));
      }
    }
  }

  Module& m_;
  Builder b_;
  DType t_;  // of all numbers
  std::mt19937_64 random_;
  ValueId image_;
  std::vector<ValueId> taps_;
  int weights_ = 0;
};

}  // namespace

std::unique_ptr<Module> random_blocks(uint64_t seed, int blocks, DType t) {
  auto m = std::make_unique<Module>(std::string(name(t)) + " blocks");
  Blocks(*m, seed, t).run(blocks);
  return m;
}

}  // namespace rlxc::testing
