// Regions, spectra and packed weights of the reference format against their formulas.
#include <algorithm>
#include <bit>
#include <numbers>

#include "support/block_format.h"
#include "support/half.h"
#include "support/reference_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

In integers(std::vector<int> dims, uint64_t seed, int64_t low, int64_t high, DType t = DType::I32) {
  In x = random_in(std::move(dims), seed);
  Random r(seed);
  for (double& v : x.values) v = static_cast<double>(r.integer(low, high));
  x.type = t;
  return x;
}

int64_t rounded_shift(int64_t v, int bits) { return bits == 0 ? v : (v + (int64_t{1} << (bits - 1))) >> bits; }
int64_t wrapped(int64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(v))); }

// The integer transform of one row, in place.
void fft_row(std::vector<int64_t>& re, std::vector<int64_t>& im, bool inverse, const std::string& scale,
             const std::string& norm) {
  const size_t n = re.size();
  const int bits = std::countr_zero(n);
  for (size_t i = 0; i < n; ++i) {
    size_t j = 0;
    for (int k = 0; k < bits; ++k) j |= (i >> k & 1) << (bits - 1 - k);
    if (j > i) std::swap(re[i], re[j]), std::swap(im[i], im[j]);
  }
  const auto fraction = [](double v) { return std::llround(v * (1 << 30)); };
  const auto bounded = [&](int64_t v) {
    return scale == "Saturating" ? std::clamp<int64_t>(v, INT32_MIN, INT32_MAX) : wrapped(v);
  };
  for (int stage = 0; stage < bits; ++stage) {
    const size_t half = size_t{1} << stage;
    for (size_t base = 0; base < n; base += 2 * half)
      for (size_t k = 0; k < half; ++k) {
        const double angle = (inverse ? 1 : -1) * std::numbers::pi * static_cast<double>(k) / static_cast<double>(half);
        const int64_t wr = fraction(std::cos(angle)), wi = fraction(std::sin(angle));
        const size_t a = base + k, b = a + half;
        const int64_t tr = wrapped(rounded_shift(wr * re[b] - wi * im[b], 30)),
                      ti = wrapped(rounded_shift(wr * im[b] + wi * re[b], 30));
        const int64_t ar = re[a], ai = im[a];
        re[b] = bounded(ar - tr), im[b] = bounded(ai - ti), re[a] = bounded(ar + tr), im[a] = bounded(ai + ti);
      }
    if (scale == "EveryStage" || (scale == "EveryOther" && stage % 2 == 0))
      for (size_t i = 0; i < n; ++i) re[i] = rounded_shift(re[i], 1), im[i] = rounded_shift(im[i], 1);
  }
  for (size_t i = 0; i < n; ++i) {
    if (norm == "Forward" && !inverse) re[i] = rounded_shift(re[i], bits), im[i] = rounded_shift(im[i], bits);
    if (norm == "Ortho") {
      const int64_t s = fraction(1 / std::sqrt(static_cast<double>(n)));
      re[i] = rounded_shift(re[i] * s, 30), im[i] = rounded_shift(im[i] * s, 30);
    }
  }
}

}  // namespace

TEST_CASE("transforms of integers, exactly") {
  const size_t n = 16;
  for (const char* scale : {"None", "Saturating", "EveryOther", "EveryStage"})
    for (const char* norm : {"Backward", "Forward", "Ortho"})
      for (bool inverse : {false, true}) {
        const bool loud = std::string(scale) == "Saturating" || std::string(scale) == "None";
        const In x = integers({2, 2 * n}, 7, loud ? -2000000000 : -30000, loud ? 2000000000 : 30000);
        Reals want;
        for (size_t row = 0; row < 2; ++row) {
          std::vector<int64_t> re, im;
          for (size_t i = 0; i < n; ++i) {
            re.push_back(static_cast<int64_t>(x.values[row * 2 * n + i]));
            im.push_back(static_cast<int64_t>(x.values[row * 2 * n + n + i]));
          }
          fft_row(re, im, inverse, scale, norm);
          want.insert(want.end(), re.begin(), re.end());
          want.insert(want.end(), im.begin(), im.end());
        }
        const std::string op = std::string(R"({"FftQ":{"inverse":)") + (inverse ? "true" : "false") + R"(,"norm":")" + norm +
                               R"(","scale":")" + scale + "\"}}";
        INFO(op);
        CHECK(one(op, {x}, {2, 2 * n}, "I32") == want);
      }
}

TEST_CASE("one stage of a transform with pairs left out") {
  const int n = 8, stage = 1;
  const In state = random_in({2, n, 2}, 1), wr = random_in({n / 2}, 2), wi = random_in({n / 2}, 3), gate{{n / 2}, {1, 0, 1, 1}},
           rev{{n / 2}, {0, 1, 1, 0}};
  Reals want = state.values;
  for (size_t row = 0; row < 2; ++row)
    for (size_t p = 0; p < 4; ++p) {
      const size_t a = row * 16 + 2 * (p / 2 * 4 + p % 2), b = a + 4;
      if (gate.values[p] == 0) continue;
      const double br = state.values[b] * wr.values[p] - state.values[b + 1] * wi.values[p],
                   bi = state.values[b] * wi.values[p] + state.values[b + 1] * wr.values[p];
      const size_t top = rev.values[p] != 0 ? b : a, bottom = rev.values[p] != 0 ? a : b;
      const double ar = state.values[a], ai = state.values[a + 1];
      want[top] = ar + br, want[top + 1] = ai + bi, want[bottom] = ar - br, want[bottom + 1] = ai - bi;
    }
  close(
      one(R"({"FftButterflyStage":{"stage":)" + std::to_string(stage) + R"(,"n_fft":8}})", {state, gate, rev, wr, wi}, {2, n, 2}),
      want);
}

TEST_CASE("peaks of the mean of spectra") {
  const size_t points = 8, bins = 5, segments = 3, k = 2;
  In x = random_in({6, 16}, 4);
  Reals want;
  for (size_t row = 0; row < 2; ++row) {
    std::vector<std::pair<double, double>> power;
    for (size_t bin = 0; bin < bins; ++bin) {
      double sum = 0;
      for (size_t s = 0; s < segments; ++s) {
        const double* v = &x.values[(row * segments + s) * 2 * points];
        sum += v[bin] * v[bin] + v[points + bin] * v[points + bin];
      }
      power.emplace_back(-sum / segments * (bin == 0 || bin + 1 == bins ? 1 : 2), static_cast<double>(bin));
    }
    std::ranges::sort(power);
    for (size_t i = 0; i < k; ++i) want.push_back(power[i].second), want.push_back(-power[i].first);
  }
  close(one(R"({"WelchPeaks":{"k":2,"n_segments":3}})", {x}, {2, 4}), want);
}

TEST_CASE("regions with resizes, and over batches") {
  const In x{{1, 1, 1, 2}, {1, -2}};
  CHECK(one(R"({"TransformRegion":{"steps":[{"ResizeNearest2x":{"Input":0}},{"ResizeNearest2x":{"Step":0}}],"num_inputs":1}})",
            {x}, {1, 1, 4, 8})
            .size() == 32);
  CHECK(one(R"({"TransformRegion":{"steps":[{"ResizeNearest2x":{"Input":0}}],"num_inputs":1}})", {x}, {1, 1, 2, 4}) ==
        Reals{1, 1, -2, -2, 1, 1, -2, -2});
  const std::string chain = R"("chain":[{"Activation":["Relu",{"Input":0}]},{"Binary":["Add",{"Step":0},{"Input":0}]}])";
  const In y{{1, 1, 1, 2}, {3, 4}};
  CHECK(one("{\"BatchElementwiseRegion\":{" + chain + R"(,"num_batch_inputs":2,"prologue":"None","prologue_input":0}})", {x, y},
            {2, 1, 1, 2}) == Reals{2, -2, 6, 8});
  CHECK(one("{\"ElementwiseRegion\":{" + chain + R"(,"num_inputs":1,"prologue":"ResizeNearest2x","prologue_input":0}})", {x},
            {1, 1, 2, 4}) == Reals{2, 2, -2, -2, 2, 2, -2, -2});
}

TEST_CASE("packed weights of MLX") {
  const size_t k = 32, out = 2, experts = 2, group = 16;
  const In x = random_in({3, static_cast<int>(k)}, 5), which{{3}, {1, 0, 1}};
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    Random r(static_cast<uint64_t>(bits));
    const size_t count = experts * out * k;
    std::vector<int64_t> code(count);
    Reals bytes(count * static_cast<size_t>(bits) / 8);
    for (size_t i = 0; i < count; ++i) {
      code[i] = r.integer(0, (1 << bits) - 1);
      for (int b = 0; b < bits; ++b) {
        const size_t at = i * static_cast<size_t>(bits) + static_cast<size_t>(b);
        bytes[at / 8] += static_cast<double>((code[i] >> b & 1) << (at % 8));
      }
    }
    const In scales = random_in({2, 2, 2}, 6), biases = random_in({2, 2, 2}, 7);
    const auto product = [&](size_t row, size_t e, size_t j) {
      double sum = 0;
      for (size_t p = 0; p < k; ++p) {
        const size_t at = (e * out + j) * k + p;
        sum += x.values[row * k + p] * (static_cast<double>(code[at]) * scales.values[at / group] + biases.values[at / group]);
      }
      return sum;
    };
    Reals want, first;
    for (size_t row = 0; row < 3; ++row)
      for (size_t j = 0; j < out; ++j) {
        want.push_back(product(row, static_cast<size_t>(which.values[row]), j));
        first.push_back(product(row, 0, j));
      }
    const std::string scheme = R"({"scheme":{"MlxAffine":{"bits":)" + std::to_string(bits) + R"(,"group_size":16}}}})";
    INFO(bits);
    const In packed{{static_cast<int>(bytes.size())}, bytes, DType::U8};
    close(one("{\"DequantGroupedMatMulMlx\":" + scheme, {x, packed, scales, biases, which}, {3, 2}), want, 1e-3);
    const auto half = [](const Reals& v) { return Reals(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2)); };
    const In part{{static_cast<int>(bytes.size() / 2)}, half(bytes), DType::U8}, s{{2, 2}, half(scales.values)},
        b{{2, 2}, half(biases.values)};
    close(one("{\"DequantMatMul\":" + scheme, {x, part, s, b}, {3, 2}), first, 1e-3);
  }
  // Microscaled: powers of two, and numbers of 4 bits.
  const In codes = integers({32}, 8, 0, 255, DType::U8), exponents{{2, 2}, {127, 126, 129, 127}, DType::U8};
  Reals want;
  for (size_t row = 0; row < 3; ++row)
    for (size_t j = 0; j < out; ++j) {
      double sum = 0;
      for (size_t p = 0; p < k; ++p) {
        const int byte = static_cast<int>(codes.values[(j * k + p) / 2]);
        const double v = static_cast<double>(fp4_values()[static_cast<size_t>(p % 2 ? byte >> 4 : byte & 15)]);
        sum += x.values[row * k + p] * std::ldexp(v, static_cast<int>(exponents.values[j * 2 + p / group]) - 127);
      }
      want.push_back(sum);
    }
  close(one(R"({"DequantMatMul":{"scheme":{"MlxMxfp4":{"group_size":16}}}})", {x, codes, exponents, {{1}, {0}}}, {3, 2}), want);
  In bytes = integers({64}, 9, 0, 126, DType::U8);
  want.clear();
  for (size_t row = 0; row < 3; ++row)
    for (size_t j = 0; j < out; ++j) {
      double sum = 0;
      for (size_t p = 0; p < k; ++p)
        sum += x.values[row * k + p] * std::ldexp(decode_float(DType::F8E4M3FN, static_cast<uint32_t>(bytes.values[j * k + p])),
                                                  static_cast<int>(exponents.values[j * 2 + p / group]) - 127);
      want.push_back(sum);
    }
  close(one(R"({"DequantMatMul":{"scheme":{"MlxMxfp8":{"group_size":16}}}})", {x, bytes, exponents, {{1}, {0}}}, {3, 2}), want,
        1e-3);
}

TEST_CASE("formats of ggml that are not read say why") {
  for (const auto& [format, why] : {std::pair{"GgufIQ2XS", "code books"},
                                    {"GgufIQ1M", "code books"},
                                    {"GgufIQ3S", "code books"},
                                    {"GgufQ1_0", "18 bytes"},
                                    {"GgufQ2_0", "34 bytes"},
                                    {"GgufXY", "is unknown"}}) {
    ReferenceLines l;
    l.input("x", {1, 256}).input("w", {66}, "U8");
    l.add(std::string(R"({"DequantMatMul":{"scheme":")") + format + "\"}}", {0, 1}, {1, 1});
    Diagnostics d;
    CHECK_FALSE(import_json::parse_json(l.graph(), "", {}, d));
    CHECK_MESSAGE(d.text().find(why) != std::string::npos, d.text());
  }
}
