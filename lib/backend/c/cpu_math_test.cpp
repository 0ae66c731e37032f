// Casts of floats to integers, bounds and functions of floats, in C, built for each instruction set of this processor, against
// values computed here.
#include "backend/c/cpu_math.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>

#include "kernel/builder.h"
#include "kernel/divisor.h"
#include "support/native.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

constexpr int64_t kCount = 512;

Kernel cast_kernel(DType to, DType from, int lanes, bool rounds) {
  kernel::Builder b(std::string(name(to)) + (rounds ? "_rounded_" : "_from_") + std::string(name(from)) + std::to_string(lanes));
  const Buf x = b.input("x", from, kCount), y = b.output("y", to, kCount);
  b.loop("i", kCount / lanes, [&](Expr i) {
    const Expr v = x.load(i * lanes, lanes);
    y.store(i * lanes, cast_to(rounds ? round_even(v) : v, to));
  });
  return b.finish();
}

// Values next to every bound of an integer type, and what no integer type holds.
std::vector<double> values() {
  std::vector<double> v = {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 0.99, -0.99, 1e-40, 1e30, -1e30, INFINITY, -INFINITY, NAN, -NAN};
  for (int bits : {7, 8, 15, 16, 31, 32, 63, 64})
    for (double sign : {1.0, -1.0}) {
      const double power = std::ldexp(sign, bits);
      for (double x : {power, power - 1, power + 1, power - 0.5, power + 0.5, std::nextafter(power, 0.0), power * 0.75})
        for (double y :
             {x, static_cast<double>(static_cast<float>(x)), static_cast<double>(std::nextafter(static_cast<float>(x), 0.0F))})
          v.push_back(y);
    }
  while (v.size() < kCount) v.push_back(static_cast<double>(v.size()) * -1.7);
  return v;
}

// The low bits of the integer nearest to zero, saturated; 0 for a NaN.
uint64_t expected(double x, DType to) {
  const int bits = rlxc::bits(to) - (is_signed(to) ? 1 : 0);
  const double top = std::ldexp(1.0, bits), bottom = is_signed(to) ? -top : 0.0;
  if (std::isnan(x)) return 0;
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (x >= top) return most;
  if (x <= bottom) return ~most & (is_signed(to) ? ~uint64_t{0} : 0);
  return x < 0 ? static_cast<uint64_t>(static_cast<int64_t>(x)) : static_cast<uint64_t>(x);
}

using Check = std::function<void(const NativeModule&, const std::string& set)>;

void on_each_set(const std::vector<Kernel>& kernels, const Check& check) {
  std::vector<const Kernel*> all;
  for (const Kernel& k : kernels) all.push_back(&k);
  std::vector<const char*> sets = {"-march=native"};
#if defined(__x86_64__)
  sets.push_back("-mno-avx");
  if (__builtin_cpu_supports("avx2") != 0) sets.push_back("-mavx2");
  if (__builtin_cpu_supports("fma") != 0) sets.push_back("-march=haswell");
  if (__builtin_cpu_supports("avx512dq") != 0) sets.push_back("-mavx512dq");
#endif
  for (const char* compiler : {"gcc", "clang"})
    for (const char* set : sets) {
      std::string error;
      const auto module = NativeModule::build(all, {Dialect::C, compiler, {"-O3", "-Wall", "-Wextra", set}}, &error);
      REQUIRE_MESSAGE(module, error);
      check(*module, compiler + std::string(" ") + set);
    }
}

Kernel bound_kernel(ExprOp op, DType t, int lanes) {
  kernel::Builder b(std::string(kernel::name(op)) + "_" + std::string(rlxc::name(t)) + std::to_string(lanes));
  const Buf x = b.input("x", t, kCount), y = b.input("y", t, kCount), z = b.output("z", t, kCount);
  b.loop("i", kCount / lanes, [&](Expr i) {
    const Expr u = x.load(i * lanes, lanes), v = y.load(i * lanes, lanes);
    z.store(i * lanes, op == ExprOp::Max ? max(u, v) : min(u, v));
  });
  return b.finish();
}

// Counts the results that are not those of the rule: a NaN for a NaN, and of equal values, bit by bit, the second.
template <typename T>
int64_t wrong_bounds(ExprOp op, const NativeModule& module, size_t k) {
  constexpr T kInf = std::numeric_limits<T>::infinity(), kNan = std::numeric_limits<T>::quiet_NaN();
  const T some[] = {0, -T{0}, 1, -1, kInf, -kInf, kNan, 3};
  std::vector<T> x(kCount), y(kCount), z(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = some[i % 8], y[i] = some[i / 8 % 8];
  void* const buffers[] = {x.data(), y.data(), z.data()};
  module.call(k, buffers, {});
  int64_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const bool first = std::isnan(x[i]) || (op == ExprOp::Max ? x[i] > y[i] : x[i] < y[i]);
    const T right = first ? x[i] : y[i];
    wrong += std::isnan(right) ? !std::isnan(z[i]) : std::memcmp(&z[i], &right, sizeof(T)) != 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("bounds of floats keep NaN and signs of zero in vectors of every width") {
  std::vector<Kernel> kernels;
  std::vector<std::pair<ExprOp, DType>> forms;
  for (DType t : {DType::F32, DType::F64})
    for (ExprOp op : {ExprOp::Min, ExprOp::Max})
      for (int lanes : {16, 8, 4, 2, 1}) {
        kernels.push_back(bound_kernel(op, t, lanes));
        forms.emplace_back(op, t);
      }
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto [op, t] = forms[k];
      const int64_t wrong = t == DType::F32 ? wrong_bounds<float>(op, module, k) : wrong_bounds<double>(op, module, k);
      CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name);
    }
  });
}

TEST_CASE("bounds of integers in vectors of every width") {
  std::vector<Kernel> kernels;
  std::vector<std::pair<ExprOp, DType>> forms;
  for (DType t : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64})
    for (ExprOp op : {ExprOp::Min, ExprOp::Max})
      for (int lanes : {64, 32, 16, 8, 4, 2, 1}) {
        if (lanes * rlxc::bits(t) > 512) continue;
        kernels.push_back(bound_kernel(op, t, lanes));
        forms.emplace_back(op, t);
      }
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto [op, t] = forms[k];
      const auto size = static_cast<size_t>(rlxc::bits(t)) / 8;
      std::vector<std::byte> x(kCount * 8), y(kCount * 8), z(kCount * 8);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<std::byte>(i * 37 % 251), y[i] = static_cast<std::byte>(i * 91 % 241);
      void* const buffers[] = {x.data(), y.data(), z.data()};
      module.call(k, buffers, {});
      int64_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const std::byte *const a = x.data() + i * size, *const b = y.data() + i * size;
        uint64_t bits[2] = {};
        std::memcpy(&bits[0], a, size), std::memcpy(&bits[1], b, size);
        if (is_signed(t))  // the order of unsigned numbers
          for (uint64_t& v : bits) v ^= uint64_t{1} << (8 * size - 1);
        wrong += std::memcmp(z.data() + i * size, (bits[0] < bits[1]) == (op == ExprOp::Min) ? a : b, size) != 0;
      }
      CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name);
    }
  });
}

TEST_CASE("casts of floats to integers, rounded or not, saturate in vectors of every width") {
  const std::vector<double> doubles = values();
  REQUIRE(doubles.size() == kCount);
  const std::vector<float> floats(doubles.begin(), doubles.end());
  std::vector<Kernel> kernels;
  std::vector<std::tuple<DType, DType, bool>> forms;
  for (DType from : {DType::F32, DType::F64})
    for (DType to : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64, DType::U64})
      for (int lanes : {16, 8, 4, 2, 1})
        for (bool rounds : {false, true}) {
          if (rounds && from == DType::F64) continue;
          kernels.push_back(cast_kernel(to, from, lanes, rounds));
          forms.emplace_back(to, from, rounds);
        }
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto [to, from, rounds] = forms[k];
      std::vector<std::byte> result(kCount * 8);
      void* const buffers[] = {from == DType::F32 ? const_cast<void*>(static_cast<const void*>(floats.data()))
                                                  : const_cast<void*>(static_cast<const void*>(doubles.data())),
                               result.data()};
      module.call(k, buffers, {});
      const auto size = static_cast<size_t>(rlxc::bits(to)) / 8;
      int64_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const double value = from == DType::F32 ? static_cast<double>(floats[i]) : doubles[i];
        const uint64_t right = expected(rounds ? std::nearbyint(value) : value, to);
        wrong += std::memcmp(result.data() + i * size, &right, size) != 0;
      }
      CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name);
    }
  });
}

TEST_CASE("square roots, sines and cosines of vectors are those of the library, of large arguments too") {
  std::vector<Kernel> kernels;
  std::vector<ExprOp> ops;
  for (ExprOp op : {ExprOp::Sqrt, ExprOp::Sin, ExprOp::Cos})
    for (int lanes : {16, 8, 4, 2}) {
      kernel::Builder b(std::string(kernel::name(op)) + std::to_string(lanes));
      const Buf x = b.input("x", DType::F32, kCount), y = b.output("y", DType::F32, kCount);
      b.loop("i", kCount / lanes, [&](Expr i) {
        const Expr v = x.load(i * lanes, lanes);
        y.store(i * lanes, op == ExprOp::Sqrt ? sqrt(v) : op == ExprOp::Sin ? sin(v) : cos(v));
      });
      kernels.push_back(b.finish());
      ops.push_back(op);
    }
  std::vector<float> x(kCount), y(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = (static_cast<float>(i) - 100) * 0.37F * (i < 300 ? 1.0F : 1000.0F);
  x[20] = NAN, x[50] = INFINITY, x[77] = 1e30F;
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      void* const buffers[] = {x.data(), y.data()};
      module.call(k, buffers, {});
      int64_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const double v = x[i], want = ops[k] == ExprOp::Sqrt  ? std::sqrt(x[i])
                                      : ops[k] == ExprOp::Sin ? std::sin(v)
                                                              : std::cos(v);
        wrong += std::isnan(want) != std::isnan(y[i]) || std::abs(want - y[i]) > 2e-7 * std::max(std::abs(want), 1.0);
      }
      CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name);
    }
  });
}

TEST_CASE("quotients by one divisor round to the integers that divisions give") {
  std::vector<Kernel> kernels;
  for (int lanes : {16, 8, 4, 2, 1})
    for (bool broadcasts : {false, true}) {
      kernel::Builder b("quotient" + std::to_string(lanes) + (broadcasts ? "b" : ""));
      const Buf x = b.input("x", DType::F32, kCount), divisor = b.input("d", DType::F32, 1),
                y = b.output("y", DType::F32, kCount);
      b.loop("i", kCount / lanes, [&](Expr i) {
        const Expr d = divisor[0];
        y.store(i * lanes, quotient(x.load(i * lanes, lanes), broadcasts ? broadcast(d, lanes) : d));
      });
      kernels.push_back(b.finish());
    }
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k)
      for (float d : {0.02F, 0.5F, 3.1F, 1e-6F, 7e5F}) {
        REQUIRE(rounds_alike(d, 256));
        std::vector<float> x(kCount), y(kCount);
        for (size_t i = 0; i < kCount; ++i) {
          x[i] = (static_cast<float>(i / 3) + 0.5F) * d * (i % 2 == 0 ? 1.0F : -1.0F);
          if (i % 3 != 0) x[i] = std::nextafter(x[i], i % 3 == 1 ? 0.0F : 2 * x[i]);
        }
        x[1] = 0, x[2] = INFINITY, x[3] = -INFINITY, x[4] = 3e38F, x[5] = NAN, x[6] = -0.0F;
        void* const buffers[] = {x.data(), &d, y.data()};
        module.call(k, buffers, {});
        int64_t wrong = 0;
        for (size_t i = 0; i < kCount; ++i) {
          const float want = std::nearbyint(x[i] / d);
          wrong += std::isnan(want) ? !std::isnan(y[i]) : std::nearbyint(y[i]) != want && std::abs(want) < 1e4F;
          wrong += std::isinf(want) != std::isinf(y[i]) || (!std::isnan(want) && std::signbit(want) != std::signbit(y[i]));
        }
        CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name << " " << d);
      }
  });
}

TEST_CASE("products are rounded before they are added") {
  std::vector<Kernel> kernels;
  for (int lanes : {16, 8, 4, 2, 1}) {
    kernel::Builder b("product" + std::to_string(lanes));
    const Buf x = b.input("x", DType::F32, kCount), y = b.input("y", DType::F32, kCount), z = b.output("z", DType::F32, kCount);
    b.loop("i", kCount / lanes, [&](Expr i) {
      const Expr u = x.load(i * lanes, lanes), v = y.load(i * lanes, lanes);
      z.store(i * lanes, product(u, v) + product(v, v));
    });
    kernels.push_back(b.finish());
  }
  std::vector<float> x(kCount), y(kCount), z(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i) * 0.1F, y[i] = 0.3F - static_cast<float>(i % 37) * 0.05F;
  on_each_set(kernels, [&](const NativeModule& module, const std::string& set) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      void* const buffers[] = {x.data(), y.data(), z.data()};
      module.call(k, buffers, {});
      int64_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const volatile float first = x[i] * y[i], second = y[i] * y[i];
        wrong += z[i] != first + second;
      }
      CHECK_MESSAGE(wrong == 0, set << " " << kernels[k].name);
    }
  });
}
