// Backward ops of the reference format against finite differences of their forward ops.
#include <array>

#include "support/reference_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

In real(std::vector<int> dims, uint64_t seed, double low = -1, double high = 1) {
  In x = random_in(std::move(dims), seed, low, high);
  x.type = DType::F64;
  return x;
}
Reals of(const std::string& op, const std::vector<In>& in, const std::vector<int>& result) { return one(op, in, result, "F64"); }

// Returns the change of sum(dy * op(in)) along each direction of operand `which`: one element, or a symmetric pair.
struct Differences {
  std::string op;
  std::vector<In> in;
  std::vector<int> result;
  In dy;

  double at(size_t which, size_t element, size_t twin) const {
    double total = 0;
    for (double h : {1e-5, -1e-5}) {
      std::vector<In> moved = in;
      moved[which].values[element] += h;
      if (twin != element) moved[which].values[twin] += h;
      const Reals y = of(op, moved, result);
      for (size_t i = 0; i < y.size(); ++i) total += y[i] * dy.values[i] * (h > 0 ? 1 : -1);
    }
    return total / 2e-5;
  }
  Reals by(size_t which) const {
    Reals g(in[which].values.size());
    for (size_t i = 0; i < g.size(); ++i) g[i] = at(which, i, i);
    return g;
  }
  // `g`: the gradient by symmetric matrices [.., n, n].
  void check_symmetric(size_t which, const Reals& g) const {
    const auto n = static_cast<size_t>(in[which].dims.back());
    REQUIRE(g.size() == in[which].values.size());
    for (size_t m = 0; m < g.size(); m += n * n)
      for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j <= i; ++j) {
          const size_t a = m + i * n + j, b = m + j * n + i;
          const double want = at(which, a, b), got = i == j ? g[a] : g[a] + g[b];
          CHECK_MESSAGE(std::abs(got - want) <= 1e-5 * (1 + std::abs(want)), op, " ", i, ",", j, ": ", got, " and ", want);
        }
  }
};
void append(Reals& all, const Reals& more) { all.insert(all.end(), more.begin(), more.end()); }
Reals part(const Reals& all, size_t from, size_t n) {
  return {all.begin() + static_cast<ptrdiff_t>(from), all.begin() + static_cast<ptrdiff_t>(from + n)};
}

In symmetric(int batch, int n, uint64_t seed) {
  In x = real({batch, n, n}, seed);
  for (int m = 0; m < batch; ++m)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j)
        x.values[static_cast<size_t>((m * n + i) * n + j)] = x.values[static_cast<size_t>((m * n + j) * n + i)];
  return x;
}
// Symmetric with eigenvalues above 0.5.
In definite(int batch, int n, uint64_t seed) {
  const In a = real({batch, n, n}, seed);
  In x = a;
  for (int m = 0; m < batch; ++m)
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = i == j ? 0.5 + 0.2 * i : 0;
        for (int k = 0; k < n; ++k)
          sum += a.values[static_cast<size_t>((m * n + i) * n + k)] * a.values[static_cast<size_t>((m * n + j) * n + k)];
        x.values[static_cast<size_t>((m * n + i) * n + j)] = sum;
      }
  return x;
}
In matrix(In x) {  // [1,n,n] as [n,n]
  x.dims.erase(x.dims.begin());
  return x;
}

}  // namespace

TEST_CASE("gradients of modulation and of norms by statistics") {
  const In x = real({2, 3, 4}, 1), scale = real({2, 1, 4}, 2), shift = real({2, 1, 4}, 3), dy = real({2, 3, 4}, 4);
  for (const char* norm : {"LayerNorm", "RmsNorm"}) {
    const std::string attrs = R"({"norm":")" + std::string(norm) + R"(","eps":0.001}})";
    const Differences d{R"({"AdaLayerNorm":)" + attrs, {x, scale, shift}, {2, 3, 4}, dy};
    Reals want = d.by(0);
    append(want, d.by(1)), append(want, d.by(2));
    close(of(R"({"AdaLayerNormBackward":)" + attrs, {x, scale, shift, dy}, {24 + 16}), want);
  }
  const In y = real({2, 3, 4}, 5);
  const Differences gate{R"("GatedResidual")", {x, y, scale}, {2, 3, 4}, dy};
  Reals want = gate.by(0);
  append(want, gate.by(1)), append(want, gate.by(2));
  close(of(R"("GatedResidualBackward")", {x, y, scale, dy}, {56}), want);

  const In gamma = real({4}, 6), beta = real({4}, 7), mean = real({4}, 8), var = real({4}, 9, 0.5, 2);
  const Differences norm{R"({"BatchNormInference":{"eps":0.001}})", {x, gamma, beta, mean, var}, {2, 3, 4}, dy};
  close(of(R"({"BatchNormInferenceBackwardInput":{"eps":0.001}})", {x, gamma, mean, var, dy}, {2, 3, 4}), norm.by(0));
  close(of(R"({"BatchNormInferenceBackwardGamma":{"eps":0.001}})", {x, mean, var, dy}, {4}), norm.by(1));
  close(of(R"("BatchNormInferenceBackwardBeta")", {dy}, {4}), norm.by(2));
}

TEST_CASE("code books and sums of bells") {
  const In x = real({3, 4}, 10), index{{2, 2}, {1, 0, 2, 1}}, book = real({3, 2}, 11), dy = real({3, 2}, 12);
  const std::string kind = R"("kind":{"Codebook":{"entry_dim":2,"num_entries":3}})";
  const Differences d{"{\"SynthMatMul\":{" + kind + "}}", {x, index, book}, {3, 2}, dy};
  close(of("{\"SynthMatMulBackward\":{" + kind + R"(,"wrt":"Dx"}})", {x, index, book, dy}, {3, 4}), d.by(0));
  close(of("{\"SynthMatMulBackward\":{" + kind + R"(,"wrt":"Codebook"}})", {x, index, book, dy}, {3, 2}), d.by(2));

  const std::string bells = R"({"num_basis":5,"grid_min":-2,"grid_max":2}})";
  const In c = real({4, 5}, 13), up = real({3, 4}, 14);
  Reals y(12);
  for (size_t i = 0; i < 12; ++i)
    for (size_t k = 0; k < 5; ++k) {
      const double away = x.values[i] - (-2 + static_cast<double>(k));
      y[i] += c.values[i % 4 * 5 + k] * std::exp(-away * away);
    }
  close(of(R"({"SplineActivation":)" + bells, {x, c}, {3, 4}), y);
  const Differences s{R"({"SplineActivation":)" + bells, {x, c}, {3, 4}, up};
  close(of(R"({"SplineActivationBackwardX":)" + bells, {x, c, up}, {3, 4}), s.by(0));
  close(of(R"({"SplineActivationBackwardCoeff":)" + bells, {x, up}, {4, 5}), s.by(1));
}

TEST_CASE("the gradient of powers by filter") {
  const In x = real({2, 16}, 20), filters = real({3, 5}, 21, 0.1, 1);
  In dy = real({2, 3}, 22);
  const Differences d{R"("LogMel")", {x, filters}, {2, 3}, dy};
  // The row maximum is treated as a constant, which affects only clipped values: none here.
  close(of(R"("LogMelBackward")", {x, filters, dy}, {2, 16}), d.by(0));
  In quiet = filters;  // without energy, far below the others
  for (size_t i = 0; i < 5; ++i) quiet.values[i] = 0;
  const Reals g = of(R"("LogMelBackward")", {x, quiet, dy}, {2, 16});
  for (size_t i : {0, 3}) dy.values[i] = 0;
  close(g, of(R"("LogMelBackward")", {x, filters, dy}, {2, 16}));
}

TEST_CASE("gradients of functions of symmetric matrices") {
  const In x = definite(2, 3, 30), dy = symmetric(2, 3, 31);
  for (const char* kind : {"Logm", "Expm", "Sqrtm", "Invsqrtm"}) {
    const std::string attrs = R"({"kind":")" + std::string(kind) + "\"}}";
    const Differences d{R"({"SpdMatrixFnBatch":)" + attrs, {x}, {2, 3, 3}, dy};
    d.check_symmetric(0, of(R"({"SpdMatrixFnBatchBackward":)" + attrs, {x, dy}, {2, 3, 3}));
  }
  In twice = definite(1, 3, 32);  // equal eigenvalues
  for (size_t i = 0; i < 9; ++i) twice.values[i] = i % 4 ? 0 : 2;
  const In one_dy = symmetric(1, 3, 33);
  const Reals g = of(R"({"SpdMatrixFnBatchBackward":{"kind":"Logm"}})", {twice, one_dy}, {1, 3, 3});
  for (size_t i = 0; i < 9; ++i) CHECK(g[i] == doctest::Approx(one_dy.values[i] / 2));

  In p = matrix(symmetric(1, 3, 34)), packed_dy = real({21}, 35);
  for (const auto& [name, attrs] : {std::pair{"ReEig", R"({"eps":0.1}})"}, {"LogEig", R"({"eps":0.0001}})"}}) {
    if (std::string(name) == "LogEig") p = matrix(definite(1, 3, 36));
    for (size_t i = 9; i < 21; ++i) packed_dy.values[i] = 0;
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < i; ++j) packed_dy.values[i * 3 + j] = packed_dy.values[j * 3 + i];
    const std::string op = std::string("{\"") + name;
    const Differences d{op + "\":" + attrs, {p}, {21}, packed_dy};
    const In own{{3, 3}, part(packed_dy.values, 0, 9), DType::F64};
    const Reals got = of(op + "Backward\":" + attrs, {p, own}, {3, 3});
    d.check_symmetric(0, got);
    const Reals made = of(op + "\":" + attrs, {p}, {21});
    const In values{{3}, part(made, 9, 3), DType::F64}, vectors{{9}, part(made, 12, 9), DType::F64};
    close(of(op + "Backward\":" + attrs, {values, vectors, own}, {3, 3}), got);
  }
}

TEST_CASE("gradients of eigenvalues and eigenvectors") {
  const In x = definite(2, 3, 40), bar = real({2, 12}, 41);
  const Differences d{R"("EighBatch")", {x}, {2, 12}, bar};
  const In made{{2, 12}, of(R"("EighBatch")", {x}, {2, 12}), DType::F64};
  d.check_symmetric(0, of(R"("EighBatchBackward")", {made, bar}, {2, 3, 3}));
  const In flat{{12}, part(made.values, 0, 12), DType::F64}, flat_bar{{12}, part(bar.values, 0, 12), DType::F64};
  close(of(R"("EighBackward")", {flat, flat_bar}, {3, 3}), part(of(R"("EighBatchBackward")", {made, bar}, {2, 3, 3}), 0, 9));
}

TEST_CASE("gradients of maps between positive definite matrices") {
  const In p = matrix(definite(1, 3, 50)), q = matrix(definite(1, 3, 51)), v = matrix(symmetric(1, 3, 52)),
           dy = matrix(symmetric(1, 3, 53));
  for (const auto& [name, x] : {std::pair{"SpdLogMap", q}, {"SpdExpMap", v}}) {
    const std::string op = std::string("\"") + name;
    const Differences d{op + "\"", {p, x}, {3, 3}, dy};
    const Reals g = of(op + "Backward\"", {p, x, dy}, {2, 3, 3});
    for (size_t i = 0; i < 2; ++i) d.check_symmetric(i, part(g, i * 9, 9));
  }
  close(of(R"("SpdParallelTransport")", {p, q, p}, {3, 3}), q.values);  // moving the point itself yields the other point
  const Differences d{R"("SpdParallelTransport")", {p, q, v}, {3, 3}, dy};
  const Reals g = of(R"("SpdParallelTransportBackward")", {p, q, v, dy}, {3, 3, 3});
  for (size_t i = 0; i < 3; ++i) d.check_symmetric(i, part(g, i * 9, 9));
}

TEST_CASE("a norm of batches of positive definite matrices") {
  const In x = definite(2, 3, 60), m = matrix(definite(1, 3, 61)), g = matrix(definite(1, 3, 62)), dy = symmetric(2, 3, 63);
  const std::string attrs = R"({"eps":0.000001}})";
  const Differences d{R"({"SpdBatchNorm":)" + attrs, {x, m, g}, {2, 3, 3}, dy};
  d.check_symmetric(0, of(R"({"SpdBatchNormBackwardX":)" + attrs, {m, g, dy}, {2, 3, 3}));
  d.check_symmetric(2, of(R"({"SpdBatchNormBackwardG":)" + attrs, {x, m, g, dy}, {3, 3}));
  In same = x;  // the mean goes to the bias
  same.dims[0] = 1, same.values = m.values;
  close(of(R"({"SpdBatchNorm":)" + attrs, {same, m, g}, {1, 3, 3}), g.values);
}

TEST_CASE("the gradient of a gated recurrence") {
  const In q = real({1, 3, 2, 2}, 70), k = real({1, 3, 2, 2}, 71), v = real({1, 3, 2, 2}, 72),
           beta = real({1, 3, 2}, 73, 0.2, 0.9), state = real({1, 2, 2, 2}, 74), dy = real({1, 3, 2, 2}, 75);
  for (bool channels : {false, true}) {
    const In g = channels ? real({1, 3, 2, 2}, 76, -1, 0) : real({1, 3, 2}, 77, -1, 0);
    const std::string gate = std::string(R"("gate_per_channel":)") + (channels ? "true" : "false");
    const Differences d{R"({"GatedDeltaNet":{"state_size":2,)" + gate + "}}", {q, k, v, g, beta, state}, {1, 3, 2, 2}, dy};
    Reals want;
    for (size_t i = 0; i < 6; ++i) append(want, d.by(i));
    close(of(R"({"GatedDeltaNetBackward":{"state_size":2,"carry_state":true,)" + gate + "}}", {q, k, v, g, beta, state, dy},
             {static_cast<int>(want.size())}),
          want);
    In none = state;
    std::fill(none.values.begin(), none.values.end(), 0);
    const Differences fresh{R"({"GatedDeltaNet":{"state_size":2,)" + gate + "}}", {q, k, v, g, beta, none}, {1, 3, 2, 2}, dy};
    want.clear();
    for (size_t i = 0; i < 5; ++i) append(want, fresh.by(i));
    close(of(R"({"GatedDeltaNetBackward":{"state_size":2,"carry_state":false,)" + gate + "}}", {q, k, v, g, beta, dy},
             {static_cast<int>(want.size())}),
          want);
  }
}
