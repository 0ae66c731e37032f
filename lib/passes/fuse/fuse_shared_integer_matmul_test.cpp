#include <bit>
#include <limits>

#include "passes/fuse/align_steps.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_shared_integer_matmul";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
constexpr double kFree = std::numeric_limits<double>::infinity();

// A matmul of codes whose sums become codes of the type: round(((sum * scale) + bias) * factor / own scale) + zero point.
struct Product {
  int64_t columns = 4;
  bool bias = true, factor = true, scalar_scale = false;
  std::optional<int> zero_b = {}, zero_a = 3;
  DType weight = DType::I8, codes = DType::U8;
  std::optional<OpKind> act = {};
  std::optional<std::string> residual = {}, scale = {};  // names of inputs
  bool weight_is_input = false;
  int pairs = 0;              // rounded and dequantized again so many times before
  double least_scale = 0.05;  // of these
  double last_scale = 0.07;   // of the codes
  bool shifts = true;         // zero points of these are not 0
};

ValueId codes_param(Builder& b, std::string_view name, DType t, std::vector<int64_t> dims) {
  std::vector<uint8_t> bytes(static_cast<size_t>(dims[0] * dims[1]));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 57 + name.size() * 31 + name.back());
  return b.param(name, tensor_type(t, {dims.begin(), dims.end()}), b.module().data.add(make_data(t, dims, bytes)));
}

ValueId product(Builder& b, ValueId x, const std::string& id, const Product& p) {
  const int64_t k = b.graph().dims(x).back().size();
  std::vector<ValueId> in = {x,
                             p.weight_is_input ? b.input("w" + id, tensor_type(p.weight, {k, p.columns}))
                                               : codes_param(b, "w" + id, p.weight, {k, p.columns}),
                             p.zero_a ? b.scalar(DType::U8, *p.zero_a) : ValueId(),
                             p.zero_b ? b.scalar(p.weight, *p.zero_b) : ValueId()};
  FusionAttrs a;
  const auto step = [&](OpKind op, DType t, ValueId v = {}, double alpha = 0, double beta = 0) {
    RegionStep s{op, t};
    if (op == OpKind::Clamp) s.attrs = ClampAttrs{alpha, beta};
    else if (alpha != 0) s.attrs = AlphaBetaAttrs{alpha, beta};
    if (!a.steps.empty()) s.args[0] = static_cast<uint16_t>(kStep | (a.steps.size() - 1));
    if (v.valid()) {
      s.args[1] = static_cast<uint16_t>(in.size());
      in.push_back(v);
    }
    a.steps.push_back(s);
  };
  step(OpKind::QMatMul, DType::I32);
  step(OpKind::Cast, DType::F32);
  step(OpKind::Mul, DType::F32,
       p.scale          ? f32_input(b, *p.scale, {Dim(1)})
       : p.scalar_scale ? num(b, 0.01)
                        : f32_param(b, "scale" + id, {p.columns}));
  if (p.bias) step(OpKind::Add, DType::F32, f32_param(b, "bias" + id, {p.columns}));
  if (p.act) step(*p.act, DType::F32);
  if (p.residual) step(OpKind::Add, DType::F32, f32_input(b, *p.residual, {2, 3, Dim(p.columns)}));
  if (p.factor) step(OpKind::Mul, DType::F32, num(b, 0.35));
  for (int i = 0; i < p.pairs; ++i) {
    const ValueId scale = num(b, p.least_scale * (1 + 0.3 * i)),
                  zero = num(b, p.shifts ? 90 + i + static_cast<double>(id.back() - '0') : 0);
    step(OpKind::Div, DType::F32, scale);
    step(OpKind::Round, DType::F32);
    if (p.shifts) step(OpKind::Add, DType::F32, zero);
    step(OpKind::Clamp, DType::F32, {}, 0, 255);
    step(p.shifts ? OpKind::Sub : OpKind::Add, DType::F32, zero);
    step(OpKind::Mul, DType::F32, scale);
  }
  step(OpKind::Div, DType::F32, num(b, p.last_scale + p.last_scale / 7 * static_cast<double>(id.back() - '0')));
  step(OpKind::Round, DType::F32);
  if (p.shifts) step(OpKind::Add, DType::F32, num(b, 100 + static_cast<double>(id.back() - '0')));
  step(OpKind::Clamp, DType::F32, {}, 0, 255);
  step(OpKind::Cast, p.codes);
  return b.create(OpKind::FusedQMatMul, in, a);
}

Rewrite::Build products(std::vector<Product> all) {
  return [all = std::move(all)](Builder& b) {
    const ValueId x = b.input("x", tensor_type(DType::U8, {2, 3, 8}));
    std::vector<ValueId> out;
    for (const Product& p : all) out.push_back(b.cast(product(b, x, std::to_string(out.size()), p), DType::F32));
    return out;
  };
}

// Results are compared bit by bit.
Rewrite exact(std::vector<Product> all, const std::function<void(PassRun&)>& configure = {}) {
  return {kPass, products(std::move(all)), configure, 0};
}

int64_t matmuls(const Rewrite& r) {
  int64_t n = 0;
  for (NodeId k : r.after->main().nodes()) n += r.after->main().op(k) == OpKind::FusedQMatMul;
  return n;
}

}  // namespace

TEST_CASE("fuse_shared_integer_matmul: query, key and value, one without the scale of the scores, one without bias") {
  for (const bool bias : {false, true})
    for (const bool zero : {false, true}) {
      const Rewrite r = exact({{.columns = 8, .zero_b = zero ? std::optional(5) : std::nullopt},
                               {.columns = 4, .bias = bias, .scalar_scale = true},
                               {.columns = 6, .factor = false, .zero_b = 7}});
      CHECK(matmuls(r) == 1);
      CHECK(r.run.decisions.at(0).members.size() == 3);
      CHECK(r.run.decisions.at(0).launches_saved == 2);
      const NodeId n = r.find(OpKind::FusedQMatMul);
      CHECK(r.after->main().attrs<FusionAttrs>(n).steps.size() == 10);
      CHECK(r.after->main().dims(r.after->main().result(n)).back() == Dim(18));
    }
}

TEST_CASE("fuse_shared_integer_matmul: products that are rounded more or less often") {
  for (const auto& pairs : {std::vector{2, 1, 0}, {0, 2}, {1, 3}, {0, 0, 1}}) {
    std::vector<Product> all;
    for (const int n : pairs) all.push_back({.factor = n > 1, .pairs = n});
    const Rewrite r = exact(all);
    CHECK(matmuls(r) == 1);
    CHECK(r.run.decisions.at(0).members.size() == pairs.size());
    for (Product& p : all) p.shifts = false;
    CHECK(matmuls(exact(all)) == 1);
  }
  CHECK(matmuls(exact({{.pairs = 1, .least_scale = 1e-35, .last_scale = 1e-35},
                       {.pairs = 2, .least_scale = 1e-35, .last_scale = 1e-35}})) == 2);
}

TEST_CASE("fuse_shared_integer_matmul: sums without steps, and no zero points") {
  const Rewrite r(
      kPass,
      [](Builder& b) {
        const ValueId x = b.input("x", tensor_type(DType::I8, {5, 8}));
        std::vector<ValueId> out;
        for (const char* w : {"w0", "w1"}) out.push_back(b.create(OpKind::QMatMul, {x, codes_param(b, w, DType::U8, {8, 4})}));
        return out;
      },
      [](PassRun& run) {
        run.target.machine = {0, kFree, kFree, 1};
      },
      0);
  CHECK(r.left() == "concat q_matmul narrow narrow");
}

TEST_CASE("fuse_shared_integer_matmul: weights, zero points and steps of several kinds stay apart") {
  const auto reason = [](const Product& other) {
    const Rewrite r = exact({{}, other});
    CHECK(matmuls(r) == 2);
    return r.first_decline();
  };
  CHECK(reason({.weight = DType::U8}) == "quantization_differs");
  CHECK(reason({.zero_a = 4}) == "quantization_differs");
  CHECK(reason({.zero_a = std::nullopt}) == "quantization_differs");
  CHECK(reason({.codes = DType::I8}) == "steps_differ");
  CHECK(reason({.act = OpKind::Relu}) == "steps_differ");
  CHECK(reason({.residual = "r"}) == "steps_differ");
  CHECK(reason({.scale = "s"}) == "runtime_weights");
  CHECK(reason({.weight_is_input = true}) == "runtime_weights");
}

TEST_CASE("fuse_shared_integer_matmul: the limits of the target") {
  for (const bool steps : {false, true}) {
    const Rewrite r =
        exact({{}, {}}, [&](PassRun& run) { (steps ? run.target.region_max_steps : run.target.region_max_inputs) = 8; });
    CHECK(matmuls(r) == 2);
    CHECK(r.first_decline() == (steps ? "step_limit" : "operand_limit"));
  }
}

TEST_CASE("fuse_shared_integer_matmul: many kinds and many matmuls of one value take time in proportion") {
  std::vector<Product> kinds, members(300);
  for (int i = 0; i < 40; ++i) kinds.push_back({.zero_a = i % 20});
  CHECK(matmuls(exact(kinds)) == 24);
  CHECK(matmuls(exact(members)) == 2);
}

TEST_CASE("fuse_shared_integer_matmul: matmuls that are far from each other stay apart, but for nodes of weights between them") {
  for (const bool weight : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId x = b.input("x", tensor_type(DType::U8, {2, 3, 8}));
      std::vector<ValueId> out{b.cast(product(b, x, "0", {}), DType::F32)};
      ValueId v = weight ? f32_param(b, "w", {4}) : f32_input(b, "y", {4});
      for (int i = 0; i < 120; ++i) v = b.unary(OpKind::Abs, v);
      out.push_back(v);
      out.push_back(b.cast(product(b, x, "1", {}), DType::F32));
      return out;
    });
    CHECK(matmuls(r) == (weight ? 1 : 2));
  }
}

TEST_CASE("align_steps: neutral operands keep the bits of any value") {
  const float values[] = {0.0F, -0.0F, 1.5F, -3e38F, std::bit_cast<float>(0x7F800000), std::bit_cast<float>(1)};
  for (const float v : values) {
    const auto bits = std::bit_cast<uint32_t>(v);
    CHECK(std::bit_cast<uint32_t>(v * static_cast<float>(fuse::neutral_operand(OpKind::Mul, DType::F32))) == bits);
    CHECK(std::bit_cast<uint32_t>(v / static_cast<float>(fuse::neutral_operand(OpKind::Div, DType::F32))) == bits);
    CHECK(std::bit_cast<uint32_t>(v + static_cast<float>(fuse::neutral_operand(OpKind::Add, DType::F32))) == bits);
    CHECK(std::bit_cast<uint32_t>(v - static_cast<float>(fuse::neutral_operand(OpKind::Sub, DType::F32))) == bits);
  }
}

TEST_CASE("align_steps: a value that several steps read stays the same value") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::U8, {3, 8}));
  // (v + bias) * relu(v), with v the scaled sums; the second program lacks the bias, the third reads v once more.
  const auto node = [&](int form) {
    FusionAttrs a;
    const auto s = [](int i) { return static_cast<uint16_t>(kStep | i); };
    a.steps = {{OpKind::QMatMul, DType::I32}, {OpKind::Cast, DType::F32, {s(0), kNone, kNone}}};
    if (form != 1) a.steps.push_back({OpKind::Add, DType::F32, {s(1), 4, kNone}});
    const int last = form != 1 ? 2 : 1;
    a.steps.push_back({OpKind::Relu, DType::F32, {s(form == 2 ? last : 1), kNone, kNone}});
    a.steps.push_back({OpKind::Mul, DType::F32, {s(last), s(last + 1), kNone}});
    std::vector<ValueId> in = {x, b.input("w" + std::to_string(form), tensor_type(DType::I8, {8, 4})), {}, {}};
    if (form != 1) in.push_back(f32_param(b, "bias" + std::to_string(form), {4}));
    return m.main().def(b.create(OpKind::FusedQMatMul, in, a));
  };
  const NodeId plain = node(0), without = node(1), again = node(2);
  const NodeId fit[] = {plain, without}, unlike[] = {plain, again}, either[] = {without, again};
  CHECK(fuse::aligned_steps(m.main(), fit).steps.size() == 5);
  CHECK(fuse::aligned_steps(m.main(), unlike).steps.empty());
  CHECK(fuse::aligned_steps(m.main(), either).steps.size() == 5);
}

TEST_CASE("fuse_shared_integer_matmul: a result of floats and one of codes share sums in f32") {
  const auto build = [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = b.input("x", tensor_type(DType::U8, {2, 3, 8}));
    const ValueId codes = product(b, x, "0", {.bias = false, .factor = false});
    const std::vector<RegionStep> steps = {{OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}},
                                           {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                                           {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}}};
    const ValueId floats =
        b.create(OpKind::FusedQMatMul,
                 {x, codes_param(b, "wf", DType::I8, {8, 6}), b.scalar(DType::U8, 3), ValueId(), f32_param(b, "scale", {6})},
                 FusionAttrs{steps});
    return {b.cast(codes, DType::F32), b.unary(OpKind::Tanh, floats)};
  };
  const Rewrite r(kPass, build);
  CHECK(r.left() == "concat concat fused_q_matmul narrow narrow elementwise_region cast tanh");
  const Graph& g = r.after->main();
  CHECK(g.dtype(g.result(r.find(OpKind::FusedQMatMul))) == DType::F32);
}
