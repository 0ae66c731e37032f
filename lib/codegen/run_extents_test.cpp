// Data-dependent dims in cpu packages, and in device packages with interpreted kernels, against the reference evaluator: nothing
// selected, some, all; one package for all inputs.
#include <algorithm>
#include <limits>
#include <random>

#include "codegen/make_package.h"
#include "driver/compile.h"
#include "ir/text.h"
#include "runtime/interpret_package.h"
#include "runtime/observed_bounds.h"
#include "runtime/run_package.h"
#include "support/eval.h"
#include "support/onnx_model.h"

using namespace rlxc;

namespace {

class Model {
 public:
  explicit Model(std::string_view text, DimBindings bounds = {})
      : Model([&](Diagnostics& d) { return parse_text(text, d); }, std::move(bounds)) {}
  explicit Model(const test::OnnxModel& onnx) : Model([&](Diagnostics& d) { return onnx.load(d); }, {}) {}

  Model(const std::function<std::unique_ptr<Module>(Diagnostics&)>& load, DimBindings bounds) {
    Diagnostics d;
    reference_ = load(d);
    REQUIRE_MESSAGE(reference_, d.text());
    CompileOptions options;
    options.bounds = std::move(bounds);
    options.verify = true;
    const auto compile_for = [&](const std::string& target) {
      LoadedModel model;
      model.module = load(d);
      auto compiled = compile(std::move(model), target, options, {}, d);
      REQUIRE_MESSAGE(compiled.has_value(), d.text());
      return std::move(compiled->lir);
    };
    lir_ = compile_for("cpu");
    package_ = codegen::make_package(lir_, "m", {}, d);
    said_ = d.text();
    if (!package_) return;
    loaded_ = LoadedPackage::build(*package_, {}, d);
    REQUIRE_MESSAGE(loaded_, d.text());
    device_lir_ = compile_for("cuda");
    device_ = make_interpreting_runner(device_lir_, "cuda", d);
    REQUIRE_MESSAGE(device_, d.text());
  }

  void check(const std::vector<eval::HostValue>& inputs, std::string_view what) {
    REQUIRE_MESSAGE(loaded_, said_);
    Diagnostics d;
    const auto expected = eval::evaluate(*reference_, inputs, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    for (const std::string_view engine : {"cpu", "lanes"}) {
      const auto actual = engine == "cpu" ? loaded_->run(inputs, d) : device_->run(inputs, d);
      REQUIRE_MESSAGE(actual.has_value(), engine << ", " << what << ": " << d.text());
      for (size_t i = 0; i < actual->size(); ++i) {
        const auto r = eval::compare((*actual)[i], (*expected)[i], 1e-4, 1e-5);
        CHECK_MESSAGE(r.pass, engine << ", " << what << ", output " << i << ": " << r.message);
      }
    }
  }
  bool runs(const std::vector<eval::HostValue>& inputs) {
    Diagnostics d;
    const bool runs = loaded_->run(inputs, d).has_value();
    CHECK(device_->run(inputs, d).has_value() == runs);
    return runs;
  }
  const std::string& said() const { return said_; }
  const LirModule& lir() const { return lir_; }
  std::string bound(std::string_view symbol) const {
    for (const DataDependentDim& e : lir_.extents)
      if (e.symbol == symbol) return e.bound ? lir_.module->dims.text(*e.bound) : "none";
    return "not an extent";
  }

 private:
  std::unique_ptr<Module> reference_;
  LirModule lir_, device_lir_;
  std::optional<codegen::Package> package_;
  std::unique_ptr<LoadedPackage> loaded_;
  std::unique_ptr<KernelRunner> device_;
  std::string said_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // Returns integers in [low, high] as elements of any type.
  eval::HostValue of(DType t, std::vector<int64_t> dims, int64_t low, int64_t high) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::vector<double> values(static_cast<size_t>(n));
    for (double& v : values) v = static_cast<double>(std::uniform_int_distribution<int64_t>(low, high)(engine_));
    return eval::tensor_of(t, std::move(dims), values);
  }
  eval::HostValue real(std::vector<int64_t> dims) {
    eval::HostValue v = of(DType::F32, std::move(dims), 0, 1000);
    std::vector<double> values = eval::numbers(v);
    for (double& x : values) x /= 1000;
    return eval::tensor_of(DType::F32, v.tensor.dims, values);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace

TEST_CASE("NonZero, Gather and products follow the number of selected rows") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[n,7]
  %1 = input "keep" : bool[n]
  %2 = input "w" : f32[7,5]
  %3 = non_zero(%1) : i64[1,rows]
  %4 = reshape(%3) {dims = ["rows"]} : i64[rows]
  %5 = gather(%0, %4) {axis = 0} : f32[rows,7]
  %6 = matmul(%5, %2) : f32[rows,5]
  %7 = relu(%6) : f32[rows,5]
  %8 = reduce(%7) {op = "sum", axes = [0], keep_dim = true} : f32[1,5]
  %9 = softmax(%6) {axis = 1} : f32[rows,5]
  %10 = non_zero(%0) : i64[2,all]
  %11 = dim_value {dims = ["all"], scalar = true} : i64[]
  %12 = concat(%5, %0) {axis = 0} : f32[rows+n,7]
  %13 = matmul(%5, %6) {trans_a = true, trans_b = false} : f32[7,5]
  %14, %15 = scan(%2, %6) [@step] {states = 1, scan_inputs = 1, input_axes = [0], input_reverse = [0], output_axes = [0], output_reverse = [1]} : f32[7,5], f32[rows,5]
  %16 = dim_value {dims = ["rows"], scalar = true} : i64[]
  %17 = constant {data = dense [1]} : bool[]
  %18, %19 = loop(%16, %17, %2) [@turn] {carries = 1} : f32[7,5], f32[turns,7,5]
  return %5, %9, %8, %10, %11, %12, %13, %14, %15, %18, %19
}
graph @step {
  %0 = input "state" : f32[7,5]
  %1 = input "row" : f32[5]
  %2 = add(%0, %1) : f32[7,5]
  %3 = tanh(%1) : f32[5]
  return %2, %3
}
graph @turn {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "state" : f32[7,5]
  %3 = tanh(%2) : f32[7,5]
  return %1, %3, %2
}
}
)");
  CHECK(m.bound("rows") == "n");
  CHECK(m.bound("turns") == "n");
  CHECK(m.bound("all") == "7*n");
  Random r(1);
  for (int64_t n : {1, 3, 64, 700})
    for (auto [low, high] : {std::pair{0, 0}, std::pair{0, 1}, std::pair{1, 1}})
      m.check({r.of(DType::F32, {n, 7}, low * 3, high * 3), r.of(DType::Bool, {n}, low, high), r.real({7, 5})},
              "n = " + std::to_string(n) + ", " + std::to_string(low) + ".." + std::to_string(high));
}

TEST_CASE("Unique in all its forms") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : i64[n]
  %1 = input "y" : f32[4,n,2]
  %2, %3, %4, %5 = unique(%0) {flat = true, sorted = true} : i64[a], i64[a], i64[n], i64[a]
  %6, %7, %8, %9 = unique(%0) {flat = true, sorted = false} : i64[b], i64[b], i64[n], i64[b]
  %10, %11, %12, %13 = unique(%1) {flat = false, axis = 1, sorted = true} : f32[4,c,2], i64[c], i64[n], i64[c]
  %14, %15, %16, %17 = unique(%1) {flat = false, axis = 1, sorted = false} : f32[4,d,2], i64[d], i64[n], i64[d]
  %18, %19, %20, %21 = unique(%1) {flat = false, axis = 2, sorted = true} : f32[4,n,e], i64[e], i64[2], i64[e]
  return %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21
}
}
)");
  CHECK(m.bound("c") == "n");
  CHECK(m.bound("e") == "2");
  Random r(2);
  for (int64_t n : {1, 2, 5, 33, 257})
    for (int64_t high : {0, 1, 4, 1000})
      m.check({r.of(DType::I64, {n}, -high, high), r.of(DType::F32, {4, n, 2}, 0, std::min<int64_t>(high, 1))},
              "n = " + std::to_string(n) + ", up to " + std::to_string(high));
}

TEST_CASE("slices of a value that begin at a data-dependent offset") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[4,n]
  %1 = input "keep" : bool[n]
  %2 = non_zero(%1) : i64[1,kept]
  %3 = reshape(%2) {dims = ["kept"]} : i64[kept]
  %4 = gather(%0, %3) {axis = 1} : f32[4,kept]
  %5 = narrow(%4) {axis = 0, start = 1, len = 2} : f32[2,kept]
  %6 = narrow(%4) {axis = 0, start = 3, len = 1} : f32[1,kept]
  %7 = mul(%5, %6) : f32[2,kept]
  return %7, %6
}
}
)");
  Random r(12);
  for (int64_t n : {1, 5, 64})
    for (auto [low, high] : {std::pair{0, 0}, std::pair{0, 1}, std::pair{1, 1}})
      m.check({r.real({4, n}), r.of(DType::Bool, {n}, low, high)}, "n = " + std::to_string(n));
}

TEST_CASE("NaNs are the last of the unique elements, and one of them") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[n]
  %1, %2, %3, %4 = unique(%0) {flat = true, sorted = true} : f32[a], i64[a], i64[n], i64[a]
  return %1, %2, %3, %4
}
}
)");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  m.check({test::f32({7}, {2, nan, 1, -1, nan, 1, 5})}, "two of seven");
  m.check({test::f32({2}, {nan, nan})}, "all");
}

TEST_CASE("NonMaxSuppression per batch and class") {
  for (const bool center : {false, true}) {
    Model m(std::string(R"(module "m" mir {
graph @main {
  %0 = input "boxes" : f32[b,n,4]
  %1 = input "scores" : f32[b,k,n]
  %2 = input "most" : i64[1]
  %3 = input "iou" : f32[1]
  %4 = input "least" : f32[1]
  %5 = constant {data = dense [3]} : i64[1]
  %6 = non_max_suppression(%0, %1, %2, %3, %4) {center_point = )") +
            (center ? "true" : "false") + R"(} : i64[all,3]
  %7 = non_max_suppression(%0, %1, %5, %3) : i64[three,3]
  %8 = non_max_suppression(%0, %1) : i64[none,3]
  return %6, %7, %8
}
}
)");
    CHECK(m.bound("all") == "b*n*k");
    CHECK(m.bound("none") == "0");
    Random r(3);
    for (int64_t most : {0, 1, 4, 1000})
      for (double iou : {0.0, 0.4, 1.0})
        for (double least : {-1.0, 0.5, 2.0})
          m.check({r.real({2, 23, 4}), r.real({2, 3, 23}), test::i64({1}, {static_cast<double>(most)}), test::f32({1}, {iou}),
                   test::f32({1}, {least})},
                  "most " + std::to_string(most) + ", iou " + std::to_string(iou) + ", least " + std::to_string(least));
  }
}

TEST_CASE("lengths computed from data have the bounds of the computation, or of the user") {
  constexpr std::string_view kText = R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[n,3]
  %1 = input "end" : i64[]
  %2 = dim_value {dims = ["n"], scalar = true} : i64[]
  %3 = min(%1, %2) : i64[]
  %4 = iota(%3) : i64[len]
  %5 = gather(%0, %4) {axis = 0} : f32[len,3]
  %6 = iota(%1) "free" : i64[free]
  return %5, %6
}
}
)";
  const Model refused(kText);
  CHECK(refused.bound("len") == "n");
  CHECK(refused.bound("free") == "none");
  CHECK(refused.said().find("node \"free\" (Iota)") != std::string::npos);
  CHECK(refused.said().find("--bound free=SIZE") != std::string::npos);
  Model m(kText, {{"free", 9}});
  Random r(4);
  for (double end : {-2, 0, 1, 5, 9}) m.check({r.real({5, 3}), test::i64({}, {end})}, "end " + std::to_string(end));
  CHECK_FALSE(m.runs({r.real({5, 3}), test::i64({}, {10})}));
  CHECK(m.runs({r.real({5, 3}), test::i64({}, {3})}));
}

TEST_CASE("loops with data-dependent trip counts, carried shapes and rows") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[2]
  %1 = input "trips" : i64[]
  %2 = input "limit" : f32[]
  %3 = constant {data = dense [8]} : i64[]
  %4 = min(%1, %3) : i64[]
  %5 = constant {data = dense [1]} : bool[]
  %6 = reshape(%0) {dims = [1, 2]} : f32[1,2]
  %7, %8, %9, %10 = loop(%4, %5, %0, %6, %2, %0) [@body] {carries = 2} : f32[2], f32[grown,2], f32[trips,2], f32[trips,kept]
  %11 = exp(%8) : f32[grown,2]
  return %7, %8, %9, %10, %11
}
graph @body {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "sum" : f32[2]
  %3 = input "rows" : f32[grown,2]
  %4 = input "limit" : f32[]
  %5 = input "x" : f32[2]
  %6 = add(%2, %5) : f32[2]
  %7 = reshape(%6) {dims = [1, 2]} : f32[1,2]
  %8 = concat(%3, %7) {axis = 0} : f32[grown+1,2]
  %9 = reduce(%6) {op = "max", axes = [0], keep_dim = false} : f32[]
  %10 = lt(%9, %4) : bool[]
  %11 = non_zero(%5) : i64[1,kept]
  %12 = reshape(%11) {dims = ["kept"]} : i64[kept]
  %13 = gather(%6, %12) {axis = 0} : f32[kept]
  return %10, %6, %8, %6, %13
}
}
)");
  CHECK(m.bound("trips") == "8");
  CHECK(m.bound("grown") == "9");
  CHECK(m.bound("kept") == "2");
  for (double trips : {0, 1, 3, 20})
    for (double limit : {0.0, 2.5, 100.0})
      m.check({test::f32({2}, {1, 0.5}), test::i64({}, {trips}), test::f32({}, {limit})},
              "trips " + std::to_string(trips) + ", limit " + std::to_string(limit));
  m.check({test::f32({2}, {0, 0.5}), test::i64({}, {3}), test::f32({}, {9})}, "one kept");
  m.check({test::f32({2}, {0, 0}), test::i64({}, {3}), test::f32({}, {9})}, "none kept");
}

TEST_CASE("a loop stacks what a loop within it stacks") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[2]
  %1 = input "turns" : i64[]
  %2 = input "steps" : i64[]
  %3 = constant {data = dense [4]} : i64[]
  %4 = min(%1, %3) : i64[]
  %5 = constant {data = dense [1]} : bool[]
  %6, %7 = loop(%4, %5, %0, %2) [@turn] {carries = 1} : f32[2], f32[outer,inner,2]
  %8 = exp(%7) : f32[outer,inner,2]
  return %6, %8
}
graph @turn {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "sum" : f32[2]
  %3 = input "steps" : i64[]
  %4 = constant {data = dense [5]} : i64[]
  %5 = min(%3, %4) : i64[]
  %6, %7 = loop(%5, %1, %2) [@step] {carries = 1} : f32[2], f32[inner,2]
  return %1, %6, %7
}
graph @step {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "sum" : f32[2]
  %3 = sin(%2) : f32[2]
  %4 = add(%2, %3) : f32[2]
  return %1, %4, %3
}
}
)");
  CHECK(m.bound("outer") == "4");
  CHECK(m.bound("inner") == "5");
  for (double turns : {0, 1, 3})
    for (double steps : {0, 2, 9})
      m.check({test::f32({2}, {1, 0.5}), test::i64({}, {turns}), test::i64({}, {steps})},
              "turns " + std::to_string(turns) + ", steps " + std::to_string(steps));
}

TEST_CASE("branches of different sizes, and selections inside loops") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[n]
  %1 = input "short" : bool[]
  %2 = if(%1, %0) [@then, @else] : f32[d]
  %3 = exp(%2) : f32[d]
  %4 = constant {data = dense [4]} : i64[]
  %5 = constant {data = dense [1]} : bool[]
  %6 = loop(%4, %5, %0) [@shrink] {carries = 1} : f32[left]
  return %2, %3, %6
}
graph @then {
  %0 = input "x" : f32[n]
  %1 = non_zero(%0) : i64[1,set]
  %2 = reshape(%1) {dims = ["set"]} : i64[set]
  %3 = gather(%0, %2) {axis = 0} : f32[set]
  return %3
}
graph @else {
  %0 = input "x" : f32[n]
  %1 = concat(%0, %0) {axis = 0} : f32[2*n]
  return %1
}
graph @shrink {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "rest" : f32[left]
  %3 = non_zero(%2) : i64[1,positive]
  %4 = reshape(%3) {dims = ["positive"]} : i64[positive]
  %5 = gather(%2, %4) {axis = 0} : f32[positive]
  %6 = constant {data = dense [1]} : f32[]
  %7 = sub(%5, %6) : f32[positive]
  return %1, %7
}
}
)",
          {{"d", 1}});  // a bound applies to the ops that select, not to branches
  CHECK(m.bound("d") == "2*n");
  CHECK(m.bound("left") == "n");
  Random r(6);
  for (int64_t n : {1, 9, 40})
    for (int64_t high : {0, 5})
      for (double which : {0, 1})
        m.check({r.of(DType::F32, {n}, 0, high), eval::tensor_of(DType::Bool, {}, {which})},
                "n = " + std::to_string(n) + ", up to " + std::to_string(high));
}

TEST_CASE("rows of one result that differ between iterations are an error, not a wrong result") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[3,4]
  %1 = scan(%0) [@body] {states = 0, scan_inputs = 1, input_axes = [0], input_reverse = [0], output_axes = [0], output_reverse = [0]} : i64[3,1,set]
  return %1
}
graph @body {
  %0 = input "row" : f32[4]
  %1 = non_zero(%0) : i64[1,set]
  return %1
}
}
)");
  m.check({test::f32({3, 4}, {1, 0, 0, 2, 0, 3, 4, 0, 5, 0, 6, 0})}, "two of each row");
  CHECK_FALSE(m.runs({test::f32({3, 4}, {1, 0, 0, 2, 0, 3, 4, 0, 5, 0, 6, 7})}));
}

TEST_CASE("ONNX: NonZero, Gather and MatMul") {
  using test::node;
  test::OnnxModel onnx(13);
  onnx.input("x", DType::F32, {6, 4}, std::vector<double>(24));
  onnx.input("w", DType::F32, {4, 3}, std::vector<double>(12));
  onnx.add(node("ReduceMax", {"x"}, {"top"}, {test::attribute("axes", std::vector<int64_t>{1}), test::attribute("keepdims", 0)}));
  onnx.add(node("NonZero", {"top"}, {"found"}));
  onnx.add(node("Squeeze", {"found"}, {"rows"}));
  onnx.add(node("Gather", {"x", "rows"}, {"picked"}));
  onnx.add(node("MatMul", {"picked", "w"}, {"y"}));
  onnx.add(node("Shape", {"y"}, {"shape"}));
  for (const char* name : {"y", "shape"}) onnx.output(name);
  Model m(onnx);
  Random r(7);
  for (auto [low, high] : {std::pair{0, 0}, std::pair{0, 1}, std::pair{1, 3}})
    for (int i = 0; i < 3; ++i) m.check({r.of(DType::F32, {6, 4}, low, high), r.real({4, 3})}, "high " + std::to_string(high));
}

TEST_CASE("ONNX: boxes that NonMaxSuppression keeps are gathered") {
  using test::node;
  test::OnnxModel onnx(13);
  onnx.input("boxes", DType::F32, {1, 20, 4}, std::vector<double>(80));
  onnx.input("scores", DType::F32, {1, 3, 20}, std::vector<double>(60));
  onnx.input("most", DType::I64, {1}, {5});
  onnx.input("iou", DType::F32, {1}, {0.5});
  onnx.input("least", DType::F32, {1}, {0.5});
  onnx.add(node("NonMaxSuppression", {"boxes", "scores", "most", "iou", "least"}, {"kept"}));
  onnx.add(node("Split", {"kept"}, {"batch", "class", "box"}, {test::attribute("axis", 1)}));
  onnx.add(node("Squeeze", {"box"}, {"which"}));
  onnx.add(node("Squeeze", {"boxes"}, {"flat"}));
  onnx.add(node("Gather", {"flat", "which"}, {"picked"}));
  onnx.add(node("ReduceSum", {"picked"}, {"sum"}, {test::attribute("keepdims", 0)}));
  for (const char* name : {"class", "picked", "sum"}) onnx.output(name);
  Model m(onnx);
  Random r(8);
  for (double most : {0, 2, 50})
    for (double least : {0.0, 0.7, 2.0})
      m.check({r.real({1, 20, 4}), r.real({1, 3, 20}), test::i64({1}, {most}), test::f32({1}, {0.3}), test::f32({1}, {least})},
              "most " + std::to_string(most) + ", least " + std::to_string(least));
}

TEST_CASE("sizes of a Reshape by data") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[n,6]
  %1 = input "flat" : i64[1]
  %2 = input "sizes" : i64[2]
  %3 = reshape_to(%0, %1) : f32[all]
  %4 = reshape_to(%0, %2) : f32[rows,columns]
  %5 = exp(%4) : f32[rows,columns]
  return %3, %5
}
}
)",
          {{"rows", 12}, {"columns", 12}});
  CHECK(m.bound("all") == "6*n");
  Random r(9);
  for (const auto& [rows, columns] : {std::pair{0, -1}, std::pair{-1, 3}, std::pair{12, 1}, std::pair{4, 3}})
    m.check({r.real({2, 6}), test::i64({1}, {-1}), test::i64({2}, {double(rows), double(columns)})},
            "rows " + std::to_string(rows));
  CHECK_FALSE(m.runs({r.real({2, 6}), test::i64({1}, {-1}), test::i64({2}, {5, 3})}));
  CHECK_FALSE(m.runs({r.real({3, 6}), test::i64({1}, {-1}), test::i64({2}, {18, 1})}));
}

TEST_CASE("bounds from data are of the sizes that the evaluation reaches") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "n" : i64[]
  %1 = input "x" : f32[2,3]
  %2 = input "w" : f32[rows,2]
  %3 = iota(%0) : i64[first]
  %4 = matmul(%2, %1) : f32[rows,3]
  %5 = iota(%0) : i64[second]
  return %3, %4, %5
}
}
)");
  Random r(11);
  const auto bounds = [&](std::vector<int64_t> w) {
    DataSet set;
    set.inputs = {test::i64({}, {5}), r.real({2, 3}), r.real(std::move(w))};
    Diagnostics d;
    return observed_bounds(m.lir(), std::span(&set, 1), {}, d);
  };
  CHECK(bounds({4, 2}) == DimBindings{{"first", 5}, {"second", 5}});
  CHECK(bounds({4, 7}).empty());
}

TEST_CASE("ONNX: TopK, Split and Slice by data") {
  using test::node;
  test::OnnxModel onnx(13);
  onnx.input("x", DType::F32, {3, 7}, std::vector<double>(21));
  onnx.input("k", DType::I64, {1}, {2});
  onnx.input("parts", DType::I64, {2}, {3, 4});
  onnx.input("from", DType::I64, {1}, {-5});
  onnx.input("to", DType::I64, {1}, {100});
  onnx.add(node("TopK", {"x", "k"}, {"values", "indices"}));
  onnx.add(node("Split", {"x", "parts"}, {"left", "right"}, {test::attribute("axis", 1)}));
  onnx.add(node("Constant", {}, {"axes"}, {test::attribute("value_ints", std::vector<int64_t>{1})}));
  onnx.add(node("Slice", {"x", "from", "to", "axes"}, {"slice"}));
  for (const char* name : {"values", "indices", "left", "right", "slice"}) onnx.output(name);
  Model m(onnx);
  Random r(10);
  for (double k : {0, 1, 7})
    for (double from : {-9, -2, 0, 6, 8})
      m.check({r.real({3, 7}), test::i64({1}, {k}), test::i64({2}, {k, 7 - k}), test::i64({1}, {from}), test::i64({1}, {k})},
              "k " + std::to_string(k) + ", from " + std::to_string(from));
}

TEST_CASE("ONNX: an image file that is a constant is folded; kernels refuse another, and say what to do") {
  using test::attribute, test::field, test::node, test::OnnxModel;
  const std::string file = "P6 2 1 255 abcdef";
  const auto decoder = [](OnnxModel& m) {
    m.add(node("ImageDecoder", {"file"}, {"pixels"}));
    m.add(node("Cast", {"pixels"}, {"numbers"}, {attribute("to", 1)}));
    m.add(node("Mul", {"numbers", "by"}, {"y"}));
    m.input("by", DType::F32, {1}, {2});
    m.output("y");
  };
  OnnxModel constant(20);
  const std::string tensor =
      field(1, static_cast<int64_t>(file.size())) + field(2, static_cast<int64_t>(onnx_dtype(DType::U8))) + field(9, file);
  constant.add(node("Constant", {}, {"file"}, {field(1, "value") + field(5, tensor) + field(20, 4)}));
  decoder(constant);
  Model m(constant);
  m.check({eval::tensor_of(DType::F32, {1}, {2})}, "a constant file");
  OnnxModel given(20);
  given.input("file", DType::U8, {17}, {file.begin(), file.end()});
  decoder(given);
  const Model refused(given);
  CHECK(refused.said().find("(ImageDecode): the cpu target: no kernel for ImageDecode") != std::string::npos);
  CHECK(refused.said().find("rlxc run --engine=reference") != std::string::npos);
}

TEST_CASE("data-dependent dims that the model requires to be equal are compared in each run") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[3,n]
  %1 = input "keep" : bool[n]
  %2 = input "others" : bool[n]
  %3 = input "w" : f32[4,5]
  %4 = input "yes" : bool[]
  %5 = non_zero(%1) : i64[1,kept]
  %6 = reshape(%5) {dims = ["kept"]} : i64[kept]
  %7 = gather(%0, %6) {axis = 1} : f32[3,kept]
  %8 = matmul(%7, %3) : f32[3,5]
  %9 = if(%4, %0, %1, %2) [@same, @any] : i64[]
  return %8, %9
}
graph @same {
  %0 = input "x" : f32[3,n]
  %1 = input "keep" : bool[n]
  %2 = input "others" : bool[n]
  %3 = non_zero(%1) : i64[1,a]
  %4 = non_zero(%2) : i64[1,b]
  %5 = matmul(%3, %4) {trans_b = true} : i64[1,1]
  %6 = reshape(%5) {dims = []} : i64[]
  return %6
}
graph @any {
  %0 = input "x" : f32[3,n]
  %1 = input "keep" : bool[n]
  %2 = input "others" : bool[n]
  %3 = constant {data = dense [7]} : i64[]
  return %3
}
}
)");
  Random r(21);
  const auto inputs = [&](std::vector<double> keep, std::vector<double> others, bool yes) {
    return std::vector{r.real({3, 6}), eval::tensor_of(DType::Bool, {6}, keep), eval::tensor_of(DType::Bool, {6}, others),
                       r.real({4, 5}), eval::tensor_of(DType::Bool, {}, {yes ? 1.0 : 0.0})};
  };
  const std::vector<double> three = {1, 0, 1, 0, 1, 0}, four = {1, 1, 0, 1, 1, 0}, last = {0, 0, 1, 1, 1, 1};
  m.check(inputs(four, last, true), "equal");
  m.check(inputs(four, three, false), "the other branch needs nothing");
  CHECK_FALSE(m.runs(inputs(three, three, false)));
  CHECK_FALSE(m.runs(inputs(four, three, true)));
  CHECK(m.runs(inputs(last, four, true)));
}

TEST_CASE("data-dependent dims of a loop are compared in each iteration") {
  Model m(R"(module "m" mir {
graph @main {
  %0 = input "levels" : i64[t,n]
  %1 = input "w" : f32[2]
  %2 = input "go" : bool[]
  %3 = dim_value {dims = ["t"], scalar = true} : i64[]
  %4, %5 = loop(%3, %2, %1, %0) [@turn] {carries = 1} : f32[2], f32[turns,1]
  return %4, %5
}
graph @turn {
  %0 = input "i" : i64[]
  %1 = input "go" : bool[]
  %2 = input "w" : f32[2]
  %3 = input "levels" : i64[t,n]
  %4 = gather(%3, %0) {axis = 0} : i64[n]
  %5 = non_zero(%4) : i64[1,found]
  %6 = cast(%5) {to = "f32"} : f32[1,found]
  %7 = reshape(%2) {dims = [2, 1]} : f32[2,1]
  %8 = matmul(%6, %7) : f32[1,1]
  %9 = reshape(%8) {dims = [1]} : f32[1]
  return %1, %2, %9
}
}
)");
  Random r(22);
  const auto inputs = [&](const std::vector<double>& levels) {
    return std::vector{test::i64({2, 3}, levels), r.real({2}), eval::tensor_of(DType::Bool, {}, {1})};
  };
  m.check(inputs({1, 0, 1, 0, 1, 1}), "two in each row");
  CHECK_FALSE(m.runs(inputs({1, 0, 1, 0, 0, 1})));
  CHECK_FALSE(m.runs(inputs({1, 1, 1, 0, 1, 1})));
}
