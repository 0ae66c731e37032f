// Dot units in C, built for each instruction set of this processor, against plain sums of products.
#include "backend/c/cpu_dot.h"

#include <doctest/doctest.h>

#include "kernel/builder.h"
#include "kernel/builders/dot_unit.h"
#include "support/half.h"
#include "support/native.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

struct Types {
  DType a, b, sum;
  int group;
};
constexpr Types kBytes{DType::U8, DType::I8, DType::I32, 4}, kShorts{DType::I16, DType::I16, DType::I32, 2},
    kBrains{DType::BF16, DType::BF16, DType::F32, 2};

// y = c + sums of products of a and b, as vectors of 16, 8, 4 sums and one at a time.
std::vector<Kernel> sums_of_products(int64_t n, const Types& t, bool small = false) {
  std::vector<Kernel> kernels;
  for (const int lanes : {16, 8, 4, 1}) {
    kernel::Builder b("sums_" + std::to_string(lanes));
    const Buf x = b.input("a", t.a, n), w = b.input("b", t.b, n), c = b.input("c", t.sum, n / t.group),
              y = b.output("y", t.sum, n / t.group);
    const int width = t.group * lanes;
    b.loop("i", n / width, [&](Expr i) {
      const Expr of_x = x.load(i * width, width), of_w = w.load(i * width, width), sum = c.load(i * lanes, lanes);
      y.store(i * lanes, small ? dot_of_small(of_x, of_w, sum) : dot(of_x, of_w, sum));
    });
    kernels.push_back(b.finish());
  }
  return kernels;
}

// Builds the kernels for each instruction set of this processor by both compilers and calls body(module).
template <class Body>
void each_instruction_set(const std::vector<Kernel>& kernels, const Body& body) {
  struct InstructionSet {
    const char* flag;
    bool runs;
  };
  std::vector<InstructionSet> sets = {{"-march=native", true}};
#if defined(__x86_64__)
  sets = {{"-march=native", true},
          {"-mno-avx2", true},
          {"-mavx2", __builtin_cpu_supports("avx2") != 0},
          {"-mavx512bw", __builtin_cpu_supports("avx512bw") != 0},
          {"-mavx512vnni", __builtin_cpu_supports("avx512vnni") != 0},
          {"-mavx512bf16", __builtin_cpu_supports("avx512bf16") != 0}};
#endif
  std::vector<const Kernel*> all;
  for (const Kernel& k : kernels) all.push_back(&k);
  for (const char* compiler : {"gcc", "clang"})
    for (const InstructionSet& set : sets) {
      if (!set.runs) continue;
      INFO(compiler << " " << set.flag);
      std::string error;
      const auto module = NativeModule::build(all, {Dialect::C, compiler, {"-O2", "-Wall", "-Wextra", set.flag}}, &error);
      REQUIRE_MESSAGE(module, error);
      body(*module);
    }
}

template <class A, class B, class Sum>
void check_sums(const std::vector<Kernel>& kernels, std::vector<A>& a, std::vector<B>& b, std::vector<Sum>& c,
                const std::vector<Sum>& expected) {
  each_instruction_set(kernels, [&](const NativeModule& module) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      std::vector<Sum> y(c.size());
      void* const buffers[] = {a.data(), b.data(), c.data(), y.data()};
      module.call(k, buffers, {});
      CHECK(y == expected);
    }
  });
}

void check_integers(bool small) {
  constexpr int64_t kCount = 4 * 64;
  const int most = small ? 127 : 255;
  std::vector<uint8_t> a(kCount);
  std::vector<int8_t> w(kCount);
  std::vector<int32_t> c(kCount / 4), expected(kCount / 4);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i % 3 == 0 ? most : static_cast<int>(i * 37) & most),
    w[i] = static_cast<int8_t>(i % 5 < 2    ? -128
                               : i % 5 == 2 ? 127
                                            : i * 11);
    c[i / 4] = i < 16 ? INT32_MAX : static_cast<int32_t>(i) * 1000003;
  }
  for (size_t i = 0; i < c.size(); ++i) {
    uint32_t sum = static_cast<uint32_t>(c[i]);
    for (size_t q = 4 * i; q < 4 * i + 4; ++q) sum += static_cast<uint32_t>(a[q] * w[q]);
    expected[i] = static_cast<int32_t>(sum);
  }
  check_sums(sums_of_products(kCount, kBytes, small), a, w, c, expected);
}

}  // namespace

TEST_CASE("dot units are exact on every instruction set") {
  for (const bool small : {false, true}) check_integers(small);
}

TEST_CASE("dot units of 16-bit integers are exact modulo 2^32 on every instruction set") {
  constexpr int64_t kCount = 2 * 64;
  std::vector<int16_t> a(kCount), w(kCount);
  std::vector<int32_t> c(kCount / 2), expected(kCount / 2);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<int16_t>(i % 6 < 2 ? -32768 : static_cast<int>(i) * 1237);
    w[i] = static_cast<int16_t>(i % 6 < 2 ? -32768 : static_cast<int>(i) * 4099);
    c[i / 2] = static_cast<int32_t>(i) * 10000007;
  }
  for (size_t i = 0; i < c.size(); ++i)
    expected[i] = static_cast<int32_t>(static_cast<uint32_t>(c[i]) + static_cast<uint32_t>(a[2 * i] * w[2 * i]) +
                                       static_cast<uint32_t>(a[2 * i + 1] * w[2 * i + 1]));
  check_sums(sums_of_products(kCount, kShorts), a, w, c, expected);
}

TEST_CASE("dot units of bf16 add small integers exactly on every instruction set") {
  constexpr int64_t kCount = 2 * 64;
  std::vector<uint16_t> a(kCount), w(kCount);
  std::vector<float> c(kCount / 2), expected(kCount / 2);
  const auto small = [](size_t i) { return static_cast<float>(static_cast<int>(i * 37 % 255) - 127); };
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float_to_bf16(small(i)), w[i] = float_to_bf16(small(i * 5 + 3));
    c[i / 2] = static_cast<float>(i) * 1021;
  }
  for (size_t i = 0; i < c.size(); ++i)
    expected[i] = c[i] + small(2 * i) * small(10 * i + 3) + small(2 * i + 1) * small(10 * i + 8);
  check_sums(sums_of_products(kCount, kBrains), a, w, c, expected);
}
