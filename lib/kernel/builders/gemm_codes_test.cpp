// Matmuls by quantized values that a grid reads in runs, against three nested loops.
#include "kernel/builders/gemm_codes.h"

#include <doctest/doctest.h>

#include "kernel/builders/gemm.h"
#include "support/kernel_check.h"

namespace rlxc::target {
namespace {

using namespace kernel;

enum class Zero : uint8_t { None, Code, Number };

struct Form {
  int64_t m, n, k, block;
  int bits = 4;
  DType a = DType::F16;
  Zero zero = Zero::Code;
  bool is_signed = false, pair = false, busy = false;
};

KernelCase form_case(const Form& f) {
  const int64_t width = f.pair ? 2 * f.n : f.n, blocks = f.block ? f.k / f.block : 1, block = f.block ? f.block : f.k;
  const int64_t a_byte = 8 / f.bits, sign = f.is_signed ? 1 << (f.bits - 1) : 0;
  const auto count = [](int64_t n) { return static_cast<size_t>(n); };
  const DType code = f.is_signed && f.bits == 8 ? DType::I8 : DType::U8, other = f.a == DType::F32 ? DType::F32 : f.a;
  // Codes as numbers without sign, and bytes of them.
  const auto codes = [&](int64_t n, uint64_t seed) { return random_values(count(n), DType::I32, 0, (1 << f.bits) - 1, seed); };
  const auto value = [&](double code_of) {
    const auto c = static_cast<int64_t>(code_of);
    return static_cast<double>((c ^ sign) - sign);
  };
  const auto in_bytes = [&](const std::vector<double>& from) {
    std::vector<double> to(count((static_cast<int64_t>(from.size()) + a_byte - 1) / a_byte));
    for (size_t i = 0; i < from.size(); ++i)
      to[i / count(a_byte)] += f.bits == 8 ? value(from[i]) : from[i] * (1 << (i % count(a_byte) * count(f.bits)));
    return to;
  };
  const std::vector<double> a = random_values(count(f.m * f.k), f.a, -2, 2, 1), b = codes(width * f.k, 2),
                            zero_codes = codes(width * blocks, 4),
                            scales = random_values(count(width * blocks), other, 0.16 / (1 << f.bits), 1.6 / (1 << f.bits), 3),
                            numbers = random_values(count(width * blocks), other, -3, 3, 5);
  std::vector<double> y;
  const auto sum = [&](int64_t r, int64_t j) {
    double s = 0;
    for (int64_t p = 0; p < f.k; ++p) {
      const size_t at = count(j * blocks + p / block);
      const double zero = f.zero == Zero::None ? 0 : f.zero == Zero::Code ? value(zero_codes[at]) : numbers[at];
      s += a[count(r * f.k + p)] * (value(b[count(j * f.k + p)]) - zero) * scales[at];
    }
    return s;
  };
  for (int64_t r = 0; r < f.m; ++r)
    for (int64_t j = 0; j < f.n; ++j) y.push_back(f.pair ? sum(r, j) + 2 * sum(r, f.n + j) : sum(r, j));
  KernelCase c;
  c.name = std::to_string(f.m) + "x" + std::to_string(f.n) + "x" + std::to_string(f.k) + " in blocks of " +
           std::to_string(f.block) + ", " + std::to_string(f.bits) + " bits" + (f.is_signed ? ", signed" : "") +
           (f.pair ? ", pair" : "");
  c.buffers = {{f.a, a}, {code, in_bytes(b)}, {other, scales}};
  if (f.zero == Zero::Code) c.buffers.push_back({code, in_bytes(zero_codes)});
  if (f.zero == Zero::Number) c.buffers.push_back({other, numbers});
  c.buffers.push_back({DType::F32, y, true});
  c.rtol = f.a == DType::BF16 ? 1e-2 : 1e-3, c.atol = f.a == DType::BF16 ? 0.2 : 0.03;  // weights are rounded to the type of a
  c.build = [=](kernel::Builder& builder, const Mapping& m) {
    GemmSpec s;
    s.m = f.m, s.n = f.n, s.k = f.k;
    s.a = {"a", f.a, {f.k, 1}, f.m * f.k, 0};
    s.b = {"b", code, {1, f.k}, (width * f.k + a_byte - 1) / a_byte, 0};
    s.c = {"c", DType::F32, {f.n, 1}, f.m * f.n, 0};
    Quantized& q = s.quantized.emplace();
    q.bits = f.bits, q.sign = static_cast<int>(sign), q.block = f.block;
    q.value = [sign, bits = f.bits](Expr v) {
      const Expr i = cast_to(v, DType::I32);
      return sign && bits < 8 ? (i ^ static_cast<int>(sign)) - static_cast<int>(sign) : i;
    };
    const Dims by_block = {f.block ? 1 : 0, blocks};
    q.scale = {"scale", other, by_block, width * blocks, 0};
    if (f.zero == Zero::Code) q.zero = {"zero", code, by_block, (width * blocks + a_byte - 1) / a_byte, 0};
    if (f.zero == Zero::Number) q.zero = {"zero", other, by_block, width * blocks, 0};
    q.zero_quantized = f.zero == Zero::Code;
    s.two_sums = f.pair;
    if (f.pair)
      s.epilogue.body = [](std::span<const Expr> sums, const LoadInput&) -> std::vector<Expr> { return {sums[0] + sums[1] * 2}; };
    Mapping own = m;
    if (f.busy) own.busy_workgroups = 1;
    build_gemm(builder, s, own);
  };
  return c;
}

TEST_CASE("few rows by codes") {
  std::vector<KernelCase> cases;
  for (const Form& f : {Form{1, 37, 256, 32}, Form{2, 20, 512, 64, 8, DType::F32},
                        Form{1, 9, 128, 16, 4, DType::BF16, Zero::Number}, Form{1, 40, 320, 32, 4, DType::F16, Zero::None, true},
                        Form{1, 24, 256, 0, 8, DType::F16, Zero::Code, true}, Form{2, 16, 256, 128, 2, DType::F32, Zero::Code},
                        Form{1, 12, 192, 32, 4, DType::F16, Zero::Code, false, true}, Form{1, 17, 90, 30, 8, DType::F16}})
    cases.push_back(form_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("matrix units multiply decoded values") {
  std::vector<KernelCase> cases;
  for (const Form& f :
       {Form{3, 40, 256, 32}, Form{16, 33, 512, 32, 8, DType::BF16}, Form{20, 72, 144, 16, 4, DType::BF16, Zero::Number},
        Form{40, 64, 320, 32, 4, DType::F16, Zero::None, true}, Form{9, 24, 256, 0, 8, DType::F16, Zero::Code, true},
        Form{8, 16, 256, 128, 2}, Form{12, 36, 192, 32, 4, DType::F16, Zero::Code, false, true}, Form{33, 40, 80, 8, 4},
        Form{16, 40, 1536, 32}, Form{10, 30, 96, 12, 4}})
    cases.push_back(form_case(f));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("tiles of decoded values in shared memory") {
  std::vector<KernelCase> cases;
  for (Form f :
       {Form{97, 132, 192, 32, 4, DType::BF16}, Form{130, 104, 64, 64, 8}, Form{60, 132, 192, 32},
        Form{100, 50, 320, 16, 4, DType::F16, Zero::Code, true, true}, Form{96, 97, 448, 32, 4, DType::F16, Zero::None}}) {
    f.busy = true;
    cases.push_back(form_case(f));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

}  // namespace
}  // namespace rlxc::target
