// Fourier transforms on CPU threads must equal the reference evaluator for lengths of every form, interpreted and compiled.
#include <doctest/doctest.h>

#include "codegen/lowering_cache.h"
#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "runtime/run_package.h"

using namespace rlxc;

namespace {

// A transform of 3 rows along the second axis of [3, given, inner, parts].
void check_fft(int64_t given, int64_t inner, int64_t parts, int64_t length, FftAttrs a, const codegen::CapabilityRow& row = {}) {
  INFO("length " << length << " of " << given << ", " << inner << " columns, " << parts << " parts, inverse " << a.inverse
                 << ", onesided " << a.onesided << ", vectors of " << row.mapping.vector_bytes);
  auto m = std::make_unique<Module>();
  Diagnostics d;
  Builder b(m->main(), &d);
  const Type type = tensor_type(DType::F32, {3, given, inner, parts});
  a.axis = 1;
  a.length = length == given ? Dim(0) : Dim(length);
  m->main().add_output(b.create(OpKind::Fft, {b.input("x", type)}, a), m->symbol("y"));
  REQUIRE_MESSAGE(d.errors() == 0, d.text());
  const std::vector<eval::HostValue> inputs = {eval::random_value(*m, type, {}, 1)};
  const auto expected = eval::evaluate(*m, inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  const auto lir = plan_lir(std::move(m), {.verify = true}, d, {.kernels = row});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto agrees = [&](const std::optional<std::vector<eval::HostValue>>& actual, const char* how) {
    REQUIRE_MESSAGE(actual.has_value(), how << ": " << d.text());
    const auto compared = eval::compare((*actual)[0], (*expected)[0], 1e-4, 2e-5);
    CHECK_MESSAGE(compared.pass, how << ": " << compared.message);
  };
  codegen::LoweringCache lowerings(row);
  const auto runner = make_interpreting_runner(*lir, "cpu", d, 0, &lowerings);
  REQUIRE_MESSAGE(runner != nullptr, d.text());
  agrees(runner->run(inputs, d), "interpreted");
  const auto package = codegen::make_package(*lir, "fft", row, d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  agrees(run_package(*package, inputs, d), "compiled");
}

}  // namespace

TEST_CASE("Fourier transforms of all kinds of lengths") {
  // Powers of two, fewer elements than lanes in a column, a rest of a vector, odd factors, a factor too large for registers, and
  // odd lengths.
  for (int64_t n : {8, 16, 32, 128, 512, 2048, 48, 120, 400, 1000, 16 * 13, 16 * 17, 20, 97}) check_fft(n, 1, 2, n, {});
}

TEST_CASE("Fourier transforms of real rows, inverse ones, padded and cut ones, and columns") {
  for (int64_t n : {64, 240}) {
    FftAttrs real, back, half, unitary;
    real.onesided = half.onesided = true;
    back.inverse = half.inverse = true;
    back.norm = half.norm = FftNorm::InverseN;
    unitary.norm = FftNorm::Unitary;
    check_fft(n, 1, 1, n, real);
    check_fft(n, 1, 2, n, back);
    check_fft(n / 2 + 1, 1, 2, n, half);
    check_fft(n - 3, 3, 2, n, unitary);
    check_fft(n + 5, 2, 1, n, {});
    check_fft(n, 1, 1, n, unitary);
    check_fft(n - 3, 1, 2, n, back);
    check_fft(n + 5, 1, 2, n, unitary);
  }
}

TEST_CASE("vectors of Fourier transforms follow the processor") {
  for (const auto& [bytes, registers] : {std::pair{32, 16}, std::pair{16, 32}}) {
    codegen::CapabilityRow row;
    row.mapping.vector_bytes = row.mapping.load_bytes = bytes;
    row.mapping.vector_registers = registers;
    for (int64_t n : {200, 256}) check_fft(n, 1, 2, n, {}, row);
  }
}
