// Later ops of the reference format against their formulas: recurrences, scaled types, factorisations, signals.
#include <algorithm>

#include "import/json/reference.h"
#include "support/half.h"
#include "support/reference_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// a [m,k] times b [k,n], or with their dims swapped.
Reals product(const Reals& a, const Reals& b, size_t m, size_t k, size_t n, bool trans_a = false, bool trans_b = false) {
  Reals y(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t p = 0; p < k; ++p) y[i * n + j] += a[trans_a ? p * m + i : i * k + p] * b[trans_b ? j * k + p : p * n + j];
  return y;
}
Reals part(const Reals& v, size_t from, size_t count) {
  return {v.begin() + static_cast<ptrdiff_t>(from), v.begin() + static_cast<ptrdiff_t>(from + count)};
}
Reals identity(size_t n) {
  Reals v(n * n);
  for (size_t i = 0; i < n; ++i) v[i * n + i] = 1;
  return v;
}
// xᵀx + 0.3, symmetric and positive definite.
In definite(int n, uint64_t seed) {
  const auto k = static_cast<size_t>(n);
  In x = random_in({n, n}, seed);
  x.values = product(x.values, x.values, k, k, k, true);
  for (size_t i = 0; i < k; ++i) x.values[i * k + i] += 0.3;
  for (double& v : x.values) v = static_cast<double>(static_cast<float>(v));
  return x;
}

// The cells of one layer and direction. `combine` combines a step's gates from their pre-activations.
template <class Combine>
Reals cells(const Reals& x, size_t steps, size_t in, size_t h, size_t gates, const Reals& w, const Reals& r, const Reals& bw,
            const Reals& br, bool backwards, Reals state, Combine combine) {
  Reals y(steps * h), memory(h);
  for (size_t s = 0; s < steps; ++s) {
    const size_t t = backwards ? steps - 1 - s : s;
    Reals a = product(w, part(x, t * in, in), gates * h, in, 1), b = product(r, state, gates * h, h, 1);
    for (size_t i = 0; i < gates * h; ++i) a[i] += bw[i], b[i] += br[i];
    combine(a, b, state, memory);
    std::copy(state.begin(), state.end(), y.begin() + static_cast<ptrdiff_t>(t * h));
  }
  return y;
}

}  // namespace

TEST_CASE("cells in the order of gates of the reference vocabulary") {
  const size_t h = 2, in = 3, s = 4;
  const In x = random_in({1, 4, 3}, 1);
  {  // lstm: two directions
    const In w = random_in({2 * 4 * 2 * 3}, 2), r = random_in({2 * 4 * 2 * 2}, 3), b = random_in({2 * 4 * 2}, 4);
    const auto lstm = [&](const Reals& a, const Reals& c, Reals& state, Reals& memory) {
      for (size_t i = 0; i < h; ++i) {
        const auto gate = [&](size_t g) { return a[g * h + i] + c[g * h + i]; };
        memory[i] = sigmoid(gate(1)) * memory[i] + sigmoid(gate(0)) * std::tanh(gate(2));
        state[i] = sigmoid(gate(3)) * std::tanh(memory[i]);
      }
    };
    Reals expected(s * 2 * h);
    for (size_t d = 0; d < 2; ++d) {
      const Reals y = cells(x.values, s, in, h, 4, part(w.values, d * 24, 24), part(r.values, d * 16, 16),
                            part(b.values, d * 8, 8), Reals(8), d == 1, Reals(h), lstm);
      for (size_t t = 0; t < s; ++t)
        for (size_t i = 0; i < h; ++i) expected[(t * 2 + d) * h + i] = y[t * h + i];
    }
    close(one(R"({"Lstm":{"hidden":2,"layers":1,"bidirectional":true,"carry":false}})", {x, w, r, b}, {1, 4, 4}), expected);
  }
  {  // gru: two layers, a first state
    const In w = random_in({6 * 3 + 6 * 2}, 5), r = random_in({2 * 6 * 2}, 6), b = random_in({12}, 7), c = random_in({12}, 8),
             h0 = random_in({2, 1, 2}, 9);
    const auto gru = [&](const Reals& a, const Reals& u, Reals& state, Reals&) {
      for (size_t i = 0; i < h; ++i) {
        const double reset = sigmoid(a[i] + u[i]), z = sigmoid(a[h + i] + u[h + i]),
                     n = std::tanh(a[2 * h + i] + reset * u[2 * h + i]);
        state[i] = (1 - z) * n + z * state[i];
      }
    };
    const Reals first = cells(x.values, s, in, h, 3, part(w.values, 0, 18), part(r.values, 0, 12), part(b.values, 0, 6),
                              part(c.values, 0, 6), false, part(h0.values, 0, 2), gru);
    close(one(R"({"Gru":{"hidden":2,"layers":2,"bidirectional":false}})", {x, w, r, b, c, h0}, {1, 4, 2}),
          cells(first, s, h, h, 3, part(w.values, 18, 12), part(r.values, 12, 12), part(b.values, 6, 6), part(c.values, 6, 6),
                false, part(h0.values, 2, 2), gru));
  }
  const In w = random_in({2 * 3}, 10), r = random_in({2 * 2}, 11), b = random_in({2}, 12);
  close(one(R"({"Rnn":{"hidden":2,"layers":1,"relu":true}})", {x, w, r, b}, {1, 4, 2}),
        cells(x.values, s, in, h, 1, w.values, r.values, b.values, Reals(2), false, Reals(h),
              [&](const Reals& a, const Reals& u, Reals& state, Reals&) {
                for (size_t i = 0; i < h; ++i) state[i] = std::max(a[i] + u[i], 0.0);
              }));
}

TEST_CASE("state spaces") {
  const size_t s = 3, h = 2, p = 2, n = 3;
  const In x = random_in({1, 3, 2, 2}, 20), dt = random_in({1, 3, 2}, 21, 0, 1), a = random_in({2}, 22),
           b = random_in({1, 3, 2, 3}, 23), c = random_in({1, 3, 2, 3}, 24);
  Reals y(s * h * p);
  for (size_t head = 0; head < h; ++head) {
    double state[2][3] = {};
    for (size_t t = 0; t < s; ++t)
      for (size_t i = 0; i < p; ++i)
        for (size_t j = 0; j < n; ++j) {
          const double step = dt.values[t * h + head];
          state[i][j] = std::exp(step * a.values[head]) * state[i][j] +
                        step * x.values[(t * h + head) * p + i] * b.values[(t * h + head) * n + j];
          y[(t * h + head) * p + i] += state[i][j] * c.values[(t * h + head) * n + j];
        }
  }
  close(one(R"({"Mamba2":{"head_dim":2,"state_size":3}})", {x, dt, a, b, c}, {1, 3, 2, 2}), y);
}

TEST_CASE("a state whose rows decay each by their own gate") {
  const size_t s = 2, w = 2;
  const In q = random_in({1, 2, 1, 2}, 80), k = random_in({1, 2, 1, 2}, 81), v = random_in({1, 2, 1, 2}, 82),
           g = random_in({1, 2, 1, 2}, 83), beta = random_in({1, 2, 1}, 84);
  Reals y(s * w);
  double state[2][2] = {};
  for (size_t t = 0; t < s; ++t) {
    for (size_t i = 0; i < w; ++i)
      for (double& x : state[i]) x *= std::exp(g.values[t * w + i]);
    double d[2];
    for (size_t j = 0; j < w; ++j)
      d[j] = (v.values[t * w + j] - state[0][j] * k.values[t * w] - state[1][j] * k.values[t * w + 1]) * beta.values[t];
    for (size_t i = 0; i < w; ++i)
      for (size_t j = 0; j < w; ++j) state[i][j] += k.values[t * w + i] * d[j];
    for (size_t i = 0; i < w; ++i)
      for (size_t j = 0; j < w; ++j) y[t * w + j] += state[i][j] * q.values[t * w + i] / std::sqrt(2.0);
  }
  close(one(R"({"GatedDeltaNet":{"state_size":2,"gate_per_channel":true}})", {q, k, v, g, beta}, {1, 2, 1, 2}), y);
}

TEST_CASE("codes of few bits beside scales") {
  const auto format = [](const char* f, const char* layout) {
    return std::string(R"("format":)") + f + R"(,"layout":)" + layout + "}}";
  };
  const std::string mx = R"({"BlockMxE8M0":{"block":4}})", nv = R"({"Nvfp4":{"group":4}})";
  // All bit patterns of a 6-bit format. Exponent 0 is subnormal.
  Reals codes, values;
  for (int i = 0; i < 64; ++i) {
    const int e = i >> 2 & 7, m = i & 3;
    codes.push_back(i), values.push_back((i & 32 ? -2.0 : 2.0) * (e == 0 ? m / 16.0 : (4 + m) / 4.0 * std::pow(2.0, e - 3)));
  }
  const In all{{64}, codes, DType::U8}, two{{1}, {2}};
  close(one("{\"ScaledDequantize\":{" + format("\"F6E3M2\"", "\"PerTensor\""), {all, two}, {64}), values);
  const Reals back = one("{\"ScaledQuantize\":{" + format(R"({"Custom":{"exp":3,"mant":2,"bias":3}})", "\"PerTensor\""),
                         {{{64}, values}, two}, {64}, "U8");
  for (size_t i = 0; i < 64; ++i) CHECK(back[i] == (i == 32 ? 0 : codes[i]));  // there is one zero
  // Ties round to even bit patterns; larger numbers saturate.
  CHECK(one("{\"ScaledQuantize\":{" + format("\"F4E2M1\"", "\"PerTensor\""),
            {{{6}, {0.25, 0.75, 1.25, -5, 100, -1.75}}, {{1}, {1}}}, {6}, "U8") == Reals{0, 2, 2, 8 + 6, 7, 8 + 4});
  const In x{{2, 4}, {0.5, -1, 3, 11, 0.01, 0.02, -0.07, 0}};
  CHECK(one("{\"ScaledQuantScale\":{" + format("\"F4E2M1\"", mx.c_str()), {x}, {2, 1}, "U8") == Reals{127 + 3 - 2, 127 - 4 - 2});
  close(one("{\"ScaledQuantScale\":{" + format("\"F8E4M3\"", "\"PerTensor\""), {x}, {1}), {11.0 / 448});
  const Reals scales = one("{\"ScaledQuantScale\":{" + format("\"F4E2M1\"", nv.c_str()), {x}, {2, 1}, "U8");
  close({decode_float(DType::F8E4M3FN, static_cast<uint32_t>(scales[0]))}, {1.875});  // the nearest to 11/6
  // A matmul of quantized values.
  Random random(30);
  const auto draw = [&](size_t count, int64_t low, int64_t high) {
    Reals v;
    for (size_t i = 0; i < count; ++i) v.push_back(static_cast<double>(random.integer(low, high)));
    return v;
  };
  const In a{{2, 8}, draw(16, 0, 120), DType::U8}, b{{3, 8}, draw(24, 0, 15), DType::U8},
      sa{{2, 2}, draw(4, 120, 130), DType::U8}, sb{{3, 2}, draw(6, 120, 130), DType::U8}, bias = random_in({3}, 31);
  const auto fp4 = [](double code) {
    const auto c = static_cast<int>(code);
    const double size[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return c & 8 ? -size[c & 7] : size[c & 7];
  };
  const auto expected = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t k = 0; k < 8; ++k)
      sum += decode_float(DType::F8E4M3FN, static_cast<uint32_t>(a.values[i * 8 + k])) *
             std::pow(2.0, sa.values[i * 2 + k / 4] - 127) * fp4(b.values[j * 8 + k]) *
             std::pow(2.0, sb.values[j * 2 + k / 4] - 127);
    return sum;
  };
  Reals y, first;
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j) y.push_back(expected(i, j) + bias.values[j]), first.push_back(expected(i, j));
  const std::string how = R"("lhs_format":"F8E4M3","rhs_format":"F4E2M1","layout":)" + mx;
  close(one("{\"ScaledMatMul\":{" + how + R"(,"has_bias":true}})", {a, b, sa, sb, bias}, {2, 3}), y);
  close(one("{\"ScaledGroupedMatMul\":{" + how + "}}",
            {a, {{1, 3, 8}, b.values, DType::U8}, sa, {{1, 3, 2}, sb.values, DType::U8}, {{2}, {0, 0}}}, {2, 3}),
        first);
}

TEST_CASE("factorisations give back what they factor") {
  for (const int n : {1, 2, 5}) {
    INFO("n = ", n);
    const auto k = static_cast<size_t>(n);
    const In a = definite(n, 40);
    const Reals l = one("\"Cholesky\"", {a}, {n, n});
    close(product(l, l, k, k, k, false, true), a.values);
    for (size_t i = 0; i < k; ++i)
      for (size_t j = i + 1; j < k; ++j) CHECK(l[i * k + j] == 0);
    const Reals e = one("\"Eigh\"", {a}, {n + n * n}), values = part(e, 0, k), u = part(e, k, k * k);
    CHECK(std::ranges::is_sorted(values));
    close(product(u, u, k, k, k, true), identity(k));
    Reals scaled = u;
    for (size_t i = 0; i < k * k; ++i) scaled[i] *= values[i % k];
    close(product(scaled, u, k, k, k, false, true), a.values);
  }
  for (const auto& [m, n] : {std::pair{5, 3}, {3, 3}, {3, 5}}) {
    const auto rows = static_cast<size_t>(m), columns = static_cast<size_t>(n), k = std::min(rows, columns);
    INFO("m, n = ", rows, ", ", columns);
    const int rank = std::min(m, n);
    const In a = random_in({m, n}, 41);
    Reals u = one(R"({"Svd":{"part":"U"}})", {a}, {m, rank});
    const Reals s = one(R"({"Svd":{"part":"S"}})", {a}, {rank}), vt = one(R"({"Svd":{"part":"Vt"}})", {a}, {rank, n});
    CHECK(std::ranges::is_sorted(s, std::greater{}));
    close(product(u, u, k, rows, k, true), identity(k));
    close(product(vt, vt, k, columns, k, false, true), identity(k));
    for (size_t i = 0; i < u.size(); ++i) u[i] *= s[i % k];
    close(product(u, vt, rows, k, columns), a.values);
    if (m < n) continue;
    const Reals q = one(R"({"Qr":{"part":"Q"}})", {a}, {m, n}), r = one(R"({"Qr":{"part":"R"}})", {a}, {n, n});
    close(product(q, q, columns, rows, columns, true), identity(columns));
    close(product(q, r, rows, columns, columns), a.values);
    for (size_t i = 1; i < columns; ++i)
      for (size_t j = 0; j < i; ++j) CHECK(r[i * columns + j] == 0);
  }
}

TEST_CASE("functions of symmetric matrices") {
  const In a = definite(3, 50), b = definite(3, 51);
  const auto call = [&](const std::string& op, const std::vector<In>& in, int size = 9) {
    return one(op, in, size == 9 ? std::vector<int>{3, 3} : std::vector<int>{size});
  };
  const auto function = [&](const char* kind, const Reals& x) {
    return call(std::string(R"({"SpdMatrixFnBatch":{"kind":")") + kind + "\"}}", {{{3, 3}, x}});
  };
  const Reals root = function("Sqrtm", a.values);
  close(product(root, root, 3, 3, 3), a.values);
  close(product(product(function("Invsqrtm", a.values), a.values, 3, 3, 3), function("Invsqrtm", a.values), 3, 3, 3), identity(3),
        1e-3);
  close(function("Expm", function("Logm", a.values)), a.values, 1e-3);
  close(part(call("\"LogEig\"", {a}, 21), 0, 9), function("Logm", a.values));
  close(part(call(R"({"ReEig":{"eps":1e-6}})", {a}, 21), 0, 9), a.values);
  const Reals tangent = call("\"SpdLogMap\"", {a, b});
  close(call("\"SpdExpMap\"", {a, {{3, 3}, tangent}}), b.values, 1e-3);
  // The mean of two matrices is the midpoint of the geodesic between them.
  Reals half = tangent, both = a.values;
  for (double& v : half) v /= 2;
  both.insert(both.end(), b.values.begin(), b.values.end());
  const Reals middle = call("\"SpdExpMap\"", {a, {{3, 3}, half}});
  close(call(R"({"SpdKarcherMean":{"iters":8,"tol":1e-6}})", {{{2, 3, 3}, both}}), middle, 1e-3);
  close(call(R"({"SpdKarcherMeanWeighted":{"iters":8,"tol":1e-6}})", {{{2, 3, 3}, both}, {{2}, {0, 2}}}), b.values, 1e-3);
  const In w = random_in({2, 3}, 52);
  close(one("\"BiMap\"", {w, a}, {2, 2}), product(product(w.values, a.values, 2, 3, 3), w.values, 2, 3, 2, false, true));
}

TEST_CASE("windows, caches, running maxima, filters, code books") {
  const In image = random_in({2, 2, 4, 5}, 60);
  Reals rows;
  for (size_t n = 0; n < 2; ++n)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x)
        for (size_t c = 0; c < 2; ++c)
          for (int u = 0; u < 2; ++u)
            for (int v = 0; v < 3; ++v) {
              const int row = 2 * y + u - 1, column = x + 2 * v - 1;
              rows.push_back(row < 0 || row >= 4 || column < 0 || column >= 5
                                 ? 0
                                 : image.values[((n * 2 + c) * 4 + static_cast<size_t>(row)) * 5 + static_cast<size_t>(column)]);
            }
  CHECK(one(R"({"Im2Col":{"kernel":[2,3],"stride":[2,1],"padding":[1,1],"dilation":[1,2]}})", {image}, {18, 12}) == rows);
  CHECK(one(R"({"Interpolate3d":{"size":[1,3,4]}})", {{{1, 1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}}}, {1, 1, 1, 3, 4}) ==
        Reals{1, 1, 2, 3, 1, 1, 2, 3, 4, 4, 5, 6});
  CHECK(one(R"({"KvAppend":{"axis":0,"pos":1}})", {{{3, 2}, {1, 2, 3, 4, 5, 6}}, {{1, 2}, {7, 8}}}, {2, 2}) == Reals{1, 2, 7, 8});
  const In v{{2, 5}, {1, 3, 2, 5, 4, -1, -2, -3, -1, 0}};
  CHECK(one(R"({"CumMax":{"axis":1,"exclusive":false}})", {v}, {2, 5}) == Reals{1, 3, 3, 5, 5, -1, -1, -1, -1, 0});
  const double low = -std::numeric_limits<double>::infinity();
  CHECK(one(R"({"CumMax":{"axis":1,"exclusive":true}})", {v}, {2, 5}) == Reals{low, 1, 3, 3, 5, low, -1, -1, -1, -1});
  CHECK(one(R"({"PartitionedConv":{"block":2}})", {{{2, 3}, {1, 2, 3, 0, 1, 0}}, {{2}, {1, 10}}}, {2, 4}) ==
        Reals{1, 12, 23, 30, 0, 1, 10, 0});
  close(one("\"LogMel\"", {{{1, 8}, {10, 3, 0, 0, 0, 4, 0, 0}}, {{2, 3}, {1, 0, 0, 0, 1, 1}}}, {1, 2}),
        {1.5, (std::log10(25) + 4) / 4});
  const In book{{2, 2}, {1, 2, 3, 4}}, index{{2, 2}, {1, 0, 0, 1}};
  CHECK(one(R"({"SynthReconstruct":{"entry_dim":2,"num_entries":2}})", {index, book}, {2, 4}) == Reals{3, 4, 1, 2, 1, 2, 3, 4});
  CHECK(one(R"({"SynthMatMul":{"Codebook":{"entry_dim":2,"num_entries":2}}})", {{{1, 4}, {1, 0, 0, 1}}, index, book}, {1, 2}) ==
        Reals{5, 5});
  const Reals noise = one(R"({"RngUniform":{"low":2,"high":3,"key":5}})", {}, {100});
  for (double x : noise) CHECK((x >= 2 && x < 3));
  CHECK(one(R"({"Binary":"Mod"})", {{{2}, {-5, 5}}, {{2}, {3, -3}}}, {2}) == Reals{-2, 2});
}

TEST_CASE("rotations of adjacent pairs") {
  const In x{{1, 1, 4}, {1, 2, 3, 4}}, cos{{1, 2}, {0, 1}}, sin{{1, 2}, {1, 0}};
  CHECK(one(R"({"Rope":{"head_dim":4,"n_rot":4,"style":"GptJ"}})", {x, cos, sin}, {1, 1, 4}) == Reals{-2, 1, 3, 4});
  CHECK(one(R"({"RopeBackward":{"head_dim":4,"n_rot":4,"style":"GptJ"}})", {x, cos, sin}, {1, 1, 4}) == Reals{2, -1, 3, 4});
}

TEST_CASE("the gradients of attention in one") {
  const In q = random_in({1, 3, 8}, 70), k = random_in({1, 4, 8}, 71), v = random_in({1, 4, 8}, 72),
           dy = random_in({1, 3, 8}, 73);
  const std::string how = R"("num_heads":2,"head_dim":4,"mask_kind":"Causal")";
  Reals parts;
  for (const auto& [wrt, rows] : {std::pair{"Query", 3}, {"Key", 4}, {"Value", 4}})
    for (double x : one("{\"AttentionBackward\":{" + how + R"(,"wrt":")" + wrt + "\"}}", {q, k, v, dy}, {1, rows, 8}))
      parts.push_back(x);
  close(one("{\"AttentionBackwardAll\":{" + how + "}}", {q, k, v, dy}, {11 * 8}), parts);
}
