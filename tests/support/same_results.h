// Do two modules with equal inputs compute the same on random values?
#pragma once
#include <doctest/doctest.h>

#include "eval/eval.h"
#include "support/random.h"

namespace rlxc::testing {

struct Tolerance {
  double rtol = 1e-4, atol = 1e-5;
};

inline constexpr int64_t kTestSize = 3;  // of symbolic sizes

inline std::vector<eval::HostValue> random_inputs(const Module& m, uint64_t seed) {
  test::Random random(seed);
  DimBindings bindings;
  for (const std::string& s : m.dims.symbol_names()) bindings[s] = kTestSize;
  std::vector<eval::HostValue> inputs;
  for (NodeId n : m.main().inputs()) {
    const Type& t = m.main().type(m.main().result(n));
    eval::HostValue v;
    std::vector<int64_t> dims;
    int64_t count = 1;
    for (Dim d : t.dims) dims.push_back(m.dims.evaluate(d, bindings).value_or(0)), count *= dims.back();
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < count; ++i) {
      const double x = is_float(t.dtype) ? random.uniform(-2, 2) : static_cast<double>(random.integer(0, t.dtype == DType::Bool ? 1 : 3));
      const auto element = element_bytes(t.dtype, x);
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
    v.tensor = make_data(t.dtype, dims, bytes);
    inputs.push_back(std::move(v));
  }
  return inputs;
}

inline std::vector<eval::HostValue> results_of(const Module& m, uint64_t seed) {
  Diagnostics d;
  const auto results = eval::evaluate(m, random_inputs(m, seed), d);
  REQUIRE_MESSAGE(results.has_value(), d.text());
  return *results;
}

inline void same_results(const Module& before, const Module& after, uint64_t seed = 1, Tolerance t = {}) {
  const auto a = results_of(before, seed), b = results_of(after, seed);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto r = eval::compare(b[i], a[i], t.rtol, t.atol);
    CHECK_MESSAGE(r.pass, "seed " << seed << ", output " << i << ": " << r.message << " (max abs " << r.max_abs << ", max rel " << r.max_rel << ")");
  }
}

}  // namespace rlxc::testing
