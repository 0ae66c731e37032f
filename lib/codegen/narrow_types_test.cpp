// 2- and 4-bit types and 8-bit floats through the whole cpu pipeline: kernels must equal the reference evaluator bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "runtime/run_kernels.h"
#include "support/eval.h"

using namespace rlxc;
using enum OpKind;

namespace {

constexpr DType kFloats[] = {DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1, DType::F8E8M0};
constexpr DType kInts[] = {DType::I4, DType::U4, DType::I2, DType::U2};

struct Net {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  std::vector<eval::HostValue> inputs;

  ValueId in(eval::HostValue v) {
    const std::vector<Dim> dims(v.tensor.dims.begin(), v.tensor.dims.end());
    const ValueId x = b.input("x" + std::to_string(inputs.size()), tensor_type(v.tensor.dtype, dims));
    inputs.push_back(std::move(v));
    return x;
  }
  ValueId cast(ValueId x, DType to, bool saturate = true) { return b.create(Cast, {x}, CastAttrs{to, saturate}); }
  void out(ValueId v) {
    REQUIRE(v.valid());
    m->main().add_output(v, {});
  }

  void check() {
    Diagnostics d;
    const auto expected = eval::evaluate(*m, inputs, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    LoadedModel model;
    m->name = ForeignText("narrow");
    model.module = std::move(m);
    const auto compiled = compile(std::move(model), target, {}, {}, d);
    REQUIRE_MESSAGE(compiled.has_value(), d.text());
    if (target != "cpu") return compare(make_emulated_runner(compiled->lir, target, d), *expected, d);
    compare(make_kernel_runner(compiled->lir, d), *expected, d);
    if (interpreted) compare(make_interpreting_runner(compiled->lir, "cpu", d), *expected, d);
  }

  std::string target = "cpu";
  bool interpreted = false;  // also with the device host

 private:
  void compare(std::unique_ptr<KernelRunner> runner, const std::vector<eval::HostValue>& expected, Diagnostics& d) const {
    REQUIRE_MESSAGE(runner, d.text());
    const auto actual = runner->run(inputs, d);
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto r = eval::compare((*actual)[i], expected[i], 0, 0);
      CHECK_MESSAGE(r.pass, "output " << i << " " << name(expected[i].tensor.dtype) << ": " << r.message);
    }
  }
};

// Returns every value of every format, midpoints and their neighbours, the limits, infinities and NaN.
std::vector<double> edges() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> v = {0,    -0.0,  kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                           1e30, -1e30, 1e-39,     7.5,        -8.5};
  for (int e = -20; e <= 17; ++e)
    for (int k = 32; k < 64; ++k) v.push_back(std::ldexp(k, e - 5)), v.push_back(-std::ldexp(k + 0.001, e - 5));
  return v;  // several counts test how the last byte is filled
}

}  // namespace

TEST_CASE("vectors of f32 become integers as the evaluator converts them, NaN and what no integer holds included") {
  Net n;
  const std::vector<double> values = edges();
  const ValueId x = n.in(test::f32({static_cast<int64_t>(values.size())}, values));
  for (DType t : {DType::I32, DType::I16, DType::U16, DType::I8, DType::U8}) {
    n.out(n.cast(x, t));
    n.out(n.cast(n.cast(x, t), DType::F32));
    n.out(n.cast(n.cast(x, t), DType::I32));
    n.out(n.cast(n.cast(n.cast(x, t), DType::I32), DType::F32));
  }
  n.check();
}

TEST_CASE("casts to narrow types round as the evaluator does, and casts from them are exact") {
  for (const size_t drop : {0, 1, 2, 3}) {
    Net n;
    std::vector<double> values = edges();
    values.resize(values.size() - drop);
    const auto count = static_cast<int64_t>(values.size());
    const ValueId x = n.in(test::f32({count}, values)), wide = n.b.cast(x, DType::F64);
    const ValueId precise = n.b.mul(wide, n.b.scalar(DType::F64, 1 + 1e-12)), half = n.b.cast(x, DType::F16);
    const ValueId whole = n.b.cast(n.b.create(Clamp, {x}, ClampAttrs{-100, 100}), DType::I32);
    for (DType t : kFloats) {
      for (bool saturate : {true, false})
        for (ValueId v : {x, precise, half}) n.out(n.cast(v, t, saturate));
      n.out(n.cast(n.cast(x, t), DType::F32)), n.out(n.cast(n.cast(x, t), DType::Bool));
    }
    for (DType t : kInts) {
      for (ValueId v : {x, precise, half, whole}) n.out(n.cast(v, t));
      for (DType to : {DType::F32, DType::I8, DType::U8, DType::F16}) n.out(n.cast(n.cast(whole, t), to));
    }
    n.out(n.cast(n.cast(whole, DType::I4), DType::U4)), n.out(n.cast(n.cast(x, DType::F8E5M2), DType::F8E4M3FN));
    n.check();
  }
}

TEST_CASE("values of few bits are inputs, outputs and weights of equal elements") {
  Net n;
  n.interpreted = true;
  for (DType t : kInts) {
    const int64_t count = 13;
    std::vector<uint8_t> bytes = {0x1B, 0xE4, 0x27, 0x01, 0xA5, 0x3C, 0x09};
    bytes.resize(static_cast<size_t>(*byte_size(t, count)));
    eval::HostValue v;
    v.tensor = make_data(t, {count}, bytes);
    const ValueId x = n.in(v), w = n.b.constant(make_splat(t, {count}, element_bytes(t, 1)));
    n.out(n.b.add(n.cast(x, DType::I32), n.cast(w, DType::I32)));
    n.out(n.cast(n.b.add(n.cast(x, DType::I32), n.cast(w, DType::I32)), t));
  }
  n.check();
}

TEST_CASE("every code of the 8-bit floats is read as the evaluator reads it") {
  Net n;
  std::vector<double> codes;
  for (int i = 0; i < 256; ++i) codes.push_back(i);
  const ValueId x = n.b.cast(n.in(test::f32({256}, codes)), DType::U8);
  for (DType t : kFloats)
    if (bits(t) == 8) n.out(n.cast(n.b.create(BitCast, {x}, CastAttrs{t}), DType::F32));
  n.check();
}

TEST_CASE("other operations on narrow types, and quantization to them") {
  Net n;
  std::vector<double> values;
  for (int i = 0; i < 60; ++i) values.push_back((i * 37 % 61 - 30) / 8.0);
  const ValueId x = n.in(test::f32({5, 12}, values)), index = n.in(test::i64({3}, {4, 0, 2}));
  for (DType t : {DType::F8E4M3FN, DType::F4E2M1, DType::I4, DType::U4}) {
    const ValueId v = n.cast(x, t);
    n.out(v), n.out(n.b.reshape(v, {Dim(60)})), n.out(n.b.transpose(v, {1, 0}));
    n.out(n.b.create(Gather, {v, index}, AxisAttrs{0}));
    n.out(
        n.b.create(Where, {n.b.create(Gt, {x, n.b.scalar(DType::F32, 0)}), v, n.b.transpose(n.b.transpose(v, {1, 0}), {1, 0})}));
    const ValueId parts[] = {v, v};
    n.out(n.b.concat(parts, 1));
    const ValueId row = n.in(test::f32({12}, std::vector<double>(12, 0.25))),
                  blocks = n.in(test::f32({5, 3}, std::vector<double>(15, 0.5)));
    const ValueId zero = n.cast(n.in(test::f32({12}, std::vector<double>(12, is_float(t) ? 0 : 1))), t);
    for (const auto& [scale, axis, block] :
         {std::tuple{row, int64_t{1}, int64_t{0}}, std::tuple{blocks, int64_t{1}, int64_t{4}}}) {
      const ValueId q = block ? n.b.create(Quantize, {x, scale}, QuantAttrs{axis, block, t})
                              : n.b.create(Quantize, {x, scale, zero}, QuantAttrs{axis, block, t});
      n.out(q);
      n.out(block ? n.b.create(Dequantize, {q, scale}, QuantAttrs{axis, block, DType::F32})
                  : n.b.create(Dequantize, {q, scale, zero}, QuantAttrs{axis, block, DType::F32}));
    }
  }
  n.check();
}

TEST_CASE("bits of 16-bit and 8-bit elements are read as another type") {
  for (const std::string target : {"cpu", "cuda", "metal", "wgpu"}) {
    if (target == "wgpu" && !std::getenv("RLXC_WEBGPU")) continue;
    INFO(target);
    Net n;
    n.target = target;
    std::vector<double> codes;
    for (int i = 0; i < 200; ++i) codes.push_back(0x3000 + i * 61);  // ordinary f16 and bf16
    codes.insert(codes.end(), {0x8001, 0xbc00, 0xc500, 0x0400});
    const ValueId words = n.in(eval::tensor_of(DType::U16, {204}, codes)), x = n.in(test::f32({4}, {1.5, -2, 0.25, 300}));
    const auto as = [&](ValueId v, DType t) { return n.b.create(BitCast, {v}, CastAttrs{t}); };
    for (DType t : {DType::F16, DType::BF16, DType::I16}) {
      n.out(as(words, t)), n.out(n.cast(as(words, t), DType::F32));
      n.out(as(n.cast(x, t), DType::U16)), n.out(n.cast(as(n.cast(x, t), DType::I16), DType::F32));
    }
    const ValueId bytes = n.cast(n.b.create(BitAnd, {words, n.b.scalar(DType::U16, 255)}), DType::U8);
    n.out(n.cast(as(bytes, DType::I8), DType::F32));
    n.check();
  }
}

TEST_CASE("bits of bools are 0 and 1") {
  Net n;
  const ValueId x = n.in(eval::tensor_of(DType::Bool, {3}, {1, 0, 1}));
  const ValueId bits = n.b.create(BitCast, {x}, CastAttrs{DType::U8});
  n.out(bits), n.out(n.b.create(BitCast, {bits}, CastAttrs{DType::Bool}));
  n.check();
}
