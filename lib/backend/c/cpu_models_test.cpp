#include "backend/c/cpu_models.h"

#include <doctest/doctest.h>

#include "kernel/builders/gemm.h"

using namespace rlxc;

TEST_CASE("tiles fill the registers of a processor") {
  const auto tile = [](const char* name) {
    const kernel::Mapping m = target::cpu_mapping(*target::find_cpu(name));
    return std::pair(kernel::gemm_rows(m, DType::F32), kernel::gemm_panel(m, DType::F32));
  };
  CHECK(tile("skylake-avx512") == std::pair<int64_t, int64_t>(6, 64));
  CHECK(tile("haswell") == std::pair<int64_t, int64_t>(6, 16));
  CHECK(tile("neoverse-n1") == std::pair<int64_t, int64_t>(6, 16));
  CHECK(tile("neoverse-v1") == tile("neoverse-n1"));
  CHECK(tile("generic") == tile("zen4"));
}

TEST_CASE("chunks of prepacked panels fit the second cache") {
  const auto depth = [](const char* name) { return target::cpu_mapping(*target::find_cpu(name)).blocking.packed_depth; };
  CHECK(depth("zen4") == 768);
  CHECK(depth("zen3") == 384);
  CHECK(depth("haswell") == 256);
}

TEST_CASE("a processor has one of the known names") {
  CHECK(target::find_cpu("native") != nullptr);
  CHECK(target::find_cpu("pentium") == nullptr);
  CHECK(target::cpu_names().starts_with("native, generic"));
}
