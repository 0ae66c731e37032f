#include <cmath>

#include "support/onnx_model.h"

namespace rlxc {
namespace {

using namespace test;

struct Shape {
  int64_t batch, q_heads, kv_heads, queries, keys, size;
};

// softmax(scale * q k^T + bias) v by its definition; bias(b, h, i, j) is -inf for a hidden key.
template <class Bias>
std::vector<double> expected(const Shape& s, const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& v, double softcap, Bias bias) {
  std::vector<double> y;
  const int64_t group = s.q_heads / s.kv_heads;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.q_heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> p(static_cast<size_t>(s.keys));
        double sum = 0;
        const auto row = [&](const std::vector<double>& x, int64_t heads, int64_t head, int64_t length, int64_t at) {
          return x.data() + ((b * heads + head) * length + at) * s.size;
        };
        for (int64_t j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < s.size; ++d)
            dot += row(q, s.q_heads, h, s.queries, i)[d] * row(k, s.kv_heads, h / group, s.keys, j)[d];
          dot /= std::sqrt(static_cast<double>(s.size));
          if (softcap > 0) dot = softcap * std::tanh(dot / softcap);
          sum += p[static_cast<size_t>(j)] = std::exp(dot + bias(b, h, i, j));
        }
        for (int64_t d = 0; d < s.size; ++d) {
          double e = 0;
          for (int64_t j = 0; j < s.keys; ++j) e += p[static_cast<size_t>(j)] / sum * row(v, s.kv_heads, h / group, s.keys, j)[d];
          y.push_back(e);
        }
      }
  return y;
}

constexpr double kHidden = -std::numeric_limits<double>::infinity();
const Shape kShape{2, 4, 2, 3, 5, 8};
const std::vector<double> kQ = some(2 * 4 * 3 * 8, 1), kK = some(2 * 2 * 5 * 8, 2), kV = some(2 * 2 * 5 * 8, 3);

OnnxModel heads_model() {
  OnnxModel m;
  m.input("q", DType::F32, {2, 4, 3, 8}, kQ);
  m.input("k", DType::F32, {2, 2, 5, 8}, kK);
  m.input("v", DType::F32, {2, 2, 5, 8}, kV);
  return m;
}

}  // namespace

TEST_CASE("attention: shared heads, masks, caps") {
  const std::vector<double> mask = some(3 * 5, 4);
  {
    auto m = heads_model();
    m.input("mask", DType::F32, {3, 5}, mask);
    m.add(node("Attention", {"q", "k", "v", "mask"}, {"y"}, {attribute("softcap", 0.7)}));
    m.output("y");
    check_close(m.run()[0], expected(kShape, kQ, kK, kV, 0.7, [&](int64_t, int64_t, int64_t i, int64_t j) {
                  return mask[static_cast<size_t>(i * 5 + j)];
                }));
  }
  {
    auto m = heads_model();  // a mask that is shorter than the keys hides the rest; causal from the top left
    m.input("mask", DType::Bool, {2, 1, 3, 4}, {1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0});
    m.add(node("Attention", {"q", "k", "v", "mask"}, {"y"}, {attribute("is_causal", 1)}));
    m.output("y");
    const std::vector<double> keep{1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0};
    check_close(m.run()[0], expected(kShape, kQ, kK, kV, 0, [&](int64_t b, int64_t, int64_t i, int64_t j) {
                  return j < 4 && j <= i && keep[static_cast<size_t>((b * 3 + i) * 4 + j)] != 0 ? 0 : kHidden;
                }));
  }
  {
    auto m = heads_model();
    m.input("lengths", DType::I64, {2}, {2, 5});
    m.add(node("Attention", {"q", "k", "v", "", "", "", "lengths"}, {"y"}));
    m.output("y");
    check_close(m.run()[0], expected(kShape, kQ, kK, kV, 0,
                                     [&](int64_t b, int64_t, int64_t, int64_t j) { return j < (b == 0 ? 2 : 5) ? 0 : kHidden; }));
  }
}

TEST_CASE("attention: windows, and causal masks at the end of a cache") {
  // Batch 0 has four keys, batch 1 all five; the three queries are the last ones.
  const std::vector<int64_t> lengths{4, 5};
  const auto run = [&](const std::vector<std::string>& attributes) {
    auto m = heads_model();
    m.input("lengths", DType::I64, {2}, {4, 5});
    m.add(node("Attention", {"q", "k", "v", "", "", "", "lengths"}, {"y"}, attributes));
    m.output("y");
    return m.run()[0];
  };
  const auto seen = [&](int64_t left, int64_t right) {
    return expected(kShape, kQ, kK, kV, 0, [&](int64_t b, int64_t, int64_t i, int64_t j) {
      const int64_t length = lengths[static_cast<size_t>(b)], at = i + length - 3;
      return j < length && (left < 0 || j >= at - left) && (right < 0 || j <= at + right) ? 0 : kHidden;
    });
  };
  check_close(run({attribute("is_causal", 1)}), seen(-1, 0));
  check_close(run({attribute("left_window_size", 1), attribute("right_window_size", 1)}), seen(1, 1));
  check_close(run({attribute("left_window_size", 0), attribute("is_causal", 1)}), seen(0, 0));
  check_close(run({attribute("local_window_size", 2)}), seen(1, 0));
}

TEST_CASE("attention: a mask of three axes is one of each batch where it cannot be one of each head") {
  const std::vector<double> mask = some(2 * 3 * 5, 7);
  auto m = heads_model();
  m.input("mask", DType::F32, {2, 3, 5}, mask);
  m.add(node("Attention", {"q", "k", "v", "mask"}, {"y"}));
  m.output("y");
  check_close(m.run()[0], expected(kShape, kQ, kK, kV, 0, [&](int64_t b, int64_t, int64_t i, int64_t j) {
                return mask[static_cast<size_t>((b * 3 + i) * 5 + j)];
              }));
}

// Output modes: 0 matmul, 1 with softcap, 2 with masks, 3 probabilities. A query without visible keys yields zeros.
TEST_CASE("attention: the scores at each stage") {
  const std::vector<double> keep{1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
  const auto scores = [&](int mode) {
    auto m = heads_model();
    m.input("mask", DType::Bool, {3, 5}, keep);
    m.add(node("Attention", {"q", "k", "v", "mask"}, {"y", "", "", "s"},
               {attribute("softcap", 0.7), attribute("qk_matmul_output_mode", mode)}));
    m.output("y");
    m.output("s");
    return m.run();
  };
  const auto raw = scores(0)[1], cap = scores(1)[1], masked = scores(2)[1], all = scores(3)[1];
  REQUIRE(raw.size() == 2 * 4 * 3 * 5);
  for (size_t i = 0; i < raw.size(); ++i) {
    const size_t at = i % 15, row = i / 5 * 5;
    CHECK(cap[i] == doctest::Approx(0.7 * std::tanh(raw[i] / 0.7)).epsilon(1e-4));
    if (keep[at] != 0) CHECK(masked[i] == doctest::Approx(cap[i]).epsilon(1e-5));
    else CHECK(masked[i] == kHidden);
    double sum = 0;
    for (size_t j = row; j < row + 5; ++j)
      if (keep[j % 15] != 0) sum += std::exp(cap[j]);
    CHECK(all[i] == doctest::Approx(keep[at] != 0 ? std::exp(cap[i]) / sum : 0).epsilon(1e-4));
  }
  const auto y = scores(3)[0];
  for (size_t d = 8; d < 16; ++d) CHECK(y[d] == 0);
}

TEST_CASE("attention: a past, and what it leaves for the next step") {
  auto m = heads_model();
  const auto pk = some(2 * 2 * 2 * 8, 5), pv = some(2 * 2 * 2 * 8, 6);
  m.input("pk", DType::F32, {2, 2, 2, 8}, pk);
  m.input("pv", DType::F32, {2, 2, 2, 8}, pv);
  m.add(node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "nk", "nv", "s"},
             {attribute("is_causal", 1), attribute("qk_matmul_output_mode", 3)}));
  for (const char* name : {"y", "nk", "nv", "s"}) m.output(name);
  const auto joined = [](const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> out;
    for (size_t i = 0; i < 4; ++i) {
      out.insert(out.end(), a.begin() + static_cast<long>(i * 16), a.begin() + static_cast<long>(i * 16 + 16));
      out.insert(out.end(), b.begin() + static_cast<long>(i * 40), b.begin() + static_cast<long>(i * 40 + 40));
    }
    return out;
  };
  const auto k = joined(pk, kK), v = joined(pv, kV),
             r = expected({2, 4, 2, 3, 7, 8}, kQ, k, v, 0,
                          [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 2 ? 0 : kHidden; });
  const auto got = m.run();
  check_close(got[0], r);
  check_close(got[1], k);
  check_close(got[2], v);
  REQUIRE(got[3].size() == 2 * 4 * 3 * 7);
  for (size_t i = 0; i < 24; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 7; ++j) sum += got[3][i * 7 + j];
    CHECK(sum == doctest::Approx(1));
    CHECK(got[3][i * 7 + 6] == 0);
  }
}

TEST_CASE("attention of com.microsoft: packed heads, biases, key masks") {
  OnnxModel m;
  m.opset("com.microsoft", 1);
  const auto q = some(2 * 3 * 8, 7), k = some(2 * 5 * 8, 8), v = some(2 * 5 * 8, 9), bias = some(24, 10);
  const std::vector<double> mask{1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
  m.input("q", DType::F32, {2, 3, 8}, q);
  m.input("k", DType::F32, {2, 5, 8}, k);
  m.input("v", DType::F32, {2, 5, 8}, v);
  m.input("bias", DType::F32, {24}, bias);
  m.input("mask", DType::I32, {2, 5}, mask);
  m.add(node("MultiHeadAttention", {"q", "k", "v", "bias", "mask"}, {"y"}, {attribute("num_heads", 2)}, "com.microsoft"));
  m.output("y");
  const auto split = [&](const std::vector<double>& x, int64_t length, size_t from) {  // [2,length,2*4] + bias -> [2,2,length,4]
    std::vector<double> out;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t i = 0; i < length; ++i)
          for (int64_t d = 0; d < 4; ++d)
            out.push_back(x[static_cast<size_t>((b * length + i) * 8 + h * 4 + d)] + bias[from + static_cast<size_t>(h * 4 + d)]);
    return out;
  };
  const auto y =
      expected({2, 2, 2, 3, 5, 4}, split(q, 3, 0), split(k, 5, 8), split(v, 5, 16), 0,
               [&](int64_t b, int64_t, int64_t, int64_t j) { return mask[static_cast<size_t>(b * 5 + j)] != 0 ? 0 : kHidden; });
  std::vector<double> packed;
  for (size_t b = 0; b < 2; ++b)
    for (size_t i = 0; i < 3; ++i)
      for (size_t h = 0; h < 2; ++h)
        for (size_t d = 0; d < 4; ++d) packed.push_back(y[((b * 2 + h) * 3 + i) * 4 + d]);
  check_close(m.run()[0], packed);
}

TEST_CASE("linear attention: the gated delta rule, step by step") {
  const size_t steps = 4, heads = 2, dk = 3, dv = 2;
  const auto q = some(steps * 4 * dk, 11), k = some(steps * heads * dk, 12), v = some(steps * heads * dv, 13),
             decay = some(steps * heads, 14), beta = some(steps * heads, 15), past = some(heads * dk * dv, 16);
  OnnxModel m(27);
  m.input("q", DType::F32, {1, 4, 12}, q);
  m.input("k", DType::F32, {1, 4, 6}, k);
  m.input("v", DType::F32, {1, 4, 4}, v);
  m.input("past", DType::F32, {1, 2, 3, 2}, past);
  m.input("decay", DType::F32, {1, 4, 2}, decay);
  m.input("beta", DType::F32, {1, 4, 2}, beta);
  m.add(node("LinearAttention", {"q", "k", "v", "past", "decay", "beta"}, {"y", "state"},
             {attribute("q_num_heads", 4), attribute("kv_num_heads", 2)}));
  m.output("y");
  m.output("state");
  std::vector<double> state = past, y;
  for (size_t t = 0; t < steps; ++t) {
    for (size_t h = 0; h < heads; ++h) {
      double* s = state.data() + h * dk * dv;
      for (size_t i = 0; i < dk * dv; ++i) s[i] *= std::exp(decay[t * heads + h]);
      for (size_t j = 0; j < dv; ++j) {
        double held = 0;
        for (size_t i = 0; i < dk; ++i) held += s[i * dv + j] * k[(t * heads + h) * dk + i];
        const double write = beta[t * heads + h] * (v[(t * heads + h) * dv + j] - held);
        for (size_t i = 0; i < dk; ++i) s[i * dv + j] += k[(t * heads + h) * dk + i] * write;
      }
    }
    for (size_t h = 0; h < 4; ++h)
      for (size_t j = 0; j < dv; ++j) {
        double e = 0;
        for (size_t i = 0; i < dk; ++i) e += q[(t * 4 + h) * dk + i] * state[(h / 2) * dk * dv + i * dv + j];
        y.push_back(e / std::sqrt(3.0));
      }
  }
  const auto got = m.run();
  check_close(got[0], y);
  check_close(got[1], state);
}

TEST_CASE("rotary embedding, caches, causal convolution") {
  OnnxModel m(27);
  const auto x = some(2 * 3 * 8, 17);
  m.input("x", DType::F32, {2, 3, 8}, x);  // two heads of four
  m.input("cos", DType::F32, {5, 2}, some(10, 18));
  m.input("sin", DType::F32, {5, 2}, some(10, 19));
  m.input("at", DType::I64, {2, 3}, {0, 1, 4, 2, 2, 3});
  m.add(node("RotaryEmbedding", {"x", "cos", "sin", "at"}, {"y"}, {attribute("num_heads", 2)}));
  m.output("y");
  m.input("cache", DType::F32, {2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8});
  m.input("update", DType::F32, {2, 2, 1}, {10, 11, 12, 13});
  m.input("from", DType::I64, {2}, {1, 3});
  m.add(node("TensorScatter", {"cache", "update", "from"}, {"z"}, {attribute("mode", "circular")}));
  m.output("z");
  m.input("c", DType::F32, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  m.input("w", DType::F32, {2, 1, 2}, {1, 10, 1, 100});
  m.input("state", DType::F32, {1, 2, 1}, {7, 8});
  m.add(node("CausalConvWithState", {"c", "w", "", "state"}, {"conv", "next"}));
  m.output("conv");
  m.output("next");
  const auto got = m.run();
  const auto cos = some(10, 18), sin = some(10, 19);
  const int at[] = {0, 1, 4, 2, 2, 3};
  std::vector<double> y = x;
  for (size_t row = 0; row < 6; ++row)
    for (size_t h = 0; h < 2; ++h)
      for (size_t i = 0; i < 2; ++i) {
        const double c = cos[static_cast<size_t>(at[row]) * 2 + i], s = sin[static_cast<size_t>(at[row]) * 2 + i];
        const size_t a = row * 8 + h * 4 + i;
        y[a] = x[a] * c - x[a + 2] * s;
        y[a + 2] = x[a + 2] * c + x[a] * s;
      }
  check_close(got[0], y);
  CHECK(got[1] == std::vector<double>{1, 10, 11, 4, 13, 6, 7, 12});
  CHECK(got[2] == std::vector<double>{17, 21, 32, 408, 504, 605});
  CHECK(got[3] == std::vector<double>{3, 6});
}

}  // namespace rlxc
