#include <cmath>

#include "support/onnx_model.h"

namespace rlxc {
namespace {

using namespace test;

OnnxModel microsoft() {
  OnnxModel m(17);
  m.opset("com.microsoft", 1);
  m.opset("ai.onnx.ml", 3);
  return m;
}

}  // namespace

TEST_CASE("weights of four bits in blocks") {
  auto m = microsoft();
  const auto x = some(2 * 20, 1), scales = some(3 * 2, 2);
  std::vector<double> bytes, zeros{0x97, 0x58, 0x6A};
  for (size_t i = 0; i < 3 * 2 * 8; ++i) bytes.push_back(static_cast<double>(i * 37 % 256));
  m.input("x", DType::F32, {2, 20}, x);
  m.input("w", DType::U8, {3, 2, 8}, bytes);
  m.input("scales", DType::F32, {6}, scales);
  m.input("zeros", DType::U8, {3}, zeros);
  const std::vector<std::string> attributes{attribute("K", 20), attribute("N", 3), attribute("bits", 4), attribute("block_size", 16)};
  m.add(node("MatMulNBits", {"x", "w", "scales", "zeros"}, {"y"}, attributes, "com.microsoft"));
  m.add(node("MatMulNBits", {"x", "w", "scales"}, {"z"}, attributes, "com.microsoft"));
  m.output("y");
  m.output("z");
  std::vector<double> y, z;
  for (size_t r = 0; r < 2; ++r)
    for (size_t n = 0; n < 3; ++n) {
      double with = 0, without = 0;
      for (size_t k = 0; k < 20; ++k) {
        const size_t block = k / 16;
        const int byte = static_cast<int>(bytes[(n * 2 + block) * 8 + k % 16 / 2]), q = k % 2 == 0 ? byte & 15 : byte >> 4;
        const int zero = block == 0 ? static_cast<int>(zeros[n]) & 15 : static_cast<int>(zeros[n]) >> 4;
        with += x[r * 20 + k] * (q - zero) * scales[n * 2 + block];
        without += x[r * 20 + k] * (q - 8) * scales[n * 2 + block];
      }
      y.push_back(with);
      z.push_back(without);
    }
  const auto got = m.run();
  check_close(got[0], y);
  check_close(got[1], z);
}

TEST_CASE("norms with a skip connection, activations, quantised sums") {
  auto m = microsoft();
  const auto x = some(2 * 3 * 4, 3), skip = some(2 * 3 * 4, 4), gamma = some(4, 5), beta = some(4, 6), bias = some(4, 7);
  m.input("x", DType::F32, {2, 3, 4}, x);
  m.input("skip", DType::F32, {2, 3, 4}, skip);
  m.input("gamma", DType::F32, {4}, gamma);
  m.input("beta", DType::F32, {4}, beta);
  m.input("bias", DType::F32, {4}, bias);
  m.add(node("SkipLayerNormalization", {"x", "skip", "gamma", "beta", "bias"}, {"ln", "", "", "sum"}, {attribute("epsilon", 1e-5)}, "com.microsoft"));
  m.add(node("SkipSimplifiedLayerNormalization", {"x", "skip", "gamma", "bias"}, {"rms"}, {attribute("epsilon", 1e-5)}, "com.microsoft"));
  m.add(node("BiasGelu", {"x", "bias"}, {"gelu"}, {}, "com.microsoft"));
  m.add(node("QuickGelu", {"x"}, {"quick"}, {}, "com.microsoft"));
  m.input("a", DType::U8, {3}, {10, 128, 250});
  m.input("b", DType::U8, {3}, {20, 60, 255});
  for (const auto& [name, v] : {std::pair{"as", 0.1}, {"bs", 0.05}, {"ys", 0.2}}) m.input(name, DType::F32, {}, {v});
  for (const auto& [name, v] : {std::pair{"az", 128.0}, {"bz", 60.0}, {"yz", 100.0}}) m.input(name, DType::U8, {}, {v});
  m.add(node("QLinearAdd", {"a", "as", "az", "b", "bs", "bz", "ys", "yz"}, {"q"}, {}, "com.microsoft"));
  for (const char* name : {"ln", "sum", "rms", "gelu", "quick", "q"}) m.output(name);
  std::vector<double> ln(24), sum(24), rms(24), gelu(24), quick(24);
  for (size_t row = 0; row < 6; ++row) {
    double mean = 0, square = 0, variance = 0;
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = row * 4 + i;
      sum[at] = x[at] + skip[at] + bias[i];
      mean += sum[at] / 4;
      square += sum[at] * sum[at] / 4;
      const double g = x[at] + bias[i];
      gelu[at] = g * (1 + std::erf(g / std::sqrt(2.0))) / 2;
      quick[at] = x[at] / (1 + std::exp(-1.702 * x[at]));
    }
    for (size_t i = 0; i < 4; ++i) variance += (sum[row * 4 + i] - mean) * (sum[row * 4 + i] - mean) / 4;
    for (size_t i = 0; i < 4; ++i) {
      ln[row * 4 + i] = (sum[row * 4 + i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
      rms[row * 4 + i] = sum[row * 4 + i] / std::sqrt(square + 1e-5) * gamma[i];
    }
  }
  const auto got = m.run();
  check_close(got[0], ln);
  check_close(got[1], sum);
  check_close(got[2], rms);
  check_close(got[3], gelu);
  check_close(got[4], quick);
  CHECK(got[5] == std::vector<double>{31, 100, 210});  // (-11.8-2)/0.2+100, 100, (12.2+9.75)/0.2+100
}

TEST_CASE("attention with shared heads and rotary embedding is the sum of its parts") {
  auto m = microsoft();
  m.input("q", DType::F32, {1, 3, 8}, some(24, 8));
  m.input("k", DType::F32, {1, 3, 4}, some(12, 9));
  m.input("v", DType::F32, {1, 3, 4}, some(12, 10));
  m.input("cos", DType::F32, {8, 2}, some(16, 11));
  m.input("sin", DType::F32, {8, 2}, some(16, 12));
  m.input("last", DType::I32, {1}, {2});
  m.input("total", DType::I32, {}, {3});
  m.input("at", DType::I64, {1, 3}, {0, 1, 2});
  m.add(node("GroupQueryAttention", {"q", "k", "v", "", "", "last", "total", "cos", "sin"}, {"y", "nk", "nv"},
             {attribute("num_heads", 2), attribute("kv_num_heads", 1), attribute("do_rotary", 1)}, "com.microsoft"));
  m.add(node("RotaryEmbedding", {"q", "at", "cos", "sin"}, {"rq"}, {attribute("num_heads", 2)}, "com.microsoft"));
  m.add(node("RotaryEmbedding", {"k", "at", "cos", "sin"}, {"rk"}, {attribute("num_heads", 1)}, "com.microsoft"));
  m.add(node("Attention", {"rq", "rk", "v"}, {"z"}, {attribute("q_num_heads", 2), attribute("kv_num_heads", 1), attribute("is_causal", 1)}));
  m.output("y");
  m.output("z");
  const auto got = m.run();
  check_close(got[0], got[1]);
}

TEST_CASE("trees, linear models and scalers of ai.onnx.ml") {
  auto m = microsoft();
  m.input("x", DType::F32, {3, 2}, {0.2, 5, 0.7, -1, 0.7, 3});
  // Tree 0: x0 <= 0.5 ? 1 : (x1 <= 0 ? 2 : 4); tree 1: a leaf of 10.
  m.add(node("TreeEnsembleRegressor", {"x"}, {"tree"},
             {attribute("nodes_treeids", std::vector<int64_t>{0, 0, 0, 0, 0, 1}), attribute("nodes_nodeids", std::vector<int64_t>{0, 1, 2, 3, 4, 0}),
              attribute("nodes_featureids", std::vector<int64_t>{0, 0, 1, 0, 0, 0}), attribute("nodes_values", std::vector<double>{0.5, 0, 0, 0, 0, 0}),
              attribute("nodes_truenodeids", std::vector<int64_t>{1, 0, 3, 0, 0, 0}), attribute("nodes_falsenodeids", std::vector<int64_t>{2, 0, 4, 0, 0, 0}),
              attribute("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"}),
              attribute("target_treeids", std::vector<int64_t>{0, 0, 0, 1}), attribute("target_nodeids", std::vector<int64_t>{1, 3, 4, 0}),
              attribute("target_ids", std::vector<int64_t>{0, 0, 0, 0}), attribute("target_weights", std::vector<double>{1, 2, 4, 10})},
             "ai.onnx.ml"));
  m.add(node("LinearRegressor", {"x"}, {"line"}, {attribute("coefficients", std::vector<double>{2, 1}), attribute("intercepts", std::vector<double>{0.5})}, "ai.onnx.ml"));
  m.add(node("Scaler", {"x"}, {"scaled"}, {attribute("offset", std::vector<double>{0.2, 1}), attribute("scale", std::vector<double>{10, 2})}, "ai.onnx.ml"));
  m.add(node("Binarizer", {"x"}, {"binary"}, {attribute("threshold", 0.5)}, "ai.onnx.ml"));
  for (const char* name : {"tree", "line", "scaled", "binary"}) m.output(name);
  const auto got = m.run();
  check_close(got[0], {11, 12, 14});
  check_close(got[1], {5.9, 0.9, 4.9});
  check_close(got[2], {0, 8, 5, -4, 5, 4});
  CHECK(got[3] == std::vector<double>{0, 1, 1, 0, 1, 1});
}

}  // namespace rlxc
