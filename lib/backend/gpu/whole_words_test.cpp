#include "backend/gpu/whole_words.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "backend/c/render.h"
#include "backend/gpu/gpu_backend.h"
#include "kernel/builder.h"
#include "kernel/builders/common.h"
#include "kernel/interpret.h"
#include "kernel/rewrite.h"
#include "kernel/simplify.h"
#include "kernel/verify.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using kernel::Builder;
using target::KernelCase;

namespace {

Mapping grid() {
  Mapping m;
  m.workgroups = true;
  m.load_bytes = m.vector_bytes = 16;
  m.max_vector_lanes = 4;
  m.workgroup_size = 64, m.max_workgroup_size = 256, m.warp = 1;
  m.max_grid = {7, 65535, 65535};
  return m;
}

// y[at(i)] = 2 * x[i] for i below n.
Kernel doubled(DType t, int64_t n, int64_t rows, const std::function<Expr(Expr)>& at) {
  Builder b("doubled");
  const Buf x = b.input("x", t, n), y = b.output("y", t, (rows + 3) / 4 * 4);
  for_each(b, grid(), "i", n, 1, [&](Expr i) { y.store(at(i), cast_to(cast_to(x[i], DType::F32) * 2.0, t)); });
  Kernel k = b.finish();
  simplify(k);
  return k;
}

std::vector<uint8_t> result_of(const Kernel& k, std::vector<uint8_t> x, size_t bytes) {
  std::vector<uint8_t> y(bytes, 77);
  CHECK(verify(k, {}).empty());
  const std::array<void*, 2> arguments = {x.data(), y.data()};
  const InterpretResult run = interpret(k, arguments, {});
  for (const std::string& s : run.findings) CHECK_MESSAGE(run.ok(), s);
  return y;
}

size_t bits_of_stores(const Kernel& k) {
  size_t least = 64;
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (s.kind == StmtKind::Store && k.buffer(s.buffer).space == Space::Global)
      least = std::min(least, size_t{k.expr(s.value).type.lanes} * bits(k.buffer(s.buffer).type.dtype));
  });
  return least;
}

}  // namespace

TEST_CASE("neighbours that store elements of a word become one thread, which stores the word") {
  std::vector<uint8_t> x(2000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 37 % 120);
  for (const int64_t n : {30, 64, 97, 500, 1000}) {
    CAPTURE(n);
    const auto check = [&](const std::function<Expr(Expr)>& at, int64_t rows, bool merges, const std::vector<bool>& aligned) {
      const Kernel plain = doubled(DType::U8, n, rows, at);
      Kernel merged = plain;
      target::align_words(merged, aligned);
      target::merge_stores(merged, aligned);
      CHECK((bits_of_stores(merged) == 32) == merges);
      CHECK(target::stores_parts(merged) != merges);
      const auto words = static_cast<size_t>((rows + 3) / 4 * 4);
      CHECK(result_of(merged, x, words) == result_of(plain, x, words));
    };
    check([](Expr i) { return i; }, n, true, {});
    check([](Expr i) { return i; }, n, false, {true, false});
    check([](Expr i) { return i + 4; }, n + 4, true, {});
    check([](Expr i) { return i + 1; }, n + 1, false, {});
    // The parts of an index, and rows of whole words in longer ones.
    check([](Expr i) { return i / 15 * 15 + i / 5 % 3 * 5 + i % 5; }, n, true, {});
    check([](Expr i) { return i / 8 * 12 + i % 8; }, (n / 8 + 1) * 12, true, {});
    check([](Expr i) { return i / 6 * 12 + i % 6; }, (n / 6 + 1) * 12, false, {});
    check([](Expr i) { return i * 2; }, 2 * n, false, {});
  }
}

TEST_CASE("elements of a word that no thread stores are preserved") {
  Builder b("some");
  const Buf x = b.input("x", DType::U8, 100), y = b.output("y", DType::U8, 100);
  for_each(b, grid(), "i", 100, 1, [&](Expr i) { b.when(i % 3 == 0, [&] { y.store(i, x[i]); }); });
  Kernel plain = b.finish();
  simplify(plain);
  Kernel merged = plain;
  target::merge_stores(merged, {});
  CHECK(bits_of_stores(merged) == 32);
  std::vector<uint8_t> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i);
  CHECK(result_of(merged, values, 100) == result_of(plain, values, 100));
}

TEST_CASE("vectors that may begin within a word are accessed by elements") {
  for (const bool aligned : {true, false}) {
    Builder b("copy");
    const Buf x = b.input("x", DType::I8, 256), y = b.output("y", DType::I8, 256);
    for_each(b, grid(), "i", 63, 1, [&](Expr i) { y.store(i * 4, x.load(aligned ? i * 4 : i * 4 + 1, 4)); });
    Kernel k = b.finish();
    target::align_words(k, {});
    const auto gathers = std::ranges::any_of(k.exprs, [](const ExprNode& e) { return e.op == ExprOp::Ramp; });
    CHECK(gathers != aligned);
    CHECK(bits_of_stores(k) == 32);
    target::align_words(k, {true, false});
    CHECK(bits_of_stores(k) == 8);
    CHECK(target::stores_parts(k));
  }
}

TEST_CASE("merged stores and words compute the same on every target") {
  std::vector<KernelCase> cases;
  for (const DType t : {DType::F16, DType::BF16, DType::I8, DType::U16, DType::Bool})
    for (const int64_t n : {7, 64, 321}) {
      KernelCase c;
      c.name = std::string(name(t)) + " " + std::to_string(n);
      const std::vector<double> values =
          target::random_values(static_cast<size_t>(n), t, is_float(t) ? -3 : 0, t == DType::Bool ? 1 : 3, 5);
      std::vector<double> want = values;
      for (size_t i = 0; i < want.size(); i += 3) want[i] = 0;
      c.buffers = {{t, values, false}, {t, want, true}};
      c.build = [=](Builder& b, const Mapping& m) {
        const Buf x = b.input("x", t, n), y = b.output("y", t, n);
        for_each(b, m, "i", n, 1, [&](Expr i) { y.store(i, select(i % 3 == 0, lit(x[i], 0), x[i])); });
      };
      cases.push_back(std::move(c));
    }
  for (const std::string& problem : target::check_kernels(cases)) FAIL_CHECK(problem);
}

TEST_CASE("stores of parts of words have a second form with 16-bit floats") {
  const auto& wgpu = static_cast<const GpuBackend&>(wgpu_backend());
  for (const bool whole : {true, false})
    for (const DType t : {DType::F16, DType::BF16}) {
      Kernel k = doubled(t, 320, 640, [&](Expr i) { return whole ? i : i * 2; });
      wgpu.packaging.prepare(k, {});
      const bool is_half = !whole && t == DType::F16;
      CHECK(wgpu.packaging.uses_f16(k) == is_half);
      const std::string text = target::render(k, wgpu.info.language());
      CHECK((text.find("atomic") != std::string::npos) == !whole);
      CHECK(text.find("f16;") == std::string::npos);
      if (!is_half) continue;
      const std::string half = target::render(k, wgpu.packaging.with_f16());
      CHECK(half.starts_with("enable f16;\n"));
      CHECK(half.find("array<f16>") != std::string::npos);
      CHECK(half.find("atomic") == std::string::npos);
    }
}
