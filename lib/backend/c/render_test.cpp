// Golden files of the text that each target renders for small kernels of three builders.
#include "backend/c/render.h"

#include <doctest/doctest.h>

#include <string>

#include "backend/gpu/gpu_backend.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/map.h"
#include "kernel/builders/reduce.h"
#include "kernel/simplify.h"
#include "kernel/verify.h"
#include "support/golden.h"

using namespace rlxc;
using namespace rlxc::kernel;

namespace {

// y = silu(x) * s + b over [n, 6], with a row b and a number s.
void elementwise(kernel::Builder& b, const Mapping& m) {
  const Expr n = b.symbol("n", 1, 1 << 20);
  Kernel* k = b.kernel();
  MapSpec spec;
  spec.shape = {n, 6};
  spec.inputs = {dense(k, "x", DType::F32, spec.shape), broadcast_operand(k, "s", DType::F16, {1}, spec.shape),
                 broadcast_operand(k, "b", DType::F32, {6}, spec.shape)};
  spec.outputs = {dense(k, "y", DType::F32, spec.shape)};
  spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0] / (1.0 + exp(-v[0])) * v[1] + v[2]}; };
  build_map(b, spec, m);
}

// The mean of each row of [n, 70].
void reduction(kernel::Builder& b, const Mapping& m) {
  const Expr n = b.symbol("n", 1, 1 << 20);
  Kernel* k = b.kernel();
  ReduceSpec spec;
  spec.shape = {n, 70};
  spec.reduced = {false, true};
  spec.inputs = {dense(k, "x", DType::F32, spec.shape)};
  spec.output = dense(k, "y", DType::F32, {n});
  spec.epilogue.body = [](std::span<const Expr> sum, const LoadInput&) -> std::vector<Expr> {
    return {sum[0] / cast_to(sum[1], DType::F32)};
  };
  build_reduce(b, spec, m);
}

// c = max(a [n, 24] * b [24, 10], 0).
void gemm(kernel::Builder& b, const Mapping& m) {
  const Expr n = b.symbol("n", 1, 1 << 20);
  Kernel* k = b.kernel();
  GemmSpec spec;
  spec.m = n, spec.n = 10, spec.k = 24;
  spec.a = dense(k, "a", DType::F32, {n, 24});
  spec.b = dense(k, "b", DType::F32, {24, 10});
  spec.c = dense(k, "c", DType::F32, {n, 10});
  spec.epilogue.body = [](std::span<const Expr> sum, const LoadInput&) -> std::vector<Expr> {
    return {max(sum[0], lit(sum[0], 0))};
  };
  build_gemm(b, spec, m);
}

struct Sample {
  const char* name;
  void (*build)(kernel::Builder&, const Mapping&);
};
constexpr Sample kSamples[] = {{"elementwise", elementwise}, {"reduction", reduction}, {"gemm", gemm}};

}  // namespace

TEST_CASE("golden kernels of every target with kernels") {
  int checked = 0;
  for (const Backend* backend : backends()) {
    const TargetInfo& t = backend->info;
    if (!t.language) continue;
    const auto* gpu = dynamic_cast<const GpuBackend*>(backend);
    for (const Sample& s : kSamples) {
      kernel::Builder b(s.name);
      s.build(b, t.mapping);
      Kernel k = b.finish();
      simplify(k);
      if (gpu && gpu->packaging.prepare) gpu->packaging.prepare(k, {});
      else if (gpu) narrow_indices(k);
      for (const std::string& problem : verify(k, {t.mapping.shared_bytes, t.mapping.max_workgroup_size})) FAIL_CHECK(problem);
      test::check_golden("kernels/" + std::string(s.name) + "." + std::string(t.name) + "." + std::string(t.extension),
                         target::render(k, t.language()));
      ++checked;
    }
  }
  CHECK(checked == 15);
}

TEST_CASE("tiles of matrix units are copied to shared memory by 16 bytes where stores can be deferred") {
  const TargetInfo& cuda = find_backend("cuda")->info;
  kernel::Builder b("product");
  Kernel* k = b.kernel();
  GemmSpec spec;
  spec.m = spec.n = spec.k = 4096;
  spec.a = dense(k, "a", DType::F16, {4096, 4096});
  spec.b = dense(k, "b", DType::F16, {4096, 4096});
  spec.c = dense(k, "c", DType::F16, {4096, 4096});
  build_gemm(b, spec, cuda.mapping);
  Kernel product = b.finish();
  simplify(product);
  const std::string text = target::render(product, cuda.language());
  CHECK(text.find("wgmma") != std::string::npos);
  CHECK(text.find("rlxc_copy_later_16") != std::string::npos);
}

TEST_CASE("held vectors are function calls only in C, where they have 64 bytes") {
  const auto held = [](std::string_view target, int lanes) {
    kernel::Builder b("twice");
    Buf x = b.input("x", DType::F32, lanes), y = b.output("y", DType::F32, lanes);
    const Expr v = b.hold("v", x.load(0, lanes));
    y.store(0, v * v);
    Kernel k = b.finish();
    simplify(k);
    return target::render(k, find_backend(target)->info.language()).find("rlxc_held_") != std::string::npos;
  };
  CHECK(held("cpu", 16));
  CHECK_FALSE(held("cpu", 8));
  CHECK_FALSE(held("metal", 4));
}
