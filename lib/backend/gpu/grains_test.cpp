#include "backend/gpu/grains.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/c/render.h"
#include "backend/gpu/gpu_backend.h"
#include "kernel/builder.h"
#include "kernel/builders/common.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using target::KernelCase;

namespace {

const Buffer& named(const Kernel& k, const std::string& name) { return *std::ranges::find(k.buffers, name, &Buffer::name); }

// y[to(i) ..] = x[from(i) ..] in vectors.
Kernel copied(DType t, int lanes, const std::function<Expr(Expr)>& from, const std::function<Expr(Expr)>& to, int stored = 0) {
  kernel::Builder b("copied");
  const Buf x = b.input("x", t, 1024), y = b.output("y", t, 1024);
  for_each(b, wgpu_backend().info.mapping, "i", 64, 1, [&](Expr i) {
    const Expr v = b.let("v", x.load(from(i), lanes));
    if (stored == 0) return y.store(to(i), v);
    for (int l = 0; l < lanes; ++l) y.store(to(i) + l, lane(v, l));
  });
  return b.finish();
}

std::string wgsl_of(Kernel k, const std::vector<uint8_t>& alignments) {
  const auto& wgpu = static_cast<const GpuBackend&>(wgpu_backend());
  wgpu.packaging.prepare(k, alignments);
  return target::render(k, wgpu.info.language());
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("memory of whole vectors is an array of vectors") {
  const auto each = [](int n) { return [n](Expr i) { return i * n; }; };
  struct Row {
    DType type;
    int lanes;
    int64_t from, to;
    bool parts;
    std::vector<uint8_t> alignments;
    int grain;
  };
  for (const Row& r :
       {Row{DType::F32, 4, 0, 0, false, {}, 4}, Row{DType::F32, 4, 1, 0, false, {}, 4}, Row{DType::F32, 4, 2, 0, false, {}, 2},
        Row{DType::F32, 4, 0, 2, false, {}, 2}, Row{DType::F32, 4, 0, 1, false, {}, 1}, Row{DType::F32, 4, 0, 0, true, {}, 1},
        Row{DType::F32, 4, 0, 0, false, {16, 4}, 1}, Row{DType::F32, 4, 0, 0, false, {4, 16}, 4},
        Row{DType::F32, 2, 0, 0, false, {}, 2}, Row{DType::F16, 4, 0, 0, false, {}, 2}, Row{DType::BF16, 4, 0, 4, false, {}, 2},
        Row{DType::I8, 4, 0, 0, false, {}, 1}, Row{DType::I64, 2, 0, 0, false, {}, 1}}) {
    CAPTURE(r.lanes);
    CAPTURE(r.from);
    CAPTURE(r.to);
    Kernel k = copied(
        r.type, r.lanes, [&](Expr i) { return each(r.lanes)(i) + r.from; }, [&](Expr i) { return each(r.lanes)(i) + r.to; },
        r.parts);
    const std::string text = wgsl_of(k, r.alignments);
    target::choose_grains(k, r.alignments);
    CHECK(int{named(k, "y").grain} == r.grain);
    CHECK(named(k, "x").grain == named(k, "y").grain);
    CHECK(has(text, "array<vec4<u32>>") == (r.grain == 4));
    CHECK(has(text, "array<vec2<u32>>") == (r.grain == 2));
    const bool splits = r.grain == 4 && (r.from != 0 || (!r.alignments.empty() && r.alignments[0] < 16));
    CHECK(std::ranges::any_of(k.exprs, [](const ExprNode& e) { return e.op == ExprOp::Ramp; }) == splits);
  }
}

TEST_CASE("shared memory of whole vectors is an array of vectors") {
  for (const bool whole : {true, false}) {
    kernel::Builder b("reversed");
    const Buf x = b.input("x", DType::F32, 256), y = b.output("y", DType::F32, 256);
    const Expr thread = b.threads("thread", 0, 64);
    const Buf s = b.shared("s", DType::F32, 258);
    const Expr v = b.let("v", x.load(thread * 4, 4));
    if (whole) s.store(thread * 4, v);
    else
      for (int l = 0; l < 4; ++l) s.store(thread * 4 + l, lane(v, l));
    b.barrier();
    y.store(thread * 4, s.load((63 - thread) * 4, 4) + broadcast(s[thread], 4));
    Kernel k = b.finish();
    const std::string text = wgsl_of(k, {});
    target::choose_grains(k, {});
    CHECK(named(k, "s").grain == (whole ? 4 : 1));
    CHECK(has(text, "s: array<vec4<f32>, 65>") == whole);
  }
}

TEST_CASE("weights in halves are read by vectors of halves where the device has them") {
  const auto& wgpu = static_cast<const GpuBackend&>(wgpu_backend());
  Kernel k = copied(
      DType::F16, 4, [](Expr i) { return i * 4; }, [](Expr i) { return i * 8; }, 1);
  k.buffers[0].separate = true;
  k.buffers[0].binding = 1;
  wgpu.packaging.prepare(k, {});
  REQUIRE(wgpu.packaging.uses_f16(k));
  const std::string text = target::render(k, wgpu.packaging.with_f16());
  CHECK(has(text, "array<vec4<f16>>"));
  CHECK(has(text, "array<f16>"));
}
