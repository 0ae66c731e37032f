// Matrix units in C, built for this processor, against plain sums of products.
#include "backend/c/cpu_matrix.h"

#include <doctest/doctest.h>

#include "kernel/builder.h"
#include "support/half.h"
#include "support/native.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

// y = c + a * b of consecutive small matrices.
Kernel small_products(const MatrixUnit& u, int64_t count) {
  kernel::Builder b("products");
  const int of_a = u.a.elements(), of_b = u.b.elements(), of_c = u.c.elements();
  const Buf x = b.input("a", u.operand, count * of_a), w = b.input("b", u.of_b(), count * of_b),
            c = b.input("c", u.accumulator, count * of_c), y = b.output("y", u.accumulator, count * of_c);
  b.loop("i", count, [&](Expr i) {
    y.store(i * of_c, b.matrix_multiply(u, x.load(i * of_a, of_a), w.load(i * of_b, of_b), c.load(i * of_c, of_c)));
  });
  return b.finish();
}

// Compares the kernel, built by both compilers, with sums of a[row][p] * b[column][p].
template <class A, class B, class C, class Add>
void check_unit(const MatrixUnit& u, std::vector<A> a, std::vector<B> w, std::vector<C> c, const Add& add) {
  const size_t k = static_cast<size_t>(u.k), count = c.size() / 4;
  std::vector<C> expected = c, y(c.size());
  for (size_t i = 0; i < count; ++i)
    for (size_t e = 0; e < 4; ++e)
      for (size_t p = 0; p < k; ++p)
        expected[4 * i + e] = add(expected[4 * i + e], a[(2 * i + e / 2) * k + p], w[(2 * i + e % 2) * k + p]);
  const Kernel kernel = small_products(u, static_cast<int64_t>(count));
  for (const char* compiler : {"gcc", "clang"}) {
    INFO(compiler);
    std::string error;
    const auto module =
        NativeModule::build({&kernel}, {Dialect::C, compiler, {"-O2", "-Wall", "-Wextra", "-march=native"}}, &error);
    REQUIRE_MESSAGE(module, error);
    std::ranges::fill(y, C(0));
    void* const buffers[] = {a.data(), w.data(), c.data(), y.data()};
    module->call(0, buffers, {});
    CHECK(y == expected);
  }
}

}  // namespace

TEST_CASE("matrix units of bytes are exact and wrap") {
  constexpr size_t kCount = 16;
  std::vector<uint8_t> a(16 * kCount);
  std::vector<int8_t> w(16 * kCount);
  std::vector<int32_t> c(4 * kCount);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i % 3 == 0 ? 255 : i * 37);
    w[i] = static_cast<int8_t>(i % 5 < 2 ? -128 : i % 5 == 2 ? 127 : i * 11);
    c[i / 4] = i < 32 ? INT32_MIN + 7 : static_cast<int32_t>(i) * 1000003;
  }
  check_unit(kCpuMatrixUnits[0], a, w, c, [](int32_t sum, uint8_t x, int8_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(x * y));
  });
}

TEST_CASE("matrix units of bf16 add small integers exactly") {
  constexpr size_t kCount = 16;
  std::vector<uint16_t> a(8 * kCount), w(8 * kCount);
  std::vector<float> c(4 * kCount);
  const auto small = [](size_t i) { return static_cast<float>(static_cast<int>(i * 37 % 255) - 127); };
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float_to_bf16(small(i)), w[i] = float_to_bf16(small(i * 5 + 3));
    c[i / 2] = static_cast<float>(i) * 1021;
  }
  check_unit(kCpuMatrixUnits[1], a, w, c,
             [](float sum, uint16_t x, uint16_t y) { return sum + bf16_to_float(x) * bf16_to_float(y); });
}
