// Diagnostics for invalid models.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "eval/eval.h"
#include "ir/dim_postfix.h"
#include "ir/verify.h"
#include "support/onnx_model.h"
#include "support/temp_dir.h"

namespace rlxc {
namespace {

using namespace test;

OnnxModel one_input() {
  OnnxModel m(17);
  m.input("x", DType::F32, {2, 3}, some(6, 1));
  return m;
}

void refused(const OnnxModel& m, Code code, std::string_view words) {
  Diagnostics d;
  CHECK(m.load(d) == nullptr);
  REQUIRE_FALSE(d.items().empty());
  CHECK_MESSAGE(d.items()[0].code == code, d.text());
  CHECK_MESSAGE(d.text().find(words) != std::string::npos, d.text());
}

std::string relu(std::string_view in, std::string_view out) { return node("Relu", {std::string(in)}, {std::string(out)}); }

}  // namespace

TEST_CASE("cycles, unknown names, names defined twice") {
  auto m = one_input();
  m.add(node("Add", {"x", "b"}, {"a"}));
  m.add(relu("a", "b"));
  m.output("b");
  refused(m, Code::BadGraph, "cycle");
  auto unknown = one_input();
  unknown.add(relu("nothing", "y"));
  unknown.output("y");
  refused(unknown, Code::UnknownName, "\"nothing\"");
  auto twice = one_input();
  twice.add(relu("x", "y"));
  twice.add(relu("x", "y"));
  twice.output("y");
  refused(twice, Code::DuplicateName, "twice");
}

TEST_CASE("nodes in any order are sorted") {
  auto m = one_input();
  m.add(relu("a", "b"));
  m.add(node("Neg", {"x"}, {"a"}));
  m.output("b");
  const auto x = some(6, 1);
  std::vector<double> y;
  for (double v : x) y.push_back(v < 0 ? -v : 0);
  check_close(m.run()[0], y);
}

TEST_CASE("every prefix of a model is answered") {
  auto m = one_input();
  m.add(node("Reshape", {"x", "shape"}, {"y"}));
  m.raw_graph(field(5, field(1, int64_t{2}) + field(2, int64_t{7}) + field(8, "shape") + field(7, std::string("\3\2"))));
  m.output("y");
  const std::string whole = m.bytes();
  TempDir dir;
  const std::string path = dir / "cut.onnx";
  for (size_t n = 0; n < whole.size(); ++n) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, n);
    Diagnostics d;
    const auto module = onnx_import::import_onnx(path, {}, d);
    CHECK((module != nullptr) == d.ok());
  }
}

TEST_CASE("sizes that overflow, negative sizes, ranks beyond any limit") {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("x", DType::F32, {int64_t{1} << 40, int64_t{1} << 40})));
  m.add(relu("x", "y"));
  m.output("y");
  Diagnostics d;
  const auto large = m.load(d);
  CHECK((!large || !verify(*large, d)));
  auto negative = one_input();
  negative.add(node("Constant", {}, {"s"}, {attribute("value_ints", std::vector<int64_t>{-2, 3})}));
  negative.add(node("Reshape", {"x", "s"}, {"y"}));
  negative.output("y");
  refused(negative, Code::BadShape, "negative");
  auto huge = one_input();
  huge.add(node("Constant", {}, {"s"}, {attribute("value_ints", std::vector<int64_t>{INT64_MAX, INT64_MAX, 2})}));
  huge.add(node("Expand", {"x", "s"}, {"y"}));
  huge.output("y");
  Diagnostics e;
  const auto module = huge.load(e);
  CHECK((!module || !verify(*module, e)));
}

TEST_CASE("numbers that no integer holds are computed with") {
  OnnxModel m(22);
  m.input("x", DType::F32, {2, 3}, some(6, 1));
  m.add(node("Constant", {}, {"nan"}, {attribute("value_float", std::nan(""))}));
  for (int type : {2, 3, 4, 5, 6, 7, 9, 12, 13}) {  // u8, i8, u16, i16, i32, i64, bool, u32, u64
    const std::string y = "y" + std::to_string(type);
    m.add(node("Cast", {"nan"}, {y}, {attribute("to", type)}));
    m.output(y);
  }
  m.add(node("EyeLike", {"x"}, {"far"}, {attribute("k", INT64_MIN)}));
  m.output("far");
  auto got = m.run();
  CHECK(got.back() == std::vector<double>(6, 0.0));
  got.pop_back();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == std::vector{i == 6 ? 1.0 : 0.0});
}

TEST_CASE("functions that call themselves, bodies nested without end") {
  auto m = one_input();
  m.opset("local", 1);
  const std::string body = node("F", {"a"}, {"b"}, {}, "local");
  m.raw(field(
      25, field(1, "F") + field(4, "a") + field(5, "b") + field(7, body) + field(9, field(2, int64_t{17})) + field(10, "local")));
  m.add(node("F", {"x"}, {"y"}, {}, "local"));
  m.output("y");
  refused(m, Code::BadGraph, "calls itself");

  std::string graph = field(1, relu("x", "o")) + field(12, field(1, "o"));
  for (int i = 0; i < 200; ++i)
    graph = field(1, node("If", {"c"}, {"o"},
                          {graph_attribute("then_branch", graph),
                           graph_attribute("else_branch", field(1, relu("x", "o")) + field(12, field(1, "o")))})) +
            field(12, field(1, "o"));
  auto deep = one_input();
  deep.input("c", DType::Bool, {}, {1});
  deep.add(node("If", {"c"}, {"y"}, {graph_attribute("then_branch", graph), graph_attribute("else_branch", graph)}));
  deep.output("y");
  refused(deep, Code::TooLarge, "deeper");
}

TEST_CASE("external data must stay in the folder of the model") {
  for (const char* location : {"../secret.bin", "/etc/passwd", "a/../../b", "\\\\server\\share"}) {
    auto m = one_input();
    const std::string entry = field(1, "location") + field(2, location);
    m.raw_graph(field(5, field(1, int64_t{6}) + field(2, int64_t{1}) + field(8, "w") + field(13, entry) + field(14, int64_t{1})));
    m.add(node("Add", {"x", "w"}, {"y"}));
    m.output("y");
    Diagnostics d;
    CHECK_MESSAGE(m.load(d) == nullptr, location);
    REQUIRE_FALSE(d.items().empty());
    CHECK_MESSAGE((d.items()[0].code == Code::UnsafePath || d.items()[0].code == Code::MissingWeights), d.text());
  }
}

TEST_CASE("backward slices of a symbolic axis, by every kind of bound") {
  for (const int64_t start : {int64_t{-1}, int64_t{-2}, int64_t{2}, int64_t{90}, int64_t{INT64_MAX}})
    for (const int64_t end : {INT64_MIN, int64_t{-90}, int64_t{-3}, int64_t{0}, int64_t{1}})
      for (const int64_t step : {-1, -2}) {
        OnnxModel m(17);
        m.raw_graph(field(11, field(1, "x") + field(2, field(1, field(1, int64_t{1}) + field(2, field(1, field(2, "n")))))));
        for (const auto& [name, v] : {std::pair{"start", start}, {"end", end}, {"axis", int64_t{0}}, {"step", step}})
          m.add(node("Constant", {}, {name}, {attribute("value_ints", std::vector<int64_t>{v})}));
        m.add(node("Slice", {"x", "start", "end", "axis", "step"}, {"y"}));
        m.output("y");
        Diagnostics d;
        const auto module = m.load(d);
        REQUIRE_MESSAGE(module, d.text());
        for (const int64_t n : {1, 2, 3, 5}) {
          std::vector<double> x, expected;
          for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>(i + 1));
          const int64_t first = std::min(start < 0 ? start + n : start, n - 1);
          const int64_t last = end < 0 ? std::max(end, -n - 1) + n : end;
          for (int64_t i = first; i >= 0 && i > last; i += step) expected.push_back(x[static_cast<size_t>(i)]);
          const std::vector<eval::HostValue> inputs{eval::tensor_of(DType::F32, {n}, x)};
          const auto y = eval::evaluate(*module, inputs, d);
          REQUIRE_MESSAGE(y, d.text());
          CHECK_MESSAGE(eval::numbers((*y)[0]) == expected, start << ":" << end << ":" << step << " of " << n);
        }
      }
}

TEST_CASE("sizes that only data tell") {
  OnnxModel m(17);
  m.input("x", DType::F32, {5}, {4, 0, 3, 0, 2});
  m.input("n", DType::I64, {1}, {3});
  m.add(node("NonZero", {"x"}, {"found"}));
  m.add(node("Slice", {"x", "zero", "n"}, {"head"}));
  m.add(node("Constant", {}, {"zero"}, {attribute("value_ints", std::vector<int64_t>{0})}));
  m.add(node("Expand", {"one", "n"}, {"wide"}));
  m.add(node("Constant", {}, {"one"}, {attribute("value_floats", std::vector<double>{1})}));
  m.add(node("Reshape", {"head", "n"}, {"same"}));
  for (const char* name : {"found", "head", "wide", "same"}) m.output(name);
  const auto got = m.run();
  CHECK(got[0] == std::vector<double>{0, 2, 4});
  CHECK(got[1] == std::vector<double>{4, 0, 3});
  CHECK(got[2] == std::vector<double>{1, 1, 1});
  CHECK(got[3] == std::vector<double>{4, 0, 3});
}

TEST_CASE("outputs may be declared empty where data find nothing") {
  OnnxModel m(17);
  m.input("x", DType::F32, {3}, {0, 0, 0});
  m.input("y", DType::F32, {0}, {});
  m.add(node("NonZero", {"x"}, {"found"}));
  m.add(node("Identity", {"y"}, {"same"}));
  m.raw_graph(field(12, value_info("found", DType::I64, {1, 0})));
  m.raw_graph(field(12, field(1, "same") + field(2, field(1, field(1, int64_t{1}) + field(2, field(1, field(2, "rows")))))));
  const auto got = m.run();
  CHECK(got[0].empty());
  CHECK(got[1].empty());
}

TEST_CASE("sizes computed from contents that are promised") {
  OnnxModel m(18);
  m.input("x", DType::F32, {3}, {1, 2, 3});
  m.input("n", DType::I64, {1}, {2});
  m.add(node("Mul", {"n", "n"}, {"square"}));
  m.add(node("CenterCropPad", {"x", "square"}, {"y"}));
  m.output("y");
  Diagnostics unknown;
  CHECK(m.load(unknown) == nullptr);
  CHECK(unknown.exit() == ExitCode::Unsupported);
  onnx_import::ImportOptions options;
  options.contents = [](size_t i, TypeKind) -> std::optional<TensorData> {
    return i == 1 ? std::optional(make_data<int64_t>(DType::I64, {1}, {2})) : std::nullopt;
  };
  Diagnostics d;
  const auto module = m.load(d, options);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->dims.constant_value(module->main().dims(module->main().outputs()[0])[0]) == 4);
  CHECK(d.text().find("\"n\"") != std::string::npos);
}

TEST_CASE("sizes that have to be constant are those of promised contents, whatever the refusal says") {
  OnnxModel m(18);
  m.raw_graph(field(11, value_info("x", DType::F32, {1, 1, 5})) + field(11, value_info("w", DType::F32, {1, 1, -1})));
  m.add(node("Conv", {"x", "w"}, {"y"}));
  m.output("y");
  Diagnostics unknown;
  CHECK(m.load(unknown) == nullptr);
  CHECK(unknown.exit() != ExitCode::Unsupported);
  onnx_import::ImportOptions options;
  options.contents = [](size_t i, TypeKind) -> std::optional<TensorData> {
    return make_data<float>(DType::F32, {1, 1, i == 1 ? 2 : 5}, std::vector<float>(i == 1 ? 2 : 5));
  };
  Diagnostics d;
  const auto module = m.load(d, options);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->dims.constant_value(module->main().dims(module->main().outputs()[0])[2]) == 4);
}

TEST_CASE("an expression of sizes that the inputs do not determine is a plain name") {
  const auto input = [](const char* name, std::initializer_list<const char*> sizes) {
    std::string shape;
    for (const char* s : sizes) shape += field(1, field(2, s));
    return field(11, field(1, name) + field(2, field(1, field(1, int64_t{1}) + field(2, shape))));
  };
  const auto sizes_of_x = [&](const std::string& inputs, const DimBindings& bind) {
    OnnxModel m;
    m.raw_graph(inputs);
    m.add(relu("x", "y"));
    m.output("y");
    Diagnostics d;
    onnx_import::ImportOptions options;
    options.bind = bind;
    const auto module = m.load(d, options);
    REQUIRE_MESSAGE(module, d.text());
    const Graph& g = module->main();
    std::string text;
    for (Dim dim : g.dims(g.result(g.inputs()[0]))) text += module->dims.text(dim) + " ";
    return text;
  };
  const std::string x = input("x", {"past+seq", "a*a", "past+seq"});
  CHECK(sizes_of_x(x, {}) == "\"past+seq\" \"a*a\" \"past+seq\" ");
  CHECK(sizes_of_x(x + input("z", {"seq"}), {}) == "past+seq \"a*a\" past+seq ");
  CHECK(sizes_of_x(x + input("z", {"a"}), {}) == "\"past+seq\" a*a \"past+seq\" ");
  CHECK(sizes_of_x(x, {{"past", 3}}) == "seq+3 \"a*a\" seq+3 ");
  CHECK(sizes_of_x(x, {{"past+seq", 7}}) == "7 \"a*a\" 7 ");
}

TEST_CASE("any text names a size; a question mark names none") {
  const std::vector<std::string> sizes = {"?", "?", "n / 2", "past + 1"};
  std::string shape;
  for (const std::string& s : sizes) shape += field(1, field(2, s));
  OnnxModel m;
  m.raw_graph(field(11, field(1, "x") + field(2, field(1, field(1, int64_t{1}) + field(2, shape)))));
  m.add(relu("x", "y"));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  const Graph& g = module->main();
  const auto got = g.dims(g.result(g.inputs()[0]));
  REQUIRE(got.size() == 4);
  CHECK(symbol_name(module->dims, got[2]) == "n / 2");
  CHECK(symbol_name(module->dims, got[0]) == "dim0");
  CHECK(symbol_name(module->dims, got[1]) == "dim1");
  CHECK(module->dims.text(got[3]) == "past+1");
  onnx_import::ImportOptions options;
  options.bind = {{"n / 2", 3}, {"dim1", 4}};
  const auto bound = m.load(d, options);
  REQUIRE_MESSAGE(bound, d.text());
  CHECK(bound->main().dims(bound->main().outputs()[0])[2] == Dim(3));
  CHECK(bound->main().dims(bound->main().outputs()[0])[1] == Dim(4));
}

TEST_CASE("a size is never -1: what Expand is given keeps its sizes") {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("x", DType::F32, {1, 1, -1})));
  m.add(node("MaxPool", {"x"}, {"pool"}, {attribute("kernel_shape", std::vector<int64_t>{127})}));
  m.add(node("Shape", {"pool"}, {"shape"}));
  m.add(node("Shape", {"shape"}, {"rank"}));
  m.add(node("ConstantOfShape", {"rank"}, {"ones"},
             {field(1, "value") + field(5, field(1, int64_t{1}) + field(2, int64_t{7}) + field(7, varint(1))) + field(20, 4)}));
  m.add(node("Neg", {"ones"}, {"minus"}));
  m.add(node("Equal", {"shape", "minus"}, {"open"}));
  m.add(node("Where", {"open", "ones", "shape"}, {"sizes"}));
  m.add(node("Expand", {"pool", "sizes"}, {"y"}));
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  const Graph& g = module->main();
  const ValueId y = g.outputs()[0];
  CHECK(module->dims.symbol_names() == std::vector<std::string>{"dim0"});
  CHECK(module->dims.text(g.dims(y)[2]) == "dim0-126");
  for (NodeId n : g.nodes()) CHECK(g.op(n) != OpKind::Iota);
}

TEST_CASE("places in a mask whose contents are known are constants") {
  OnnxModel m(17);
  m.input("x", DType::F32, {3, 2}, some(6, 1));
  m.add(node("Shape", {"x"}, {"repeats"}));  // 3, 2
  m.add(node("Constant", {}, {"none"}, {attribute("value_int", 0)}));
  m.add(node("Constant", {}, {"one"}, {attribute("value_int", 1)}));
  m.add(node("Constant", {}, {"last"}, {attribute("value_ints", std::vector<int64_t>{1})}));
  m.add(node("ReduceMax", {"repeats"}, {"most"}, {attribute("keepdims", 0)}));
  m.add(node("Range", {"none", "most", "one"}, {"positions"}));
  m.add(node("Unsqueeze", {"repeats", "last"}, {"column"}));
  m.add(node("Less", {"positions", "column"}, {"mask"}));
  m.add(node("NonZero", {"mask"}, {"places"}));
  m.output("places");
  CHECK(m.run()[0] == std::vector<double>{0, 0, 0, 1, 1, 0, 1, 2, 0, 1});
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  CHECK(module->main().type(module->main().outputs()[0]).is_static());
}

TEST_CASE("an opset of the future is taken for the newest known one, with a warning") {
  OnnxModel m(99);
  m.input("x", DType::F32, {2}, {-1, 1});
  m.add(relu("x", "y"));
  m.output("y");
  CHECK(m.run()[0] == std::vector<double>{0, 1});
  Diagnostics d;
  m.load(d);
  CHECK(d.text().find("opset 99") != std::string::npos);
}

TEST_CASE("an attribute that is not known is a warning") {
  const auto with_attribute = [](std::string_view name) {
    OnnxModel m(17);
    m.input("x", DType::F32, {2}, {-1, 1});
    m.add(node("Elu", {"x"}, {"a"}, {attribute("alpha", 0.5), attribute(name, 2.0)}));
    m.add(node("Elu", {"a"}, {"y"}, {attribute(name, 2.0)}));
    m.output("y");
    return m;
  };
  Diagnostics d;
  REQUIRE(with_attribute("beta").load(d));
  CHECK(d.items().size() == 1);  // once per operator
  CHECK_MESSAGE(d.text().find("the attribute \"beta\" is not known") != std::string::npos, d.text());
}

TEST_CASE("a default that is written out is read as absent, another value that changes the result is refused") {
  const auto convolution = [](int64_t dilation) {
    OnnxModel m(24);
    m.opset("com.microsoft", 1);
    m.input("x", DType::F32, {1, 2, 4}, some(8, 1));
    m.input("w", DType::F32, {2, 1, 3}, some(6, 2));
    m.add(node("CausalConvWithState", {"x", "w"}, {"y"}, {attribute("dilation", dilation)}, "com.microsoft"));
    m.output("y");
    return m;
  };
  Diagnostics d;
  REQUIRE_MESSAGE(convolution(1).load(d), d.text());
  CHECK(d.items().empty());
  refused(convolution(2), Code::UnsupportedAttribute, "the attribute \"dilation\" is not supported");

  OnnxModel m(23);
  for (const char* name : {"q", "k", "v"}) m.input(name, DType::F32, {1, 1, 2, 2}, some(4, 1));
  m.add(node("Attention", {"q", "k", "v"}, {"y"}, {attribute("qk_matmul_output_mode", 0)}));
  m.output("y");
  REQUIRE_MESSAGE(m.load(d), d.text());
  CHECK(d.items().empty());
}

TEST_CASE("the ratio of Dropout is a constant of any float type") {
  OnnxModel m(13);
  m.input("x", DType::F32, {3}, {1, 2, 3});
  const auto constant = [](std::string_view name, DType t, std::string_view raw) {
    return field(5, field(2, static_cast<int64_t>(onnx_dtype(t))) + field(8, name) + field(9, raw));
  };
  m.raw_graph(constant("ratio", DType::F16, std::string(2, '\0')));
  m.raw_graph(constant("training", DType::Bool, "\1"));
  m.add(node("Dropout", {"x", "ratio", "training"}, {"y"}));
  m.output("y");
  CHECK(m.run()[0] == std::vector<double>{1, 2, 3});
}

TEST_CASE("an attribute of the standard that changes nothing here is told by no warning") {
  OnnxModel m;
  m.input("x", DType::F32, {2}, {-1, 1});
  m.add(node("Cast", {"x"}, {"y"}, {attribute("to", 10), attribute("saturate", 1)}));
  m.output("y");
  Diagnostics d;
  REQUIRE(m.load(d));
  CHECK(d.items().empty());
}

}  // namespace rlxc
