// Attention in every form against loops over queries and keys: interpreted, as C, and as source of the grid targets, with and
// without matrix units.
#include "kernel/builders/attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support/kernel_check.h"

namespace rlxc::target {
namespace {

using namespace kernel;

struct Form {
  int64_t queries, keys, width, value_width;
  bool causal = false;
  std::optional<int64_t> window = {};
  bool mask = false, bias = false, finite = false;
  double softcap = 0;
  std::optional<int64_t> seen = {};  // the mask hides keys from this one on
  bool busy = false;                 // any number of workgroups occupies the device
  bool rising = false;               // the mask hides keys after the query's position
  bool symbolic = false;             // the number of queries is known in the run
};

constexpr int64_t kHeads = 2;  // that share one head of keys and values

bool visible(const Form& f, const std::vector<double>& mask, int64_t query, int64_t key) {
  const int64_t at = query + f.keys - f.queries;
  return !(f.causal && key > at) && !(f.window && (key > at || key < at - *f.window)) &&
         !(f.mask && !f.bias && mask[static_cast<size_t>(query * f.keys + key)] == 0);
}

// `stored`: the type of keys and values.
KernelCase attention_case(const Form& f, DType dtype, DType stored) {
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  KernelCase c;
  c.name = std::to_string(f.queries) + " of " + std::to_string(f.keys) + ", " + std::to_string(f.width) + " and " +
           std::to_string(f.value_width) + " " + std::string(name(dtype)) + " " + std::string(name(stored));
  const DType mask_type = f.bias ? DType::F32 : DType::Bool;
  const auto q = random_values(count(kHeads * f.queries * f.width), dtype, -2, 2, 1),
             k = random_values(count(f.keys * f.width), stored, -2, 2, 2),
             v = random_values(count(f.keys * f.value_width), stored, -2, 2, 3);
  auto mask = random_values(f.mask ? count(f.queries * f.keys) : 0, mask_type, 0, 1, 4);
  for (int64_t i = 0; f.seen && i < f.queries * f.keys; ++i) mask[count(i)] = i % f.keys < *f.seen;
  for (int64_t i = 0; f.rising && i < f.queries * f.keys; ++i)
    if (i % f.keys > i / f.keys + f.keys - f.queries) mask[count(i)] = 0;
  const double scale = 1 / std::sqrt(static_cast<double>(f.width));
  std::vector<double> y(count(kHeads * f.queries * f.value_width));
  for (int64_t row = 0; row < kHeads * f.queries; ++row) {
    std::vector<double> score(count(f.keys), f.finite ? -1e30 : -INFINITY);
    double top = f.finite ? -1e30 : -INFINITY, sum = 0;
    for (int64_t j = 0; j < f.keys; ++j) {
      if (!visible(f, mask, row % f.queries, j)) continue;
      double s = 0;
      for (int64_t d = 0; d < f.width; ++d) s += q[count(row * f.width + d)] * k[count(j * f.width + d)];
      s *= scale;
      if (f.softcap > 0) s = f.softcap * std::tanh(s / f.softcap);
      if (f.bias) s += mask[count(row % f.queries * f.keys + j)];
      score[count(j)] = s, top = std::max(top, s);
    }
    for (double& s : score) sum += s = std::isinf(top) ? 0 : std::exp(s - top);
    for (int64_t d = 0; d < f.value_width; ++d)
      for (int64_t j = 0; j < f.keys; ++j)
        if (sum > 0) y[count(row * f.value_width + d)] += score[count(j)] / sum * v[count(j * f.value_width + d)];
  }
  c.buffers = {{dtype, q}, {stored, k}, {stored, v}};
  if (f.mask) c.buffers.push_back({mask_type, mask});
  c.buffers.push_back({DType::F32, y, true});
  if (dtype != DType::F32) c.atol = dtype == DType::F16 ? 4e-3 : 3e-2;  // exponentials are rounded for the second matmul
  if (f.symbolic) c.symbols = {f.queries};
  c.build = [f, dtype, stored, mask_type, scale](kernel::Builder& builder, const Mapping& m) {
    AttentionSpec s;
    const Expr n = f.symbolic ? builder.symbol("queries", 0, 1000) : builder.i64(f.queries);
    s.queries = n;
    s.heads = kHeads, s.keys = f.keys, s.group = kHeads, s.width = f.width, s.value_width = f.value_width;
    s.q = {"q", dtype, {0, n * f.width, f.width, 1}, n * kHeads * f.width, 0};
    s.k = {"k", stored, {0, 0, f.width, 1}, f.keys * f.width, 0};
    s.v = {"v", stored, {0, 0, f.value_width, 1}, f.keys * f.value_width, 0};
    s.y = {"y", DType::F32, {0, n * f.value_width, f.value_width, 1}, n * kHeads * f.value_width, 0};
    if (f.mask) s.mask = Operand{"mask", mask_type, {0, 0, f.keys, 1}, n * f.keys, 0};
    s.mask_is_bias = f.bias, s.finite = f.finite, s.causal = f.causal, s.window = f.window, s.scale = scale,
    s.softcap = f.softcap;
    Mapping occupied = m;
    if (f.busy) occupied.busy_workgroups = 1;
    build_attention(builder, s, occupied);
  };
  return c;
}

TEST_CASE("attention on units that read tiles") {
  std::vector<KernelCase> cases;
  DType t = DType::F16;
  for (const Form& f : {Form{33, 128, 64, 64}, Form{70, 90, 128, 128, true}, Form{40, 150, 48, 40, true, 70},
                        Form{64, 70, 128, 64, false, {}, true}, Form{40, 80, 72, 104, false, {}, true, true, false, 5},
                        Form{50, 40, 64, 64, true, {}, false, false, true}, Form{33, 64, 192, 64},
                        Form{70, 90, 64, 64, true, {}, false, false, false, 0, {}, true}}) {
    cases.push_back(attention_case(f, t, t));
    t = t == DType::F16 ? DType::BF16 : DType::F16;
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("attention of awkward shapes on threads, threads and matrix units") {
  std::vector<KernelCase> cases;
  for (DType t : {DType::F32, DType::F16, DType::BF16})
    for (const Form& f :
         {Form{5, 7, 8, 8}, Form{70, 70, 16, 20, true}, Form{33, 90, 20, 8, true, 17}, Form{1, 70, 40, 40},
          Form{1, 300, 48, 32, false, {}, true, false, false, 0, 70}, Form{3, 150, 64, 16, true, {}, true},
          Form{20, 200, 16, 16, false, {}, true, false, false, 0, 100}, Form{2, 9, 6, 8, false, {}, true, false, false, 0, 0},
          Form{9, 4, 8, 12, true}, Form{9, 4, 8, 8, true, {}, false, false, true}, Form{12, 40, 24, 16, false, {}, true},
          Form{12, 40, 24, 16, false, {}, true, true, false, 5}, Form{49, 49, 32, 40},
          Form{49, 49, 16, 16, false, {}, true, true}, Form{70, 70, 16, 20, false, {}, true, false, false, 0, {}, false, true},
          Form{40, 150, 24, 16, false, {}, true, false, false, 0, 120, false, true}})
      cases.push_back(attention_case(f, t, t));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("attention of one query or more, as the run says") {
  std::vector<KernelCase> cases;
  for (DType t : {DType::F32, DType::F16})
    for (Form f : {Form{1, 70, 40, 40}, Form{1, 70, 16, 20, true}, Form{70, 90, 16, 20, true}, Form{3, 90, 20, 8, true, 17},
                   Form{1, 300, 48, 32, false, {}, true, false, false, 0, 70}, Form{12, 40, 24, 16, false, {}, true},
                   Form{1, 40, 24, 16, false, {}, true, true, false, 5}, Form{1, 9, 6, 8, false, {}, true, false, false, 0, 0}}) {
      f.symbolic = true;
      cases.push_back(attention_case(f, t, t));
    }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("attention of f32 queries with keys and values of 16 bits") {
  std::vector<KernelCase> cases;
  DType t = DType::F16;
  for (const Form& f : {Form{1, 70, 40, 40}, Form{5, 7, 8, 8}, Form{1, 300, 64, 64, false, {}, true, false, false, 0, 70},
                        Form{33, 90, 20, 8, true, 17}, Form{70, 90, 64, 64, true}}) {
    cases.push_back(attention_case(f, DType::F32, t));
    t = t == DType::F16 ? DType::BF16 : DType::F16;
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

}  // namespace
}  // namespace rlxc::target
