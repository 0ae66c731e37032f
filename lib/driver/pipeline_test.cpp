#include "driver/pipeline.h"

#include <doctest/doctest.h>

#include <cmath>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "eval/equivalence.h"
#include "ir/builder.h"
#include "passes/passes.h"
#include "support/count_launches.h"

using namespace rlxc;

namespace {

enum class Kind { Encoder, Decoder, DecoderWithHeadNorms };
constexpr int64_t kRows = 6, kHidden = 16, kHeads = 4, kWidth = 4, kInner = 32;

// Layers as exporters write them, one op at a time.
struct Layers {
  Builder& b;
  int parameters = 0;

  ValueId weight(std::vector<Dim> dims) {
    return b.param("w" + std::to_string(parameters++), tensor_type(DType::F32, std::move(dims)));
  }
  ValueId number(double v) { return b.scalar(DType::F32, v); }
  ValueId product(ValueId x, int64_t from, int64_t to) { return b.matmul(x, b.transpose(weight({to, from}), {1, 0})); }
  ValueId linear(ValueId x, int64_t from, int64_t to) { return b.add(product(x, from, to), weight({to})); }
  ValueId mean(ValueId x) { return b.reduce(ReduceOp::Mean, x, {b.graph().rank(x) - 1}, true); }

  ValueId layer_norm(ValueId x) {
    const ValueId d = b.sub(x, mean(x)), variance = mean(b.create(OpKind::Pow, {d, number(2)}));
    const ValueId y = b.div(d, b.unary(OpKind::Sqrt, b.add(variance, number(1e-5))));
    return b.add(b.mul(y, weight({kHidden})), weight({kHidden}));
  }
  ValueId rms_norm(ValueId x) {
    const ValueId square = mean(b.create(OpKind::Pow, {x, number(2)}));
    return b.mul(weight({b.graph().dims(x).back()}),
                 b.mul(x, b.unary(OpKind::Recip, b.unary(OpKind::Sqrt, b.add(square, number(1e-5))))));
  }
  ValueId gelu(ValueId x) {
    return b.mul(b.mul(x, b.add(b.unary(OpKind::Erf, b.div(x, number(std::sqrt(2.0)))), number(1))), number(0.5));
  }
  ValueId heads(ValueId x, int64_t n) { return b.transpose(b.reshape(x, {1, kRows, n, kWidth}), {0, 2, 1, 3}); }
  ValueId rope(ValueId x, ValueId cos, ValueId sin) {
    const ValueId parts[] = {b.unary(OpKind::Neg, b.narrow(x, 3, kWidth / 2, kWidth / 2)), b.narrow(x, 3, 0, kWidth / 2)};
    return b.add(b.mul(x, cos), b.mul(b.concat(parts, 3), sin));
  }
  ValueId attention(ValueId q, ValueId k, ValueId v, ValueId mask) {
    ValueId s = b.div(b.matmul(q, b.transpose(k, {0, 1, 3, 2})), number(2));
    if (mask.valid()) s = b.add(s, mask);
    const ValueId y = b.matmul(b.create(OpKind::Softmax, {s}, AxisAttrs{3}), v);
    return b.reshape(b.transpose(y, {0, 2, 1, 3}), {1, kRows, kHidden});
  }
  ValueId encoder(ValueId x) {
    const ValueId q = linear(x, kHidden, kHidden), k = linear(x, kHidden, kHidden), v = linear(x, kHidden, kHidden);
    const ValueId a = attention(heads(q, kHeads), heads(k, kHeads), heads(v, kHeads), {});
    x = layer_norm(b.add(linear(a, kHidden, kHidden), x));
    return layer_norm(b.add(linear(gelu(linear(x, kHidden, kInner)), kInner, kHidden), x));
  }
  ValueId decoder(ValueId x, ValueId cos, ValueId sin, bool head_norms) {
    const ValueId h = rms_norm(x);
    const auto rotated = [&](int64_t n) {
      const ValueId split = b.reshape(product(h, kHidden, n * kWidth), {1, kRows, n, kWidth});
      return rope(b.transpose(head_norms ? rms_norm(split) : split, {0, 2, 1, 3}), cos, sin);
    };
    const ValueId q = rotated(kHeads), k = rotated(2);
    const auto repeated = [&](ValueId v) {
      return b.reshape(b.expand(b.reshape(v, {1, 2, 1, kRows, kWidth}), {1, 2, 2, kRows, kWidth}), {1, kHeads, kRows, kWidth});
    };
    const ValueId i = b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{kRows}, false});
    const ValueId seen = b.create(OpKind::Le, {b.reshape(i, {1, kRows}), b.reshape(i, {kRows, 1})});
    const ValueId mask = b.create(OpKind::Where, {seen, number(0), number(-std::numeric_limits<float>::max())});
    const ValueId a = attention(q, repeated(k), repeated(heads(product(h, kHidden, 8), 2)), mask);
    x = b.add(x, product(a, kHidden, kHidden));
    const ValueId n = rms_norm(x), gate = product(n, kHidden, kInner);
    return b.add(x, product(b.mul(b.mul(gate, b.unary(OpKind::Sigmoid, gate)), product(n, kHidden, kInner)), kInner, kHidden));
  }
};

void build(Module& m, Kind kind, int layers) {
  Builder b(m.main());
  Layers l{b};
  ValueId x = b.input("x", tensor_type(DType::F32, {1, kRows, kHidden}));
  const ValueId cos = b.input("cos", tensor_type(DType::F32, {1, 1, kRows, kWidth})),
                sin = b.input("sin", tensor_type(DType::F32, {1, 1, kRows, kWidth}));
  for (int i = 0; i < layers; ++i)
    x = kind == Kind::Encoder ? l.encoder(x) : l.decoder(x, cos, sin, kind == Kind::DecoderWithHeadNorms);
  m.main().add_output(kind == Kind::Encoder ? x : l.rms_norm(x), m.symbol("y"));
}

// Returns the launches of this many layers after the pipeline, which must preserve the results.
int64_t launches(Kind kind, int layers) {
  Module before, after;
  build(before, kind, layers);
  build(after, kind, layers);
  CompileOptions o;
  o.verify = true;
  Compiled out;
  Diagnostics d;
  CHECK_MESSAGE(optimise(after, *find_target("cpu"), o, {}, {}, &out, d), d.text());
  std::string why;
  CHECK_MESSAGE(eval::same_results(before, after, 1, 1e-3, 1e-4, &why), why);
  return count_launches(after);
}

}  // namespace

TEST_CASE("every pass of every pipeline exists") {
  CompileOptions o;
  o.precision_name = "automixed";
  o.calibration_file = "record.json";
  for (std::string_view target : target_names())
    for (const PipelinePart& part : pipeline(target, o))
      for (std::string_view pass : part.passes) CHECK_MESSAGE(find_pass(pass) != nullptr, pass);
}

TEST_CASE("an encoder layer takes seven launches: QKV, attention, projection, residual+norm, two products, residual+norm") {
  CHECK(launches(Kind::Encoder, 1) == 7);
  CHECK(launches(Kind::Encoder, 3) == 21);
}

TEST_CASE(
    "a decoder layer takes eight launches more: QKV, rope, attention, projection, residual+norm, SwiGLU of a product, product, "
    "residual+norm") {
  CHECK(launches(Kind::Decoder, 3) - launches(Kind::Decoder, 2) == 8);
}

TEST_CASE("norms of the heads of queries and keys take no launch of their own") {
  CHECK(launches(Kind::DecoderWithHeadNorms, 3) - launches(Kind::DecoderWithHeadNorms, 2) == 8);
}
