#include "import/stablehlo/import.h"

#include <cmath>

#include "eval/eval.h"
#include "ir/verify.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::string errors_of(std::string_view text, size_t max_nodes = 100'000) {
  Diagnostics d;
  const auto m = stablehlo_import::import_stablehlo(text, {max_nodes}, d);
  CHECK((m == nullptr) == !d.ok());
  return d.text();
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

std::vector<HostValue> run_text(std::string_view text, const std::vector<HostValue>& inputs) {
  Diagnostics d;
  const auto m = stablehlo_import::import_stablehlo(text, {}, d);
  REQUIRE_MESSAGE(m, d.text());
  REQUIRE_MESSAGE(verify(*m, d), d.text());
  const auto out = eval::evaluate(*m, inputs, d);
  REQUIRE_MESSAGE(out, d.text());
  return *out;
}

// A function of x and, if there is one, y.
std::string function(const std::string& types, const std::string& result, const std::string& body) {
  return "module @m {\n  func.func public @main(" + types + ") -> " + result + " {\n" + body + "\n  }\n}\n";
}

HostValue i32(std::vector<int64_t> dims, const std::vector<double>& values) {
  return tensor_of(DType::I32, std::move(dims), values);
}

const std::string kVector = "%x: tensor<4xf32>";

}  // namespace

TEST_CASE("both forms of operations mean the same") {
  const std::string pretty = function(kVector, "tensor<2x4xf32>", R"(
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
    %2 = stablehlo.compare GT, %1, %0, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %3 = stablehlo.select %2, %1, %0 : tensor<4xi1>, tensor<4xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    return %4 : tensor<2x4xf32>)");
  const std::string generic = R"("builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<2x4xf32>, sym_name = "main"}> ({
  ^bb0(%x: tensor<4xf32>):
    %c = "stablehlo.constant"() {value = dense<2.0> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "stablehlo.multiply"(%x, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "stablehlo.compare"(%1, %c) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %3 = "stablehlo.select"(%2, %1, %c) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = "stablehlo.broadcast_in_dim"(%3) {broadcast_dimensions = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4xf32>
    "func.return"(%4) : (tensor<2x4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
)";
  for (const std::string& text : {pretty, generic}) {
    CHECK(stablehlo_import::looks_like_mlir(text));
    check_close(run_text(text, {f32({4}, {0, 1, 2, -1})})[0], f32({2, 4}, {2, 2, 4, 2, 2, 2, 4, 2}));
  }
}

TEST_CASE("the text form of the IR and others are no MLIR") {
  for (const char* text : {"module \"m\" mir {", "// a graph", "{\"format\": \"rlxc-graph\"}", "modules @m {", ""})
    CHECK_FALSE(stablehlo_import::looks_like_mlir(text));
  CHECK(stablehlo_import::looks_like_mlir("// from JAX\n#loc = loc(unknown)\nmodule attributes {a = 1 : i32} {"));
}

TEST_CASE("literals of every form") {
  const auto constant = [](const std::string& literal, const std::string& type) {
    return run_text(
        function("", type, "    %0 = stablehlo.constant dense<" + literal + "> : " + type + "\n    return %0 : " + type), {})[0];
  };
  check_values(constant("[[1.5, -2.0], [0x3F800000, 1e-3]]", "tensor<2x2xf32>"), {1.5, -2, 1, 1e-3});
  check_values(constant("\"0x0000803F00000040\"", "tensor<2xf32>"), {1, 2});
  check_values(constant("7", "tensor<3xi32>"), {7, 7, 7});
  check_values(constant("[true, false]", "tensor<2xi1>"), {1, 0});
  check_values(constant("\"0x05\"", "tensor<3xi1>"), {1, 0, 1});
  check_values(constant("[-3, 7]", "tensor<2xi4>"), {-3, 7});
  check_values(constant("[4294967295]", "tensor<1xui32>"), {4294967295.0});
  CHECK(constant("", "tensor<0xf32>").tensor.dims == std::vector<int64_t>{0});
  CHECK(std::isinf(numbers(constant("0xFF800000", "tensor<f32>"))[0]));
  const auto refused = [](const std::string& literal, const std::string& type) {
    return errors_of(
        function("", type, "    %0 = stablehlo.constant dense<" + literal + "> : " + type + "\n    return %0 : " + type));
  };
  CHECK(holds(refused("[1.0, 2.0]", "tensor<3xf32>"), "it has 2 elements, and its type has 3"));
  CHECK(holds(refused("\"0x0000\"", "tensor<2xf32>"), "it has 2 bytes"));
  CHECK(holds(refused("300", "tensor<i8>"), "no element of type i8"));
  CHECK(holds(refused("[1.0", "tensor<1xf32>"), "bracket"));
  CHECK(holds(refused("(1.0, 2.0)", "tensor<complex<f32>>"), "complex"));
  CHECK(holds(refused("__elided__", "tensor<9xf32>"), "elided"));
}

TEST_CASE("reductions of known operations and of others") {
  const auto reduced = [](const std::string& operation, const std::string& start) {
    return function("%x: tensor<2x5xf32>", "tensor<2xf32>",
                    "    %c = stablehlo.constant dense<" + start + R"(> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %c) applies stablehlo.)" +
                        operation + R"( across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>)");
  };
  const HostValue x = f32({2, 5}, {1, 2, 3, 4, 5, -1, 2, -3, 4, -5});
  check_values(run_text(reduced("add", "0.0"), {x})[0], {15, -3});
  check_values(run_text(reduced("add", "1.0"), {x})[0], {16, -2});
  check_values(run_text(reduced("maximum", "0xFF800000"), {x})[0], {5, 4});
  check_values(run_text(reduced("minimum", "0.0"), {x})[0], {0, -5});
  check_values(run_text(reduced("multiply", "2.0"), {x})[0], {240, -240});
  // x, y -> x + y + x*y, and the number of elements beside it.
  const std::string other = function("%x: tensor<2x5xf32>", "(tensor<2xf32>, tensor<2xi32>)", R"(
    %one = stablehlo.constant dense<1> : tensor<2x5xi32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %n = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.reduce(%x init: %c), (%one init: %n) across dimensions = [1] : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>)  {
      %2 = stablehlo.add %a, %b : tensor<f32>
      %3 = stablehlo.multiply %a, %b : tensor<f32>
      %4 = stablehlo.add %2, %3 : tensor<f32>
      %5 = stablehlo.add %i, %j : tensor<i32>
      stablehlo.return %4, %5 : tensor<f32>, tensor<i32>
    }
    return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>)");
  const auto out = run_text(other, {x});
  check_values(out[0], {719, -1});
  check_values(out[1], {5, 5});
}

TEST_CASE("an index that is out of range is clamped by gather, and dropped by scatter") {
  const std::string gather = function("%x: tensor<4x2xf32>, %i: tensor<3x1xi32>", "tensor<3x2xf32>", R"(
    %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>)");
  const HostValue x = f32({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), i = i32({3, 1}, {-5, 2, 9});
  check_values(run_text(gather, {x, i})[0], {0, 1, 4, 5, 6, 7});
  const auto scatter = [](const std::string& region) {
    return function("%x: tensor<4x2xf32>, %i: tensor<3x1xi32>, %u: tensor<3x2xf32>", "tensor<4x2xf32>", R"(
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
)" + region + R"(
    }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>)");
  };
  const HostValue u = f32({3, 2}, {10, 10, 20, 20, 30, 30});
  check_values(run_text(scatter("      stablehlo.return %b : tensor<f32>"), {x, i, u})[0], {0, 1, 2, 3, 20, 20, 6, 7});
  const std::string add = "      %s = stablehlo.add %a, %b : tensor<f32>\n      stablehlo.return %s : tensor<f32>";
  check_values(run_text(scatter(add), {x, i, u})[0], {0, 1, 2, 3, 24, 25, 6, 7});
  CHECK(holds(errors_of(scatter("      %s = stablehlo.divide %a, %b : tensor<f32>\n      stablehlo.return %s : tensor<f32>")),
              "scatter"));
}

TEST_CASE("loops, branches and calls read values around them") {
  const std::string text = R"(module @m {
  func.func public @main(%x: tensor<f32>, %n: tensor<i32>) -> tensor<f32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %v = %x) : tensor<i32>, tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = func.call @step(%v, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<f32>
    }
    %3 = "stablehlo.case"(%n) ({
      stablehlo.return %x : tensor<f32>
    }, {
      stablehlo.return %0#1 : tensor<f32>
    }, {
      %4 = stablehlo.negate %0#1 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
  func.func private @step(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
})";
  for (const auto& [n, expected] : {std::pair{0.0, 3.0}, {1.0, 6.0}, {2.0, -9.0}, {4.0, -15.0}})
    check_values(run_text(text, {f32({}, {3}), i32({}, {n})})[0], {expected});
}

TEST_CASE("sizes of arguments are symbols") {
  const std::string text = function("%x: tensor<?x2xf32>", "tensor<?x2xf32>", R"(
    %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.constant dense<2> : tensor<1xi32>
    %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.convert %0 : (tensor<i32>) -> tensor<f32>
    %5 = stablehlo.dynamic_broadcast_in_dim %4, %3, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x2xf32>
    %6 = stablehlo.add %x, %5 : tensor<?x2xf32>
    return %6 : tensor<?x2xf32>)");
  check_values(run_text(text, {f32({3, 2}, {0, 1, 2, 3, 4, 5})})[0], {3, 4, 5, 6, 7, 8});
}

TEST_CASE("all problems are found in one run, with their places") {
  const std::string e = errors_of(function(kVector, "tensor<4xf32>", R"(
    %0 = stablehlo.frobnicate %x : tensor<4xf32>
    %1 = stablehlo.add %x, %nothing : tensor<4xf32>
    %2 = stablehlo.rng_bit_generator %x, algorithm = DEFAULT : tensor<4xf32>
    %3 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<5xf32>
    %4 = stablehlo.add %0, %1 : tensor<4xf32>
    %5 = stablehlo.exponential %x : tensor<3xf32>
    return %4 : tensor<4xf32>)"));
  CHECK(holds(e, "line 4 column 10, stablehlo.frobnicate: it is not in the vocabulary"));
  CHECK(holds(e, "line 5 column 28: there is no value %nothing"));
  CHECK(holds(e, "line 6 column 10, stablehlo.rng_bit_generator: random numbers"));
  CHECK(holds(e, "it changes the number of elements"));
  CHECK(holds(e, "it gives f32[4], and its type is tensor<3xf32>"));
}

TEST_CASE("a text that asks for too much is refused") {
  std::string deep = "    %0 = stablehlo.constant dense<1> : tensor<i32>\n";
  for (int i = 0; i < 100; ++i) deep += "    %r = \"stablehlo.case\"(%0) ({\n";
  CHECK(holds(errors_of(function(kVector, "tensor<4xf32>", deep)), "nest deeper"));
  CHECK(holds(errors_of("module @m {\n  func.func @main(%x: tensor<4xf32> {a = " + std::string(100'000, '[') + "}) {"),
              "nest deeper"));
  CHECK(holds(errors_of("module @m {\n  func.func @main() { %0 = stablehlo.constant dense<" + std::string(100'000, '<')),
              "bracket"));
  const std::string recursive = R"(module @m {
  func.func public @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
})";
  CHECK(holds(errors_of(recursive), "nest deeper"));
  // Each function calls the one before it twice.
  std::string doubled =
      "module @m {\n  func.func private @f0(%x: tensor<f32>) -> tensor<f32> {\n    return %x : tensor<f32>\n  }\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string before = "call @f" + std::to_string(i - 1);
    doubled += "  func.func " + std::string(i == 40 ? "public @main" : "private @f" + std::to_string(i)) +
               "(%x: tensor<f32>) -> tensor<f32> {\n    %0 = " + before +
               "(%x) : (tensor<f32>) -> tensor<f32>\n    %1 = " + before +
               "(%0) : (tensor<f32>) -> tensor<f32>\n    return %1 : tensor<f32>\n  }\n";
  }
  CHECK(holds(errors_of(doubled + "}"), "more than 100000 operations"));
  CHECK(holds(errors_of(function("%x: tensor<9999999999999999999xf32>", "tensor<f32>", "    return %x : tensor<f32>")),
              "too large"));
  // The result is as large as the text says, and no memory is taken for it.
  CHECK(errors_of(function("", "tensor<1000000x1000000xf32>",
                           "    %0 = stablehlo.constant dense<1.0> : tensor<1000000x1000000xf32>\n    return %0 : "
                           "tensor<1000000x1000000xf32>"))
            .empty());
}

TEST_CASE("a text that is cut anywhere gives a diagnostic") {
  const std::string text =
      function("%x: tensor<2x5xf32> {a.b = \"c\"} loc(\"x\")", "(tensor<2xf32> {jax.result_info = \"r\"})", R"(
    %c = stablehlo.constant dense<"0x0000803F"> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>)");
  CHECK(errors_of(text).empty());
  const size_t end = text.find_last_of('}');
  for (size_t n = 0; n < end; ++n) CHECK_FALSE(errors_of(text.substr(0, n)).empty());
  uint32_t state = 1;
  for (int round = 0; round < 3000; ++round) {  // other bytes in a few places: a module or diagnostics
    std::string changed = text;
    for (int k = 0; k < 3; ++k) {
      state = state * 1664525 + 1013904223;
      const size_t at = (state >> 8) % changed.size();
      state = state * 1664525 + 1013904223;
      changed[at] = "%(){}[]<>:,=\"0x19-aT\n"[(state >> 8) % 21];
    }
    Diagnostics d;
    const auto m = stablehlo_import::import_stablehlo(changed, {1000}, d);
    CHECK((m == nullptr) == !d.ok());
    if (m) CHECK_MESSAGE(verify(*m, d), d.text() << changed);
  }
}
