#include "backend/gpu/bind_memory.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/backend.h"
#include "codegen/make_package.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "memory/plan_lir.h"

using namespace rlxc;

namespace {

constexpr uint64_t kLimit = 4096;

// A module with rows of a weight, rows of an input, and sums of both. Weight and input take `rows` * 256 bytes. With `own_size`,
// another input has a symbolic size `n`.
std::optional<LirModule> module_of(int64_t rows, bool own_size, SymbolRanges ranges = {}) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const Type large = tensor_type(DType::F32, {Dim(rows), Dim(64)});
  const std::vector<std::byte> zero(4);
  const ValueId w = b.param("table", large, m->data.add(make_splat(DType::F32, {rows, 64}, zero)));
  const ValueId at = b.input("at", tensor_type(DType::I64, {Dim(2)}));
  const ValueId x = b.input("x", large);
  m->main().add_output(b.create(OpKind::Gather, {w, at}, AxisAttrs{0}), {});
  m->main().add_output(b.create(OpKind::Gather, {b.create(OpKind::Add, {w, x}, {}), at}, AxisAttrs{0}), {});
  if (own_size) m->main().add_output(b.unary(OpKind::Neg, b.input("n", tensor_type(DType::F32, {m->dims.symbol("n")}))), {});
  Diagnostics d;
  PlanOptions options;
  options.max_binding = kLimit, options.ranges = std::move(ranges);
  return plan_lir(std::move(m), options, d);
}

std::optional<codegen::Package> package_of(const LirModule& lir, const char* target, Diagnostics& d) {
  const auto package = codegen::make_package(lir, "large", *capability(find_backend(target)->info), d);
  return package ? find_backend(target)->adapt(*package, d) : std::nullopt;
}

}  // namespace

TEST_CASE("memory that a device cannot bind at a time is bound in pieces") {
  const auto lir = module_of(20, false);  // 5,120 bytes each
  REQUIRE(lir.has_value());
  Diagnostics d;
  const auto package = package_of(*lir, "wgpu", d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  CHECK_MESSAGE(d.text().empty(), d.text());
  // Outputs and `at`, then x from a cut on, then the arena.
  CHECK(package->cuts == std::vector<uint64_t>{1088, 1088 + kLimit, 1088 + 5120, 1088 + 5120 + kLimit});
  size_t weights = 0, memories = 0;
  for (const kernel::Kernel& k : package->kernels)
    for (size_t i = 0; i < k.argument_count(); ++i) {
      weights += k.buffers[i].separate && k.buffers[i].bindings == 2;
      memories += !k.buffers[i].separate && k.buffers[i].bindings == 2;
    }
  CHECK(weights == 2);   // the table, in both kernels that use it
  CHECK(memories == 3);  // x and the sum in one kernel, the sum in the other
  Diagnostics inner;
  const auto cuda = package_of(*lir, "cuda", inner);
  REQUIRE(cuda.has_value());
  CHECK(cuda->cuts.empty());
  for (const kernel::Kernel& k : cuda->kernels)
    for (const kernel::Buffer& b : k.buffers) CHECK(b.bindings == 1);
}

TEST_CASE("memory that a device can bind is one buffer") {
  const auto lir = module_of(2, false);
  REQUIRE(lir.has_value());
  Diagnostics d;
  const auto package = package_of(*lir, "wgpu", d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  CHECK(package->cuts.empty());
}

TEST_CASE("what has to lie in one buffer and may be too large for it is named") {
  const auto lir = module_of(20, true);
  REQUIRE(lir.has_value());
  Diagnostics d;
  REQUIRE(package_of(*lir, "wgpu", d).has_value());
  CHECK_MESSAGE(d.text().find("size \"n\"") != std::string::npos, d.text());
}

TEST_CASE("where sizes have ranges, memory lies as for the largest") {
  for (const int64_t most : {100, 2000}) {  // the maximum of `n`, which takes four bytes each as input and as output
    const auto lir = module_of(2, true, {{"n", {Dim(1), Dim(most)}}});
    REQUIRE(lir.has_value());
    Diagnostics d;
    const auto package = package_of(*lir, "wgpu", d);
    REQUIRE_MESSAGE(package.has_value(), d.text());
    CHECK_MESSAGE(d.text().empty(), d.text());
    size_t in_two = 0;
    for (const kernel::Kernel& k : package->kernels)
      for (size_t i = 0; i < k.argument_count(); ++i) in_two += k.buffers[i].bindings == 2;
    if (most == 100) {
      CHECK(package->cuts.empty());
      CHECK(in_two == 0);
    } else {
      // Two outputs; the third in two buffers, the second of them with `at`; x; n in two buffers; the arena.
      CHECK(package->cuts == std::vector<uint64_t>{1024, 1024 + kLimit, 9088, 9600, 9600 + kLimit, 17600});
      CHECK(in_two == 2);  // n and its negative
    }
  }
}

TEST_CASE("what a body is handed is bound to all pieces, its own memory to the one that holds it") {
  Diagnostics d;
  auto m = parse_text(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[20,64]
  %1 = constant {data = dense [3]} : i64[]
  %2 = constant {data = dense [1]} : bool[]
  %3 = loop(%1, %2, %0) [@body] {carries = 1} : f32[20,64]
  return %3 "y"
}
graph @body {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f32[20,64]
  %3 = constant {data = dense [0]} : i64[1]
  %4 = reduce(%2) {op = "sum", axes = [1], keep_dim = true} : f32[20,1]
  %5 = softmax(%4) {axis = 0} : f32[20,1]
  %6 = add(%2, %5) : f32[20,64]
  return %1, %6
}
}
)",
                      d);
  REQUIRE_MESSAGE(m != nullptr, d.text());
  PlanOptions options;
  options.max_binding = kLimit;
  const auto lir = plan_lir(std::move(m), options, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto package = package_of(*lir, "wgpu", d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  CHECK_MESSAGE(d.text().find("one binding") == std::string::npos, d.text());
  const size_t all = package->cuts.size() + 1;
  CHECK(all > 4);  // y, x, two buffers of the loop, the rest
  size_t handed = 0, own = 0;
  for (const codegen::Command& s : package->graphs[1].run)
    for (size_t i = 0; s.kind == codegen::Command::Kind::Launch && i < s.places.size(); ++i) {
      using Memory = codegen::BufferSlice::Memory;
      const bool outside = s.places[i].memory == Memory::Input || s.places[i].memory == Memory::Output;
      CHECK(package->kernels[s.kernel].buffers[i].bindings == (outside ? all : 1));
      handed += outside, own += !outside;
    }
  CHECK(handed > 0);
  CHECK(own > 0);
}

TEST_CASE("a kernel with more bindings than every device has is named") {
  for (const auto& [rows, refused] : {std::pair<int64_t, bool>{100, false}, {5000, true}}) {
    const auto lir = module_of(rows, false);
    REQUIRE(lir.has_value());
    Diagnostics d;
    CHECK(package_of(*lir, "wgpu", d).has_value() == !refused);
    CHECK_MESSAGE(d.text().find("buffers at a time") != std::string::npos, d.text());
    CHECK_MESSAGE(d.text().find("node \"") != std::string::npos, d.text());
  }
}

TEST_CASE("small weights beyond the bindings of every device are copied when the package is loaded") {
  for (const int count : {6, 12}) {
    auto m = std::make_unique<Module>();
    Builder b(m->main());
    const Type row = tensor_type(DType::F32, {Dim(64)});
    ValueId sum = b.input("x", row);
    std::vector<RegionStep> steps;
    std::vector<ValueId> operands{sum};
    for (int i = 0; i < count; ++i) {
      const std::vector<std::byte> value(4, static_cast<std::byte>(i));
      operands.push_back(b.param("w" + std::to_string(i), row, m->data.add(make_splat(DType::F32, {64}, value))));
      const auto last = static_cast<uint16_t>(i ? RegionStep::kStep | (i - 1) : 0);
      steps.push_back({OpKind::Add, DType::F32, {last, static_cast<uint16_t>(i + 1), RegionStep::kNone}});
    }
    m->main().add_output(b.create(OpKind::ElementwiseRegion, operands, FusionAttrs{steps}), {});
    Diagnostics d;
    const auto lir = plan_lir(std::move(m), {}, d);
    REQUIRE(lir.has_value());
    const auto package = package_of(*lir, "wgpu", d);
    REQUIRE_MESSAGE(package.has_value(), d.text());
    CHECK_MESSAGE(d.text().empty(), d.text());
    const auto copies = std::ranges::count(package->graphs[0].load, codegen::Command::Kind::Copy, &codegen::Command::kind);
    CHECK(copies == (count == 12 ? count : 0));
    for (const kernel::Kernel& k : package->kernels) {
      const auto weights = std::ranges::count_if(k.buffers, [](const kernel::Buffer& buffer) { return buffer.separate; });
      CHECK(weights == (count == 12 ? 0 : count));
    }
  }
}
