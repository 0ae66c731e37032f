// Matmuls in every form against three nested loops: interpreted, as C, and as source of the grid targets.
#include "kernel/builders/gemm.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "kernel/builders/dot_unit.h"
#include "kernel/value.h"
#include "support/kernel_check.h"

namespace rlxc::target {
namespace {

using namespace kernel;

struct Form {
  int64_t batch, m, n, k;
  bool trans_a = false, trans_b = false, epilogue = false;
  DType dtype = DType::F32;
  bool pair = false;  // b has 2n columns: multiplies the two halves
  bool busy = false;  // any number of workgroups occupies the device
  enum : uint8_t {
    Rows,
    Down,
    Across
  } order = Rows;  // c and one residual are column-major, or one residual alone; others are row-major
};

KernelCase product_case(const Form& f) {
  KernelCase c;
  c.name = std::to_string(f.batch) + "x" + std::to_string(f.m) + "x" + std::to_string(f.n) + "x" + std::to_string(f.k) +
           (f.trans_a ? " ta" : "") + (f.trans_b ? " tb" : "") + (f.epilogue ? " epilogue" : "") + (f.pair ? " pair" : "") +
           std::array{"", " down", " across"}[f.order];
  const bool integers = !is_float(f.dtype);
  const int64_t width = f.pair ? 2 * f.n : f.n;
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  const std::vector<double> a = random_values(count(f.batch * f.m * f.k), f.dtype, -3, 3, 1),
                            b = random_values(count(f.k * width), f.dtype, -3, 3, 2),
                            bias = random_values(count(f.n), DType::F32, -3, 3, 3),
                            residual = random_values(count(f.batch * f.m * f.n), DType::F32, -3, 3, 4);
  const auto by_row = [f](int64_t i, int64_t r, int64_t j) { return (i * f.m + r) * f.n + j; };
  const auto by_column = [f](int64_t i, int64_t r, int64_t j) { return (i * f.n + j) * f.m + r; };
  const bool ends = f.epilogue && f.order != Form::Rows;
  std::vector<double> y(count(f.batch * f.m * f.n));
  const auto sum = [&](int64_t i, int64_t r, int64_t j) {
    double s = 0;
    for (int64_t p = 0; p < f.k; ++p)
      s += a[count(i * f.m * f.k + (f.trans_a ? p * f.m + r : r * f.k + p))] * b[count(f.trans_b ? j * f.k + p : p * width + j)];
    return s;
  };
  for (int64_t i = 0; i < f.batch; ++i)
    for (int64_t r = 0; r < f.m; ++r)
      for (int64_t j = 0; j < f.n; ++j)
        y[count(f.order == Form::Down ? by_column(i, r, j) : by_row(i, r, j))] =
            sum(i, r, j) * (f.pair ? sum(i, r, f.n + j) : 1) + (f.epilogue ? bias[count(j)] : 0) +
            (ends ? residual[count(f.order == Form::Down ? by_row(i, r, j) : by_column(i, r, j))] +
                        residual[count(f.order == Form::Down ? by_column(i, r, j) : by_row(i, r, j))]
                  : 0);
  const DType sums = integers ? DType::I32 : DType::F32;
  c.buffers = {{f.dtype, a}, {f.dtype, b}};
  if (f.epilogue) c.buffers.push_back({DType::F32, bias});
  if (ends) c.buffers.insert(c.buffers.end(), {{DType::F32, residual}, {DType::F32, residual}});
  c.buffers.push_back({sums, y, true});
  c.atol = 2e-3;
  c.build = [f, sums, width, ends](kernel::Builder& builder, const Mapping& m) {
    GemmSpec s;
    s.batch = {f.batch}, s.m = f.m, s.n = f.n, s.k = f.k, s.accumulate = sums;
    s.a = {"a", f.dtype, {f.m * f.k, f.trans_a ? 1 : f.k, f.trans_a ? f.m : 1}, f.batch * f.m * f.k, 0};
    s.b = {"b", f.dtype, {0, f.trans_b ? 1 : width, f.trans_b ? f.k : 1}, f.k * width, 0};
    const Dims rows{f.m * f.n, f.n, 1}, columns{f.m * f.n, 1, f.m};
    s.c = {"c", sums, f.order == Form::Down ? columns : rows, f.batch * f.m * f.n, 0};
    if (f.epilogue) {
      s.epilogue.inputs = {{"bias", DType::F32, {0, 0, 1}, f.n, 0}};
      if (ends)
        s.epilogue.inputs.insert(s.epilogue.inputs.end(), {{"rows", DType::F32, rows, f.batch * f.m * f.n, 0},
                                                           {"columns", DType::F32, columns, f.batch * f.m * f.n, 0}});
    }
    s.two_sums = f.pair;
    s.epilogue.body = [count = s.epilogue.inputs.size()](std::span<const Expr> sums, const LoadInput& load) -> std::vector<Expr> {
      Expr y = sums.size() > 1 ? sums[0] * sums[1] : sums[0];
      for (size_t i = 0; i < count; ++i) y = y + load(i);
      return {y};
    };
    Mapping own = m;
    if (f.busy) own.busy_workgroups = 1;
    build_gemm(builder, s, own);
  };
  return c;
}

TEST_CASE("products of awkward shapes on registers, caches and shared memory") {
  std::vector<KernelCase> cases;
  for (const Form& f : {Form{1, 1, 5, 7}, Form{1, 3, 4, 4}, Form{2, 7, 67, 19}, Form{1, 13, 49, 300}, Form{1, 5, 64, 256, true},
                        Form{2, 6, 70, 33, false, true, true}, Form{1, 20, 130, 24, true, true, true}, Form{1, 5, 31, 19},
                        Form{1, 14, 49, 19, false, false, true}, Form{1, 4, 63, 8}, Form{1, 200, 53, 30}, Form{2, 37, 2, 70},
                        Form{1, 19, 3, 40, false, false, true}, Form{1, 21, 4, 130, false, true, true},
                        Form{1, 9, 33, 40, false, false, false, DType::I8}, Form{1, 8, 36, 270, false, true, false, DType::F16}})
    cases.push_back(product_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("products whose result or residual lies in columns") {
  std::vector<KernelCase> cases;
  for (const auto order : {Form::Down, Form::Across})
    for (Form f : {Form{1, 49, 70, 19}, Form{2, 35, 64, 300, false, true, true}, Form{1, 21, 12, 8, true, false, true},
                   Form{1, 200, 36, 40, false, false, true, DType::F32, true}, Form{2, 2, 9, 5, false, false, true},
                   Form{1, 40, 64, 64, false, false, true, DType::F16}})
      f.order = order, cases.push_back(product_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

// A product of 8-bit integers, half of which are extremes, with zero points 0, 128 and 255 (signed: minus 128).
struct ByteForm {
  int64_t batch, m, n, k;
  DType a = DType::U8, b = DType::I8;
  bool trans_a = false, trans_b = false;
  bool a_zero = true, b_zero = true;
};

std::vector<double> bytes(size_t n, DType t, uint64_t seed) {
  const double low = t == DType::I8 ? -128 : 0;
  std::vector<double> v = random_values(n, DType::I32, 0, 1023, seed);
  for (double& x : v) x = low + (x >= 512 ? 255 * (static_cast<int>(x) % 2) : static_cast<int>(x) % 256);
  return v;
}

std::vector<double> zeros(size_t n, DType t) {
  std::vector<double> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = std::array{255, 0, 128}[i % 3] - (t == DType::I8 ? 128 : 0);
  return v;
}

KernelCase byte_case(const ByteForm& f) {
  KernelCase c;
  c.name = std::to_string(f.batch) + "x" + std::to_string(f.m) + "x" + std::to_string(f.n) + "x" + std::to_string(f.k) + " " +
           std::string(rlxc::name(f.a)) + " " + std::string(rlxc::name(f.b)) + (f.trans_a ? " ta" : "") +
           (f.trans_b ? " tb" : "");
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  const std::vector<double> a = bytes(count(f.batch * f.m * f.k), f.a, 1), b = bytes(count(f.k * f.n), f.b, 2),
                            za = zeros(count(f.m), f.a), zb = zeros(count(f.n), f.b);
  std::vector<double> y;
  for (int64_t i = 0; i < f.batch; ++i)
    for (int64_t r = 0; r < f.m; ++r)
      for (int64_t j = 0; j < f.n; ++j) {
        double s = 0;
        for (int64_t p = 0; p < f.k; ++p)
          s += (a[count(i * f.m * f.k + (f.trans_a ? p * f.m + r : r * f.k + p))] - (f.a_zero ? za[count(r)] : 0)) *
               (b[count(f.trans_b ? j * f.k + p : p * f.n + j)] - (f.b_zero ? zb[count(j)] : 0));
        y.push_back(s);
      }
  c.buffers = {{f.a, a}, {f.b, b}};
  if (f.a_zero) c.buffers.push_back({f.a, za});
  if (f.b_zero) c.buffers.push_back({f.b, zb});
  c.buffers.push_back({DType::I32, y, true});
  c.build = [f](kernel::Builder& builder, const Mapping& m) {
    GemmSpec s;
    s.batch = {f.batch}, s.m = f.m, s.n = f.n, s.k = f.k, s.accumulate = DType::I32;
    s.a = {"a", f.a, {f.m * f.k, f.trans_a ? 1 : f.k, f.trans_a ? f.m : 1}, f.batch * f.m * f.k, 0};
    s.b = {"b", f.b, {0, f.trans_b ? 1 : f.n, f.trans_b ? f.k : 1}, f.k * f.n, 0};
    if (f.a_zero) s.a_zero = {"za", f.a, {0, 1}, f.m, 0};
    if (f.b_zero) s.b_zero = {"zb", f.b, {0, 1}, f.n, 0};
    s.c = {"c", DType::I32, {f.m * f.n, f.n, 1}, f.batch * f.m * f.n, 0};
    if (m.workgroups) s.dots = gemm_dot_unit(f.a, f.b, m);
    if (s.dots) {
      s.a_shift = dot_shift(f.a, s.dots->a);
      s.b_shift = dot_shift(f.b, s.dots->b);
    }
    build_gemm(builder, s, m);
  };
  return c;
}

TEST_CASE("products of bytes by the dot units of grids") {
  std::vector<KernelCase> cases;
  for (DType a : {DType::U8, DType::I8})
    for (DType b : {DType::U8, DType::I8})
      for (ByteForm f : {ByteForm{1, 1, 37, 67}, ByteForm{2, 2, 5, 64}, ByteForm{1, 33, 70, 45}, ByteForm{2, 17, 40, 128}}) {
        f.a = a, f.b = b;
        cases.push_back(byte_case(f));
      }
  for (ByteForm f : {ByteForm{1, 20, 36, 72}, ByteForm{2, 19, 33, 30}}) {
    f.trans_a = true, f.a_zero = false;
    cases.push_back(byte_case(f));
    f.trans_a = false, f.trans_b = true, f.a_zero = true, f.b_zero = false;
    cases.push_back(byte_case(f));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("products of awkward shapes by matrix units") {
  std::vector<KernelCase> cases;
  for (const Form& f :
       {Form{1, 8, 8, 8, false, false, false, DType::F16}, Form{2, 33, 70, 45, false, true, true, DType::F16},
        Form{1, 70, 20, 72, true, false, true, DType::BF16}, Form{1, 40, 64, 64, false, false, false, DType::F16},
        Form{1, 24, 136, 40, true, true, false, DType::BF16}, Form{1, 17, 36, 48, false, true, true, DType::BF16, true}})
    cases.push_back(product_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("long products by matrix units: several slices at once, and warps that split k") {
  std::vector<KernelCase> cases;
  for (const Form& f :
       {Form{1, 8, 40, 304, false, true, true, DType::F16}, Form{1, 3, 72, 130, false, true, true, DType::F16},
        Form{1, 64, 5, 136, false, true, false, DType::BF16}, Form{1, 70, 64, 520, false, true, true, DType::BF16},
        Form{1, 130, 264, 200, false, true, false, DType::F16}, Form{1, 40, 64, 600, false, false, false, DType::BF16},
        Form{1, 40, 36, 300, false, true, true, DType::BF16, true}, Form{20, 80, 72, 140, false, true, true, DType::F16}})
    cases.push_back(product_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("products of tiles in shared memory") {
  std::vector<KernelCase> cases;
  for (Form f :
       {Form{2, 97, 132, 200, false, true, true, DType::BF16}, Form{1, 130, 104, 64, false, true, false, DType::BF16},
        Form{1, 100, 50, 72, false, true, true, DType::F16, true}, Form{2, 97, 136, 200, false, false, false, DType::BF16},
        Form{1, 130, 104, 72, false, false, true, DType::F16}, Form{1, 100, 56, 72, false, false, true, DType::F16, true},
        Form{2, 60, 132, 136, false, true, true, DType::F16}, Form{1, 50, 104, 72, false, false, true, DType::BF16}}) {
    f.busy = true;
    cases.push_back(product_case(f));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

// A product by a packed right operand (build_pack_dots) of 8-bit values.
struct PackedForm {
  int64_t m, n, k;
  DType a, b;
  bool a_zero = false;
};

KernelCase packed_case(const PackedForm& f, int64_t beside) {
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  const bool floats = is_float(f.a);
  const auto values = [&](int64_t n, DType t, uint64_t seed) {
    if (!floats) return bytes(count(n), t, seed);
    std::vector<double> v = random_values(count(n), DType::I32, -7, 7, seed);
    for (double& x : v) x /= 4;
    return v;
  };
  const auto code_of = [](DType t, double v) {
    unsigned char code = 0;
    write_element(t, &code, 0, is_float(t) ? kernel::from_float(v) : kernel::from_int(static_cast<int64_t>(v)));
    return code;
  };
  const std::vector<double> a = values(f.m * f.k, f.a, 1), b = values(f.n * f.k, f.b, 2), za = zeros(count(f.m), f.a);
  const int64_t words = (f.k + 3) / 4, padded = (words + beside - 1) / beside * beside, panels = (f.n + 31) / 32;
  const int64_t of_panel = (floats ? padded : padded + 1) * 32;
  std::vector<double> packed(count(panels * of_panel)), y;
  for (int64_t j = 0; j < f.n; ++j) {
    const int64_t base = j / 32 * of_panel, in_panel = j % 32;
    double sum = 0;
    for (int64_t w = 0; w < words; ++w) {
      unsigned char of_word[4] = {};
      for (int64_t q = 0; q < 4 && w * 4 + q < f.k; ++q) {
        const double v = b[count(j * f.k + w * 4 + q)];
        of_word[q] = code_of(f.b, v);
        sum += v;
      }
      int32_t word = 0;
      std::memcpy(&word, of_word, sizeof word);
      packed[count(base + w / beside * beside * 32 + in_panel * beside + w % beside)] = word;
    }
    if (!floats) packed[count(base + padded * 32 + in_panel)] = sum;
  }
  for (int64_t r = 0; r < f.m; ++r)
    for (int64_t j = 0; j < f.n; ++j) {
      double s = 0;
      for (int64_t p = 0; p < f.k; ++p) s += (a[count(r * f.k + p)] - (f.a_zero ? za[count(r)] : 0)) * b[count(j * f.k + p)];
      y.push_back(s);
    }
  const DType sums = floats ? DType::F32 : DType::I32, stored = floats ? DType::U8 : f.a;
  std::vector<double> a_codes = a;
  for (double& v : a_codes) v = floats ? code_of(f.a, v) : v;
  KernelCase c;
  c.name =
      std::to_string(f.m) + "x" + std::to_string(f.n) + "x" + std::to_string(f.k) + " packed " + std::string(rlxc::name(f.a));
  c.atol = 2e-3;
  c.buffers = {{stored, a_codes}, {DType::I32, packed}};
  if (f.a_zero) c.buffers.push_back({f.a, za});
  c.buffers.push_back({sums, y, true});
  c.build = [=](kernel::Builder& builder, const Mapping& m) {
    GemmSpec s;
    s.m = f.m, s.n = f.n, s.k = f.k, s.accumulate = sums;
    s.a = {"a", stored, {f.k, 1}, f.m * f.k, 0};
    s.b = {"b", DType::I32, {}, panels * of_panel, 0};
    s.packed = true;
    if (f.a_zero) s.a_zero = {"za", f.a, {1}, f.m, 0};
    s.c = {"c", sums, {f.n, 1}, f.m * f.n, 0};
    s.dots = gemm_dot_unit(f.a, f.b, m, true);
    Mapping own = m;
    own.busy_workgroups = 1;
    build_gemm(builder, s, own);
  };
  c.fits = [=](const Mapping& m) {
    const DotUnit* unit = gemm_dot_unit(f.a, f.b, m, true);
    return m.workgroups && words_beside(m) == beside && unit && unit->a == f.a && unit->b == f.b;
  };
  return c;
}

TEST_CASE("tiles of bytes in shared memory") {
  std::vector<KernelCase> cases;
  for (const PackedForm& f :
       {PackedForm{130, 104, 160, DType::I8, DType::I8}, PackedForm{100, 97, 304, DType::U8, DType::I8, true},
        PackedForm{97, 128, 672, DType::U8, DType::I8}, PackedForm{98, 132, 272, DType::F8E4M3FN, DType::F8E4M3FN},
        PackedForm{128, 100, 96, DType::F8E5M2, DType::F8E5M2}, PackedForm{60, 130, 144, DType::F8E4M3FN, DType::F8E4M3FN},
        PackedForm{50, 200, 272, DType::U8, DType::I8, true}, PackedForm{40, 40, 80, DType::U8, DType::I8, true},
        PackedForm{9, 33, 50, DType::I8, DType::I8, true}, PackedForm{1, 40, 1024, DType::I8, DType::I8, true},
        PackedForm{2, 40, 330, DType::U8, DType::I8}, PackedForm{1, 40, 256, DType::F8E4M3FN, DType::F8E4M3FN}})
    cases.push_back(packed_case(f, 32));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("groups of threads that split the steps of k") {
  std::vector<KernelCase> cases;
  for (const Form& f :
       {Form{1, 40, 50, 130}, Form{2, 33, 70, 100, false, true, true}, Form{1, 36, 24, 90, true, false, false, DType::F32, true}})
    cases.push_back(product_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("long products of few rows or columns") {
  std::vector<KernelCase> cases;
  for (const Form& f :
       {Form{1, 1, 50, 200}, Form{2, 2, 40, 257, false, true}, Form{1, 130, 1, 200}, Form{1, 3, 2, 90, true, true, true},
        Form{1, 1, 36, 300, false, true, true, DType::F32, true}, Form{1, 1, 20, 128, false, false, true, DType::F32, true},
        Form{1, 2, 33, 256, false, true, true, DType::F16}, Form{1, 2, 36, 300, false, true, true, DType::F32, true},
        Form{1, 2, 40, 256, true, true, true, DType::F16}, Form{1, 1, 64, 96, false, false, true, DType::BF16}})
    cases.push_back(product_case(f));
  for (ByteForm f : {ByteForm{1, 1, 37, 300}, ByteForm{2, 2, 9, 257, DType::I8, DType::U8}})
    for (bool trans_b : {false, true}) {
      f.trans_b = trans_b;
      cases.push_back(byte_case(f));
    }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

}  // namespace
}  // namespace rlxc::target
