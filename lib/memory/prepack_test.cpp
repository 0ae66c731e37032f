// Tests of the packed region with and without a limit. Results must not depend on the limit.
#include "memory/prepack.h"

#include <doctest/doctest.h>

#include "codegen/make_package.h"
#include "eval/eval.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/run_package.h"

using namespace rlxc;

namespace {

constexpr int64_t kWidth = 64;

struct Model {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  uint32_t seed = 0;

  Type f32(std::vector<Dim> dims) { return tensor_type(DType::F32, std::move(dims)); }
  ValueId weight(std::vector<int64_t> dims, Builder* where = nullptr) {
    const Type t = f32({dims.begin(), dims.end()});
    const eval::HostValue v = eval::random_value(*m, t, {}, ++seed, {.low = -1, .high = 1});
    return (where ? *where : b).param("w" + std::to_string(seed), t, m->data.add(v.tensor));
  }
  ValueId named(ValueId v, std::string_view name) {
    m->main().set_node_name(m->main().def(v), m->symbol(name));
    return v;
  }
  void output(ValueId v) { m->main().add_output(v, {}); }
};

// Matmuls of 32, 8 and 2 rows with weights of equal size, and a convolution.
Model products() {
  Model p;
  const ValueId x = p.b.input("x", p.f32({32, kWidth}));
  p.output(p.named(p.b.matmul(p.b.narrow(x, 0, 0, 2), p.weight({kWidth, kWidth})), "2 rows"));
  p.output(p.named(p.b.matmul(x, p.weight({kWidth, kWidth})), "32 rows"));
  p.output(p.named(p.b.matmul(p.b.narrow(x, 0, 0, 8), p.weight({kWidth, kWidth})), "8 rows"));
  ConvAttrs a;
  a.strides = a.dilations = {1, 1}, a.pads_begin = a.pads_end = {1, 1}, a.output_padding = {0, 0};
  const ValueId image = p.b.reshape(x, {1, 8, 16, 16});
  p.output(p.named(p.b.create(OpKind::Conv, {image, p.weight({16, 8, 3, 3})}, a), "windows"));
  return p;
}

// Two layers whose weights are concatenated at load time. `also_read`: the concatenation has a second user, which reads it
// unpacked.
Model concatenated_matmul(bool also_read = false) {
  Model p;
  const ValueId x = p.b.input("x", p.f32({16, kWidth})), factor = p.b.narrow(p.b.narrow(x, 0, 0, 1), 1, 0, 1);
  ValueId y = x;
  for (int i = 0; i < 2; ++i) {
    const ValueId both = p.b.concat(std::vector{p.weight({kWidth, kWidth}), p.weight({kWidth, kWidth})}, 1);
    if (also_read) p.output(p.b.mul(both, factor));
    const ValueId product = p.b.matmul(y, both);
    y = p.b.unary(OpKind::Tanh, p.b.add(p.b.narrow(product, 1, 0, kWidth), p.b.narrow(product, 1, kWidth, kWidth)));
  }
  p.output(p.b.matmul(y, p.weight({kWidth, 2 * kWidth})));
  return p;
}

// A twiddle table of an Fft, and weights in both branches of an If.
Model tables_and_branches() {
  Model p;
  const ValueId x = p.b.input("x", p.f32({4, kWidth}));
  p.output(p.b.create(OpKind::Fft, {p.b.reshape(x, {2, kWidth, 2})}, FftAttrs{1, false, false, FftNorm::None, 0}));
  GraphId bodies[2];
  for (GraphId& id : bodies) {
    id = p.m->make_graph("branch");
    Builder body(p.m->graph(id));
    const ValueId in = body.input("in", p.f32({4, kWidth}));
    p.m->graph(id).add_output(body.matmul(in, p.weight({kWidth, kWidth}, &body)), {});
  }
  const ValueId operands[] = {p.b.input("c", tensor_type(DType::Bool, {})), x};
  p.output(p.m->main().result(p.b.create_node(OpKind::If, operands, IfAttrs{}, bodies)));
  return p;
}

uint64_t packed_bytes(const LirModule& lir) {
  uint64_t sum = 0;
  for (const GraphPlan& plan : lir.plans) sum += static_cast<uint64_t>(plan.packed_size.size());
  return sum;
}

std::vector<std::string> packed_nodes(const LirModule& lir) {
  std::vector<std::string> names;
  for (const PrepackedWeight& p : lir.plans[0].prepacked) names.push_back(lir.module->main().label(p.node).bytes());
  return names;
}

// Plans with a limit, runs the package and compares with the evaluator.
LirModule checked(Model model, std::optional<uint64_t> limit) {
  Diagnostics d;
  std::vector<eval::HostValue> inputs;
  const Graph& g = model.m->main();
  for (NodeId n : g.inputs()) inputs.push_back(eval::random_value(*model.m, g.type(g.result(n)), {}, 7, {.low = -1, .high = 1}));
  const auto expected = eval::evaluate(*model.m, inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  auto lir = plan_lir(std::move(model.m), {.max_packed = limit, .verify = true}, d);
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  CHECK(packed_bytes(*lir) <= limit.value_or(UINT64_MAX));
  const auto package = codegen::make_package(*lir, "packs", {}, d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  CHECK(static_cast<uint64_t>(package->packed_bytes.size()) == packed_bytes(*lir));
  const auto actual = run_package(*package, inputs, d);
  REQUIRE_MESSAGE(actual.has_value(), d.text());
  for (size_t i = 0; i < expected->size(); ++i) {
    const auto r = eval::compare((*actual)[i], (*expected)[i], 1e-4, 2e-5);
    CHECK_MESSAGE(r.pass, "output " << i << ": " << r.message);
  }
  return std::move(*lir);
}

}  // namespace

TEST_CASE("nodes keep packed weights within a limit: those that save most for a byte") {
  constexpr uint64_t kMatrix = kWidth * kWidth * 4;
  const LirModule all = checked(products(), {});
  CHECK(packed_nodes(all) == std::vector<std::string>{"2 rows", "32 rows", "8 rows", "windows"});
  CHECK(all.plans[0].unpacked_nodes == 0);
  const auto windows = static_cast<uint64_t>(all.plans[0].prepacked[3].bytes.size());
  CHECK(packed_bytes(all) == 3 * kMatrix + windows);

  CHECK(packed_nodes(checked(products(), kMatrix)) == std::vector<std::string>{"2 rows"});
  CHECK(packed_nodes(checked(products(), kMatrix + 64)) == std::vector<std::string>{"2 rows"});
  CHECK(packed_nodes(checked(products(), 2 * kMatrix)) == std::vector<std::string>{"2 rows", "32 rows"});
  CHECK(packed_nodes(checked(products(), 2 * kMatrix + windows)) == std::vector<std::string>{"2 rows", "32 rows", "windows"});
  const LirModule three = checked(products(), 3 * kMatrix + windows - 1);
  CHECK(packed_nodes(three) == std::vector<std::string>{"2 rows", "32 rows", "8 rows"});
  CHECK(three.plans[0].unpacked_nodes == 1);
  CHECK(three.plans[0].unpacked_bytes == Dim(static_cast<int64_t>(windows)));
  const LirModule none = checked(products(), 0);
  CHECK(packed_nodes(none).empty());
  CHECK(packed_bytes(none) == 0);
}

TEST_CASE("layers of the same weights share what is packed of them") {
  constexpr uint64_t kMatrix = kWidth * kWidth * 4;
  const auto layers = [](bool turned, bool transposed = true) {
    Model p;
    const ValueId x = p.b.input("x", p.f32({16, kWidth})), w = p.weight({kWidth, kWidth});
    const ValueId both = turned ? p.b.concat(std::vector{p.b.narrow(w, 0, 8, kWidth - 8), p.b.narrow(w, 0, 0, 8)}, 0) : w;
    ValueId y = x;
    for (int i = 0; i < 3; ++i) y = p.named(p.b.unary(OpKind::Tanh, p.b.matmul(y, both)), "layer");
    p.output(p.b.matmul(p.b.narrow(y, 0, 0, 2), both, false, transposed));  // transposed: prepacked separately
    return p;
  };
  for (bool turned : {false, true}) {
    const LirModule all = checked(layers(turned), {});
    CHECK(all.plans[0].prepacked.size() == 4);
    CHECK(std::ranges::count_if(all.plans[0].prepacked, &PrepackedWeight::shared) == 2);
    CHECK(packed_bytes(all) == (turned ? 3 : 2) * kMatrix);
  }
  const LirModule rows = checked(layers(false, false), {});  // kernels of other dims read the same copy
  CHECK(rows.plans[0].prepacked.size() == 4);
  CHECK(packed_bytes(rows) == kMatrix);
  const LirModule one = checked(layers(false), kMatrix);  // a matmul of two rows saves more than three layers
  CHECK(one.plans[0].prepacked.size() == 1);
  CHECK(one.plans[0].unpacked_nodes == 3);
  CHECK(packed_nodes(checked(layers(false), 0)).empty());
}

TEST_CASE("what packing reads gives its room to what is made after it") {
  constexpr uint64_t kBoth = 2 * kWidth * kWidth * 4;
  const LirModule lir = checked(concatenated_matmul(), {});
  CHECK(lir.plans[0].prepacked.size() == 3);
  CHECK(packed_bytes(lir) == 3 * kBoth);  // equals the prepacked bytes
  CHECK(packed_nodes(checked(concatenated_matmul(), 2 * kBoth)).size() == 1);
  const LirModule unpacked = checked(concatenated_matmul(), kBoth * 2);
  CHECK(packed_bytes(unpacked) == 2 * kBoth);
  Diagnostics d;
  CHECK_FALSE(plan_lir(concatenated_matmul().m, {.max_packed = 2 * kBoth - 1}, d));
  CHECK(d.exit() == ExitCode::Limit);
  CHECK_MESSAGE(d.text().find("takes " + std::to_string(2 * kBoth) + " bytes at least") != std::string::npos, d.text());
}

TEST_CASE("what a run reads beside the packed copy stays") {
  constexpr uint64_t kBoth = 2 * kWidth * kWidth * 4;
  CHECK(packed_bytes(checked(concatenated_matmul(true), {})) == 5 * kBoth);
}

TEST_CASE("tables and the weights of branches count as well") {
  constexpr uint64_t kMatrix = kWidth * kWidth * 4, kTable = 2 * kWidth * 8;
  CHECK(packed_bytes(checked(tables_and_branches(), {})) == 2 * kMatrix + kTable);
  CHECK(packed_bytes(checked(tables_and_branches(), kMatrix + kTable)) == kMatrix + kTable);
  CHECK(packed_bytes(checked(tables_and_branches(), kTable)) == kTable);
  CHECK(packed_bytes(checked(tables_and_branches(), 0)) == 0);
}

TEST_CASE("kernels that are not ours keep nothing that is known") {
  Diagnostics d;
  const auto lir = plan_lir(products().m, {}, d, {.kernels = {}});
  REQUIRE(lir.has_value());
  CHECK_FALSE(lir->packs_known);
  CHECK(packed_bytes(*lir) == 0);
}
