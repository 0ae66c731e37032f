// Ops of the reference format that decompose into several IR ops, against their formulas.
#include <cmath>
#include <functional>

#include "support/block_format.h"
#include "support/half.h"
#include "support/random.h"
#include "support/reference_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// The derivative of sum(weight * forward(x)) for input `which`, by central differences in the forward operation.
Reals numeric_gradient(const std::string& op, std::vector<In> inputs, const std::vector<int>& result, const Reals& weight,
                       size_t which) {
  Reals g;
  for (size_t i = 0; i < inputs[which].values.size(); ++i) {
    const double kept = inputs[which].values[i], step = 1e-2;
    double sum = 0;
    for (double sign : {1.0, -1.0}) {
      inputs[which].values[i] = kept + sign * step;
      const Reals y = one(op, inputs, result);
      for (size_t k = 0; k < y.size(); ++k) sum += sign * weight[k] * y[k];
    }
    inputs[which].values[i] = kept;
    g.push_back(sum / (2 * step));
  }
  return g;
}

}  // namespace

TEST_CASE("weights in blocks of ggml, by every format") {
  for (const auto& [reference, f] : {std::pair{"GgufQ4K", BlockFormat::Q4_K},
                                     {"GgufQ5K", BlockFormat::Q5_K},
                                     {"GgufQ6K", BlockFormat::Q6_K},
                                     {"GgufQ8K", BlockFormat::Q8_K},
                                     {"GgufQ2K", BlockFormat::Q2_K},
                                     {"GgufQ3K", BlockFormat::Q3_K},
                                     {"GgufQ4_0", BlockFormat::Q4_0},
                                     {"GgufQ8_0", BlockFormat::Q8_0},
                                     {"GgufQ5_1", BlockFormat::Q5_1},
                                     {"GgufIQ4NL", BlockFormat::IQ4_NL},
                                     {"GgufIQ4XS", BlockFormat::IQ4_XS},
                                     {"GgufTQ1_0", BlockFormat::TQ1_0},
                                     {"GgufTQ2_0", BlockFormat::TQ2_0}}) {
    const std::string name = reference;
    INFO(name);
    constexpr size_t kK = 256, kN = 3;
    const auto per = static_cast<size_t>(block_elements(f)), bytes = static_cast<size_t>(block_bytes(f)), blocks = kK * kN / per;
    Random r(3);
    const auto w = r.uniform_floats(kK * kN);
    std::vector<uint8_t> packed(blocks * bytes);
    std::vector<float> decoded(kK * kN);
    for (size_t i = 0; i < blocks; ++i) {
      encode_block(f, std::span(w).subspan(i * per, per), std::span(packed).subspan(i * bytes, bytes));
      decode_block(f, std::span<const uint8_t>(packed).subspan(i * bytes, bytes), std::span(decoded).subspan(i * per, per));
    }
    const In x = random_in({2, kK}, 4);
    Reals y;
    for (size_t m = 0; m < 2; ++m)
      for (size_t n = 0; n < kN; ++n) {
        double sum = 0;
        for (size_t k = 0; k < kK; ++k) sum += x.values[m * kK + k] * static_cast<double>(decoded[n * kK + k]);
        y.push_back(sum);
      }
    const In raw{{static_cast<int>(packed.size())}, {packed.begin(), packed.end()}, DType::U8};
    const std::string scheme = std::string("\":{\"scheme\":\"") + reference + "\"}}";
    close(one("{\"DequantMatMul" + scheme, {x, raw}, {2, kN}), y);
    // One expert each: [1,K,N] and x by expert 0.
    close(one("{\"DequantGroupedMatMul" + scheme, {x, raw, {{2}, {0, 0}}}, {2, kN}), y);
    Reals transposed;
    for (size_t k = 0; k < kK; ++k)
      for (size_t n = 0; n < kN; ++n) transposed.push_back(static_cast<double>(decoded[n * kK + k]));
    close(one("{\"DequantMoEWeights" + scheme, {raw}, {1, kK, kN}), transposed);
  }
}

TEST_CASE("weights of 4 and 8 bits with scales") {
  const int k = 36, n = 4;
  const In x = random_in({2, k}, 5);
  Random r(6);
  Reals q8, q4, fp8, scale8, zero8, column, scale4;
  for (int i = 0; i < k * n; ++i) q8.push_back(static_cast<double>(r.integer(-128, 127)));
  for (int i = 0; i < k * n / 2; ++i) q4.push_back(static_cast<double>(r.integer(0, 255)));
  for (int i = 0; i < k * n; ++i) fp8.push_back(static_cast<double>(r.integer(0, 120)));
  for (int i = 0; i < 3 * n; ++i)
    scale8.push_back(r.uniform(0.01, 0.1)), zero8.push_back(static_cast<double>(r.integer(-5, 5))),
        scale4.push_back(static_cast<double>(r.integer(40, 70)));
  for (int i = 0; i < n; ++i) column.push_back(r.uniform(0.5, 1));
  const auto product = [&](const std::function<double(int, int)>& w) {
    Reals y;
    for (int m = 0; m < 2; ++m)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int p = 0; p < k; ++p) sum += x.values[static_cast<size_t>(m * k + p)] * w(p, j);
        y.push_back(sum);
      }
    return y;
  };
  const auto at = [&](const Reals& v, int i) { return v[static_cast<size_t>(i)]; };
  const In scales{{3, n}, scale8}, zeros{{3, n}, zero8}, none{{1}, {0}};
  close(one(R"({"DequantMatMul":{"scheme":{"Int8BlockAsym":{"block_size":16}}}})", {x, {{k, n}, q8, DType::I8}, scales, zeros},
            {2, n}),
        product([&](int p, int j) { return (at(q8, p * n + j) - at(zero8, p / 16 * n + j)) * at(scale8, p / 16 * n + j); }),
        1e-3);
  const auto nibble = [&](int i) { return static_cast<int>(at(q4, i / 2)) >> (i % 2 * 4) & 15; };
  close(one(R"({"DequantMatMul":{"scheme":{"Int4Block":{"block_size":16}}}})", {x, {{k * n / 2}, q4, DType::U8}, scales, zeros},
            {2, n}),
        product([&](int p, int j) { return (nibble(p * n + j) - at(zero8, p / 16 * n + j)) * at(scale8, p / 16 * n + j); }),
        1e-3);
  for (const auto& [scheme, t] : {std::pair{"Fp8E4m3", DType::F8E4M3FN}, {"Fp8E5m2", DType::F8E5M2}})
    close(
        one(std::string(R"({"DequantMatMul":{"scheme":")") + scheme + "\"}}", {x, {{k, n}, fp8, DType::U8}, {{n}, column}, none},
            {2, n}),
        product([&, t = t](int p, int j) { return decode_float(t, static_cast<uint32_t>(at(fp8, p * n + j))) * at(column, j); }),
        1e-3);
  close(one(R"({"DequantMatMul":{"scheme":"Nvfp4Block"}})",
            {x, {{k * n / 2}, q4, DType::U8}, {{3, n}, scale4, DType::U8}, {{1}, {0.5}}}, {2, n}),
        product([&](int p, int j) {
          return static_cast<double>(fp4_values()[static_cast<size_t>(nibble(p * n + j))]) *
                 decode_float(DType::F8E4M3FN, static_cast<uint32_t>(at(scale4, p / 16 * n + j))) * 0.5;
        }),
        1e-3);
}

TEST_CASE("experts, integer products, fake quantization") {
  const In x = random_in({3, 4}, 7), w = random_in({2, 4, 5}, 8);
  Reals y;
  for (size_t m = 0; m < 3; ++m)
    for (size_t j = 0; j < 5; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += x.values[m * 4 + k] * w.values[(m % 2 * 4 + k) * 5 + j];
      y.push_back(sum);
    }
  close(one("\"GroupedMatMul\"", {x, w, {{3}, {0, 1, 0}}}, {3, 5}), y);
  CHECK(one(R"({"QMatMul":{"x_zp":1,"w_zp":-2,"out_zp":3,"mult":0.5}})",
            {{{1, 2}, {4, -3}, DType::I8}, {{2, 2}, {1, 5, 2, -2}, DType::I8}, {{2}, {0, 1}, DType::I32}}, {1, 2},
            "I8") == Reals{(3 * 3 - 4 * 4 < 0 ? -4.0 : 0) + 3, std::floor((3 * 7 - 4 * 0 + 1) * 0.5 + 0.5) + 3});
  const In v{{2, 3}, {0.5, -0.95, 0.26, 2, 0.1, -0.9}};
  close(one(R"({"FakeQuantize":{"bits":4,"axis":null,"ste":"Identity","scale_mode":"PerBatch"}})", {v}, {2, 3}),
        {std::round(0.5 * 3.5) / 3.5, -3 / 3.5, 1 / 3.5, 2, 0, -3 / 3.5});
  close(one(R"({"FakeQuantizeLSQ":{"bits":2,"axis":0}})", {v, {{2}, {0.5, 1}}}, {2, 3}), {0.5, -0.5, 0.5, 1, 0, -1});
  close(one(R"({"FakeQuantizeLSQBackwardX":{"bits":2,"axis":0}})", {v, {{2}, {0.5, 1}}, {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {2, 3}),
        {1, 0, 3, 0, 5, 6});
  close(one(R"({"FakeQuantizeLSQBackwardScale":{"bits":2,"axis":0}})", {v, {{2}, {0.5, 1}}, {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {2}),
        {0 - 2 + 3 * 0.48, 4 - 0.5 - 0.6});
  close(one(R"({"FakeQuantizeBackward":{"bits":2,"axis":null,"ste":"Tanh"}})", {v, {{2, 3}, {1, 1, 1, 1, 1, 1}}}, {2, 3}), [&] {
    Reals g;
    for (double a : v.values) g.push_back(1 - std::pow(std::tanh(a / 2), 2));
    return g;
  }());
}

TEST_CASE("gradients agree with differences of the forward operation") {
  struct Case {
    std::string forward, backward;
    std::vector<In> inputs;
    std::vector<int> result;
    size_t which;
    std::vector<size_t> given;  // inputs of the backward op: indices of forward inputs, or 99 for dy
    double tolerance = 5e-3;
  };
  const std::string conv = R"({"kernel_size":[3,2],"stride":[2,1],"padding":[1,0],"dilation":[1,2],"groups":2}})";
  const std::string pool = R"("kernel_size":[2,2],"stride":[2,2],"padding":[0,0]}})";
  std::vector<Case> cases;
  for (const char* a : {"Gelu", "GeluApprox", "Silu", "Sigmoid", "Tanh", "Exp", "Sin", "Cos", "Tan", "Atan", "Neg"})
    cases.push_back({std::string(R"({"Activation":")") + a + "\"}",
                     std::string(R"({"ActivationBackward":{"kind":")") + a + "\"}}",
                     {random_in({2, 5}, 9)},
                     {2, 5},
                     0,
                     {0, 99}});
  for (const char* a : {"Log", "Sqrt", "Rsqrt"})
    cases.push_back({std::string(R"({"Activation":")") + a + "\"}",
                     std::string(R"({"ActivationBackward":{"kind":")") + a + "\"}}",
                     {random_in({2, 5}, 9, 0.5, 2)},
                     {2, 5},
                     0,
                     {0, 99}});
  cases.push_back({R"({"Activation":"Relu"})", "\"ReluBackward\"", {{{4}, {-1, 2, 0.5, -0.5}}}, {4}, 0, {0, 99}});
  const In x = random_in({2, 3, 6}, 10), g = random_in({6}, 11), b = random_in({6}, 12);
  const std::string eps = R"({"axis":-1,"eps":1e-5}})";
  cases.push_back({R"({"LayerNorm":)" + eps, R"({"LayerNormBackwardInput":)" + eps, {x, g, b}, {2, 3, 6}, 0, {0, 1, 99}, 2e-2});
  cases.push_back({R"({"LayerNorm":)" + eps, R"({"LayerNormBackwardGamma":)" + eps, {x, g, b}, {2, 3, 6}, 1, {0, 99}});
  cases.push_back({R"({"RmsNorm":)" + eps, R"({"RmsNormBackwardInput":)" + eps, {x, g, b}, {2, 3, 6}, 0, {0, 1, 2, 99}, 2e-2});
  cases.push_back({R"({"RmsNorm":)" + eps, R"({"RmsNormBackwardGamma":)" + eps, {x, g, b}, {2, 3, 6}, 1, {0, 1, 2, 99}});
  cases.push_back({R"({"RmsNorm":)" + eps, R"({"RmsNormBackwardBeta":)" + eps, {x, g, b}, {2, 3, 6}, 2, {0, 1, 2, 99}});
  const In image = random_in({1, 4, 4, 5}, 13), c = random_in({4}, 14), s = random_in({4}, 15);
  const std::string groups = R"({"num_groups":2,"eps":1e-5}})";
  cases.push_back({R"({"GroupNorm":)" + groups,
                   R"({"GroupNormBackwardInput":)" + groups,
                   {image, c, s},
                   {1, 4, 4, 5},
                   0,
                   {0, 1, 2, 99},
                   2e-2});
  cases.push_back(
      {R"({"GroupNorm":)" + groups, R"({"GroupNormBackwardGamma":)" + groups, {image, c, s}, {1, 4, 4, 5}, 1, {0, 99}});
  cases.push_back(
      {R"({"GroupNorm":)" + groups, R"({"GroupNormBackwardBeta":)" + groups, {image, c, s}, {1, 4, 4, 5}, 2, {0, 99}});
  const In w = random_in({6, 2, 3, 2}, 16);
  cases.push_back({R"({"Conv":)" + conv, R"({"Conv2dBackwardInput":)" + conv, {image, w}, {1, 6, 2, 3}, 0, {99, 1}});
  cases.push_back({R"({"Conv":)" + conv, R"({"Conv2dBackwardWeight":)" + conv, {image, w}, {1, 6, 2, 3}, 1, {0, 99}});
  cases.push_back({R"({"Pool":{"kind":"Max",)" + pool, R"({"MaxPool2dBackward":{)" + pool, {image}, {1, 4, 2, 2}, 0, {0, 99}});
  cases.push_back({R"({"Cumsum":{"axis":1,"exclusive":true}})",
                   R"({"CumsumBackward":{"axis":1,"exclusive":true}})",
                   {x},
                   {2, 3, 6},
                   0,
                   {99}});
  cases.push_back({R"({"Rope":{"head_dim":6,"n_rot":4}})",
                   R"({"RopeBackward":{"head_dim":6,"n_rot":4}})",
                   {x, random_in({3, 2}, 17), random_in({3, 2}, 18)},
                   {2, 3, 6},
                   0,
                   {99, 1, 2}});
  cases.push_back({R"({"Gather":{"axis":1}})", R"({"GatherBackward":{"axis":1}})", {x, {{2}, {2, 0}}}, {2, 2, 6}, 0, {99, 1}});
  cases.push_back({"\"SoftmaxCrossEntropyWithLogits\"",
                   "\"SoftmaxCrossEntropyBackward\"",
                   {random_in({3, 4}, 19), {{3}, {1, 0, 3}}},
                   {3},
                   0,
                   {0, 1, 99}});
  const In q = random_in({1, 3, 8}, 20), k = random_in({1, 4, 8}, 21), v = random_in({1, 4, 8}, 22),
           bias = random_in({1, 2, 3, 4}, 23);
  for (const auto& [wrt, which] : {std::pair{"Query", size_t{0}}, {"Key", size_t{1}}, {"Value", size_t{2}}})
    for (const std::string mask : {"\"Causal\"", "{\"SlidingWindow\":1}", "\"Bias\""}) {
      const std::string a = R"("num_heads":2,"head_dim":4,"mask_kind":)" + mask;
      std::vector<In> in{q, k, v};
      std::vector<size_t> given{0, 1, 2, 99};
      if (mask == "\"Bias\"") in.push_back(bias), given.push_back(3);
      cases.push_back({"{\"Attention\":{" + a + "}}",
                       "{\"AttentionBackward\":{" + a + R"(,"wrt":")" + wrt + "\"}}",
                       in,
                       {1, 3, 8},
                       which,
                       given});
    }
  for (const Case& test : cases) {
    INFO(test.backward);
    const In dy = random_in(test.result, 30);
    std::vector<In> given;
    for (size_t i : test.given) given.push_back(i == 99 ? dy : test.inputs[i]);
    close(one(test.backward, given, test.inputs[test.which].dims),
          numeric_gradient(test.forward, test.inputs, test.result, dy.values, test.which), test.tolerance);
  }
}

TEST_CASE("slices added at rows") {
  CHECK(one("\"ScatterAdd\"", {{{3, 2}, {1, 2, 3, 4, 5, 6}}, {{3}, {1, 0, 1}}}, {3, 2}) == Reals{3, 4, 6, 8, 0, 0});
}

TEST_CASE("loops and scans") {
  const auto body = [](const std::string& op) { return ReferenceLines().input("x", {2}).add(op, {0, 0}, {2}).graph(); };
  const auto small = [](const char* limit) {  // all x < limit
    return ReferenceLines()
        .input("x", {2})
        .add(std::string(R"({"Constant":{"data":)") + limit + "}}", {}, {})
        .add(R"({"Compare":"Lt"})", {0, 1}, {2}, "Bool")
        .graph();
  };
  const std::string hundred = "[0,0,200,66]";
  // x doubles while both are less than 100.
  const std::string loop = R"({"While":{"cond":)" + small(hundred.c_str()) + R"(,"body":)" + body(R"({"Binary":"Add"})");
  CHECK(one(loop + "}}", {{{2}, {3, 5}}}, {2}) == Reals{96, 160});
  CHECK(one(loop + R"(,"max_iterations":2}})", {{{2}, {3, 5}}}, {2}) == Reals{12, 20});
  CHECK(one(loop + "}}", {{{2}, {300, 5}}}, {2}) == Reals{300, 5});
  // s = s * shared + slice.
  const std::string step = ReferenceLines()
                               .input("s", {2})
                               .input("b", {2})
                               .input("x", {2})
                               .add(R"({"Binary":"Mul"})", {0, 1}, {2})
                               .add(R"({"Binary":"Add"})", {3, 2}, {2})
                               .graph();
  const std::vector<In> in{{{2}, {1, 2}}, {{2}, {2, 3}}, {{3, 2}, {1, 1, 0, 1, 2, 0}}};
  const std::string scan = R"({"Scan":{"body":)" + step + R"(,"length":3,"num_bcast":1,"num_xs":1)";
  CHECK(one(scan + R"(,"save_trajectory":false}})", in, {2}) == Reals{14, 66});
  CHECK(one(scan + R"(,"save_trajectory":true}})", in, {3, 2}) == Reals{3, 7, 6, 22, 14, 66});
  CHECK(one(scan + R"(,"save_trajectory":true,"num_checkpoints":2}})", in, {2, 2}) == Reals{6, 22, 14, 66});
  CHECK(one(R"({"Scan":{"body":)" + body(R"({"Binary":"Add"})") + R"(,"length":4,"save_trajectory":false}})", {{{2}, {1, 2}}},
            {2}) == Reals{16, 32});
  // s' = s * x: gradients of the last state, and of all.
  const std::string vjp = ReferenceLines()
                              .input("s", {1})
                              .input("x", {1})
                              .input("d_output", {1})
                              .add(R"({"Binary":"Mul"})", {2, 1}, {1})
                              .add(R"({"Binary":"Mul"})", {2, 0}, {1})
                              .graph("", {3, 4});
  const std::vector<In> back{{{1}, {2}}, {{3, 1}, {6, 24, 120}}, {{1}, {1}}, {{3, 1}, {3, 4, 5}}};
  const std::string walk = R"({"body_vjp":)" + vjp + R"(,"length":3,"save_trajectory":false,"num_xs":1)";
  CHECK(one(R"({"ScanBackward":)" + walk + "}}", back, {1}) == Reals{60});
  CHECK(one(R"({"ScanBackwardXs":)" + walk + R"(,"xs_idx":0}})", back, {3, 1}) == Reals{40, 30, 24});
  auto all = back;
  all[2] = {{3, 1}, {1, 1, 1}};
  const std::string walk_all = R"({"body_vjp":)" + vjp + R"(,"length":3,"save_trajectory":true,"num_xs":1)";
  CHECK(one(R"({"ScanBackward":)" + walk_all + "}}", all, {1}) == Reals{3 + 12 + 60});
  CHECK(one(R"({"CustomFn":{"fwd_body":)" + body(R"({"Binary":"Mul"})") + R"(,"num_inputs":1}})", {{{2}, {3, 5}}}, {2}) ==
        Reals{9, 25});
}

TEST_CASE("recurrences, grids, systems, complex numbers, transforms") {
  // Gated delta net, by its recurrence.
  const size_t b = 1, s = 4, h = 2, w = 3;
  const In q = random_in({1, 4, 2, 3}, 40), k = random_in({1, 4, 2, 3}, 41), v = random_in({1, 4, 2, 3}, 42),
           g = random_in({1, 4, 2}, 43), beta = random_in({1, 4, 2}, 44);
  Reals y(b * s * h * w);
  for (size_t head = 0; head < h; ++head) {
    double state[3][3] = {};
    for (size_t t = 0; t < s; ++t) {
      const size_t at = (t * h + head) * w;
      for (auto& row : state)
        for (double& e : row) e *= std::exp(g.values[t * h + head]);
      double d[3];
      for (size_t j = 0; j < w; ++j) {
        double u = 0;
        for (size_t i = 0; i < w; ++i) u += state[i][j] * k.values[at + i];
        d[j] = (v.values[at + j] - u) * beta.values[t * h + head];
      }
      for (size_t i = 0; i < w; ++i)
        for (size_t j = 0; j < w; ++j) state[i][j] += k.values[at + i] * d[j];
      for (size_t j = 0; j < w; ++j)
        for (size_t i = 0; i < w; ++i) y[at + j] += state[i][j] * q.values[at + i] / std::sqrt(3.0);
    }
  }
  close(one(R"({"GatedDeltaNet":{"state_size":3,"carry_state":false}})", {q, k, v, g, beta}, {1, 4, 2, 3}), y);

  const In x = random_in({1, 6, 8}, 45);
  Reals turned(x.values.size());
  for (size_t t = 0; t < 6; ++t)
    for (size_t pair = 0; pair < 4; ++pair) {
      const double place = static_cast<double>(pair < 2 ? t % 3 : t / 3),
                   angle = place * std::pow(100.0, -4.0 * static_cast<double>(pair % 2) / 8);
      const size_t at = t * 8 + 2 * pair;
      turned[at] = x.values[at] * std::cos(angle) - x.values[at + 1] * std::sin(angle);
      turned[at + 1] = x.values[at] * std::sin(angle) + x.values[at + 1] * std::cos(angle);
    }
  close(one(R"({"AxialRope2d":{"end_x":3,"end_y":2,"head_dim":8,"num_heads":1,"theta":100,"repeat_factor":1}})", {x}, {1, 6, 8}),
        turned);

  close(one("\"DenseSolve\"", {{{2, 2}, {0, 2, 4, 1}}, {{2}, {6, 11}}}, {2}), {2, 3});
  close(one("\"BatchedDenseSolve\"", {{{1, 2, 2}, {2, 1, 1, 3}}, {{1, 2, 1}, {5, 10}}}, {1, 2, 1}), {1, 3});
  close(one(R"({"TriangularSolve":{"lower":true,"transpose":false}})", {{{2, 2}, {2, 9, 1, 4}}, {{2, 1}, {2, 9}}}, {2, 1}),
        {1, 2});

  // Complex numbers: created from real parts by a cast, read through their squared norms.
  ReferenceLines c;
  c.input("x", {3})
      .input("g", {3})
      .add(R"({"Cast":{"to":"C64"}})", {0}, {3}, "C64")
      .add(R"({"Fft":{"inverse":false,"norm":"Backward"}})", {2}, {3}, "C64");
  c.add("\"Conjugate\"", {3}, {3}, "C64")
      .add("\"ComplexNormSq\"", {4}, {3})
      .add("\"ComplexNormSqBackward\"", {3, 1}, {3}, "C64")
      .add("\"ComplexNormSq\"", {6}, {3});
  const auto got = run(c.graph("", {5, 7}), {f32({3}, {1, 2, 4}), f32({3}, {1, 2, 3})});
  close(got[0], {49, 7, 7});
  close(got[1], {49, 28, 63});
  // Planar: [re.., im..] of (1,2,4) and its inverse.
  close(one(R"({"Fft":{"inverse":false,"norm":"Backward"}})", {{{6}, {1, 2, 4, 0, 0, 0}}}, {6}),
        {7, -2, -2, 0, 1.7320508, -1.7320508});
  close(one(R"({"Fft":{"inverse":true,"norm":"Forward"}})", {{{6}, {7, -2, -2, 0, 1.7320508, -1.7320508}}}, {6}),
        {1, 2, 4, 0, 0, 0});
}

TEST_CASE("sampling follows its distribution") {
  const Reals logits{0, 1, 2, 0.5, 3, 1.5};
  const auto draw = [&](int seed, const std::string& how) {
    return one(R"({"Sample":{"seed":)" + std::to_string(seed) + "," + how + "}}", {{{1, 6}, logits}}, {1})[0];
  };
  Reals seen(6, 0);
  double total = 0;
  for (double l : logits) total += std::exp(l);
  for (int seed = 1; seed <= 400; ++seed) {
    ++seen[static_cast<size_t>(draw(seed, R"("top_k":0,"top_p":1.0,"temperature":1.0)"))];
    if (seed > 40) continue;
    const double two = draw(seed, R"("top_k":2,"top_p":1.0,"temperature":1.0)"),
                 most = draw(seed, R"("top_k":0,"top_p":0.5,"temperature":1.0)");
    CHECK((two == 4 || two == 2));
    CHECK(most == 4);  // its probability alone exceeds one half
    CHECK(draw(seed, R"("top_k":0,"top_p":1.0,"temperature":0.01)") == 4);
  }
  for (size_t i = 0; i < 6; ++i) CHECK(std::abs(seen[i] / 400 - std::exp(logits[i]) / total) < 0.08);
}

TEST_CASE("blocks of a transformer are the sum of their parts") {
  const std::string attention = R"("num_heads":2,"head_dim":4,"has_bias":true)";
  ReferenceLines l;
  std::vector<HostValue> values;
  const auto input = [&](std::vector<int> dims, double low = -1) {
    const In x = random_in(dims, 60 + static_cast<uint64_t>(l.count), low);
    values.push_back(tensor_of(DType::F32, {dims.begin(), dims.end()}, x.values));
    l.input("x" + std::to_string(l.count), dims);
    return l.count - 1;
  };
  const int x = input({1, 3, 8}), qkv = input({8, 24}), qkv_b = input({24}), out = input({8, 8}), out_b = input({8}),
            g1 = input({8}), b1 = input({8}), fc1 = input({8, 16}), fc1_b = input({16}), fc2 = input({16, 8}), fc2_b = input({8}),
            g2 = input({8}), b2 = input({8}), mask = input({1, 3}, 0.2);
  const auto add = [&](const std::string& op, const std::vector<int>& in, const std::vector<int>& dims) {
    return l.add(op, in, dims), l.count - 1;
  };
  const int block =
      add(R"({"FusedAttentionBlock":{)" + attention + R"(,"has_rope":false}})", {x, qkv, out, mask, qkv_b, out_b}, {1, 3, 8});
  const int layer = add(
      R"({"FusedTransformerLayer":{)" + attention + R"(,"intermediate_size":16,"eps1":1e-5,"eps2":1e-5,"activation":"Gelu"}})",
      {x, qkv, qkv_b, out, out_b, g1, b1, fc1, fc1_b, fc2, fc2_b, g2, b2, mask}, {1, 3, 8});
  const std::string sum = R"({"Binary":"Add"})", norm = R"({"LayerNorm":{"axis":-1,"eps":1e-5}})";
  const int p = add(sum, {add("\"MatMul\"", {x, qkv}, {1, 3, 24}), qkv_b}, {1, 3, 24});
  std::vector<int> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(add(R"({"Narrow":{"axis":2,"start":)" + std::to_string(8 * i) + R"(,"len":8}})", {p}, {1, 3, 8}));
  const int a =
      add(R"({"Attention":{"num_heads":2,"head_dim":4,"mask_kind":"Custom"}})", {parts[0], parts[1], parts[2], mask}, {1, 3, 8});
  const int o = add(sum, {add("\"MatMul\"", {a, out}, {1, 3, 8}), out_b}, {1, 3, 8});
  const int h = add(norm, {add(sum, {o, x}, {1, 3, 8}), g1, b1}, {1, 3, 8});
  const int f =
      add(R"({"Activation":"Gelu"})", {add(sum, {add("\"MatMul\"", {h, fc1}, {1, 3, 16}), fc1_b}, {1, 3, 16})}, {1, 3, 16});
  const int z = add(sum, {add("\"MatMul\"", {f, fc2}, {1, 3, 8}), fc2_b}, {1, 3, 8});
  const int y = add(norm, {add(sum, {z, h}, {1, 3, 8}), g2, b2}, {1, 3, 8});
  const auto got = run(l.graph("", {block, o, layer, y}), values);
  close(got[0], got[1]);
  close(got[2], got[3]);
}
