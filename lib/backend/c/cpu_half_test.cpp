// Conversions of 16-bit floats in C, built for each instruction set of this processor, against those of this program.
#include "backend/c/cpu_half.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "kernel/builder.h"
#include "support/half.h"
#include "support/native.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

Kernel conversion(DType to, DType from, int64_t n, int lanes) {
  kernel::Builder b(std::string(name(to)) + "_from_" + std::string(name(from)) + std::to_string(lanes));
  const Buf x = b.input("x", from, n), y = b.output("y", to, n);
  b.loop("i", n / lanes, [&](Expr i) { y.store(i * lanes, cast_to(x.load(i * lanes, lanes), to)); });
  return b.finish();
}

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

}  // namespace

TEST_CASE("conversions of 16-bit floats are exact on every instruction set") {
  constexpr int64_t kCount = 1 << 16;
  std::vector<uint16_t> halves(kCount), narrow(kCount);
  std::vector<float> wide(kCount), floats(kCount);
  for (size_t i = 0; i < kCount; ++i) halves[i] = static_cast<uint16_t>(i);
  // Every exponent, ties, values next to ties, overflows, denormals, NaN.
  for (size_t i = 0; i < kCount; ++i) {
    const auto u = static_cast<uint32_t>(i) * 0x9e3779b1U;
    const uint32_t ends[] = {0, 0x1000, 0x0fff, 0x1001, 0x8000, 0x7fff, 0x8001, u & 0xffff};
    floats[i] = std::bit_cast<float>((u & 0xffff0000U) | ends[i % 8]);
  }
  std::vector<const char*> sets = {"-march=native"};
#if defined(__x86_64__)
  sets.push_back("-mno-avx");
  if (__builtin_cpu_supports("avx2") != 0) sets.push_back("-mf16c");
  if (__builtin_cpu_supports("avx512f") != 0) sets.push_back("-mavx512f");
#endif
  struct Form {
    DType half;
    bool widens;
    Kernel kernel;
  };
  std::vector<Form> forms;
  for (DType t : {DType::F16, DType::BF16})
    for (int lanes : {32, 16, 8, 4, 2, 1}) {
      forms.push_back({t, true, conversion(DType::F32, t, kCount, lanes)});
      forms.push_back({t, false, conversion(t, DType::F32, kCount, lanes)});
    }
  std::vector<const Kernel*> all;
  for (const Form& f : forms) all.push_back(&f.kernel);
  for (const char* compiler : {"gcc", "clang"})
    for (const char* set : sets) {
      std::string error;
      const auto module = NativeModule::build(all, {Dialect::C, compiler, {"-O2", "-Wall", "-Wextra", set}}, &error);
      REQUIRE_MESSAGE(module, error);
      for (size_t k = 0; k < forms.size(); ++k) {
        const auto number = [&](uint16_t h) { return forms[k].half == DType::F16 ? f16_to_float(h) : bf16_to_float(h); };
        void* const buffers[] = {forms[k].widens ? static_cast<void*>(halves.data()) : floats.data(),
                                 forms[k].widens ? static_cast<void*>(wide.data()) : narrow.data()};
        module->call(k, buffers, {});
        int64_t wrong = 0;
        for (size_t i = 0; i < kCount; ++i) {
          const float actual = forms[k].widens ? wide[i] : number(narrow[i]);
          const float expected = forms[k].widens
                                     ? number(halves[i])
                                     : number(forms[k].half == DType::F16 ? float_to_f16(floats[i]) : float_to_bf16(floats[i]));
          wrong += !same(actual, expected);
        }
        CHECK_MESSAGE(wrong == 0, compiler << " " << set << " " << all[k]->name);
      }
    }
}
