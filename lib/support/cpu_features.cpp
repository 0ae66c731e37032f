#include "support/cpu_features.h"

#if defined(__x86_64__)
#if __has_include(<sys/platform/x86.h>) && !defined(__clang__)  // the header uses _Bool, which clang has in C only
#include <sys/platform/x86.h>

namespace rlxc {

bool has_avx2() { return CPU_FEATURE_ACTIVE(AVX2); }
bool has_avx512f() { return CPU_FEATURE_ACTIVE(AVX512F); }
bool has_avx512_bf16() { return CPU_FEATURE_ACTIVE(AVX512_BF16); }
bool has_fma() { return CPU_FEATURE_ACTIVE(FMA); }
bool has_vnni() { return has_avx512f() ? CPU_FEATURE_ACTIVE(AVX512_VNNI) : CPU_FEATURE_ACTIVE(AVX_VNNI); }
bool has_sha() { return CPU_FEATURE_PRESENT(SHA) && CPU_FEATURE_PRESENT(SSE4_1) && CPU_FEATURE_PRESENT(SSSE3); }

}  // namespace rlxc
#else
#include <cpuid.h>

namespace rlxc {

bool has_avx2() { return __builtin_cpu_supports("avx2"); }
bool has_avx512f() { return __builtin_cpu_supports("avx512f"); }
bool has_avx512_bf16() { return __builtin_cpu_supports("avx512bf16"); }
bool has_fma() { return __builtin_cpu_supports("fma"); }
bool has_sha() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
bool has_vnni() {
  unsigned a, b, c, d;
  if (has_avx512f()) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11);
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}

}  // namespace rlxc
#endif
#elif defined(__aarch64__)
#if defined(__APPLE__)
#include <sys/sysctl.h>

namespace rlxc {
namespace {

bool has(const char* feature) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}

}  // namespace

bool has_bf16() { return has("hw.optional.arm.FEAT_BF16"); }
bool has_i8mm() { return has("hw.optional.arm.FEAT_I8MM"); }

}  // namespace rlxc
#else
#include <sys/auxv.h>

namespace rlxc {

bool has_bf16() { return getauxval(AT_HWCAP2) & 1 << 14; }  // HWCAP2_BF16
bool has_i8mm() { return getauxval(AT_HWCAP2) & 1 << 13; }  // HWCAP2_I8MM

}  // namespace rlxc
#endif
#endif
