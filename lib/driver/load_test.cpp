#include "driver/load.h"

#include <fstream>

#include "support/onnx_model.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("a symbol that the model needs to be one size has that size") {
  const TempDir dir;
  std::ofstream(dir / "m.rlxir") << R"text(module "m" mir {
equal "n" "4"
equal "k" "j+1"
equal "2*i" "n"
graph @main {
  %0 = input "x" : f32[n,k]
  %1 = reshape(%0) {dims = ["2", "floordiv(n,2)", "k"]
} : f32[2,floordiv(n,2),k]
  return %1 "y"
}
}
)text";
  CompileOptions o;
  o.input = dir / "m.rlxir";
  Diagnostics d;
  const auto model = load_model(o, d);
  REQUIRE_MESSAGE(model, d.text());
  const Graph& g = model->module->main();
  CHECK(text(g.type(g.result(g.inputs()[0])), model->module->dims) == "f32[4,k]");
  CHECK(text(g.type(g.outputs()[0]), model->module->dims) == "f32[2,2,k]");
  o.ranges = {{"n", exactly(Dim(4))}};
  CHECK(load_model(o, d));
  o.ranges = {{"n", {.low = Dim(5), .high = Dim(9)}}};
  CHECK_FALSE(load_model(o, d));
  CHECK(d.text().find("--range of \"n\" contradicts the model, which needs 4") != std::string::npos);
}

TEST_CASE("a model with a tensor that no process can address is refused, whatever its form") {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("x", DType::F32, {int64_t{1} << 31, int64_t{1} << 31})));
  m.add(node("Relu", {"x"}, {"y"}));
  m.output("y");
  const TempDir dir;
  std::ofstream(dir / "m.onnx", std::ios::binary) << m.bytes();
  std::ofstream(dir / "m.rlxir") << R"(module "m" mir {
graph @main {
  %0 = input "x" : f32[2147483648,2147483648]
  %1 = relu(%0) : f32[2147483648,2147483648]
  return %1 "y"
}
}
)";
  for (const char* name : {"m.onnx", "m.rlxir"}) {
    CompileOptions o;
    o.input = dir / name;
    Diagnostics d;
    CHECK_FALSE(load_model(o, d).has_value());
    REQUIRE_FALSE(d.items().empty());
    CHECK_MESSAGE(d.items()[0].code == Code::TooLarge, d.text());
  }
}

namespace {

// A gzip file that stores its contents.
std::string stored(const std::string& contents) {
  uint32_t sum = 0xffffffff;
  for (const char c : contents) {
    sum ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  const auto little = [](uint32_t v, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(v >> 8 * i));
    return out;
  };
  const auto n = static_cast<uint32_t>(contents.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\3\1", 11) + little(n, 2) + little(~n, 2) + contents + little(~sum, 4) +
         little(n, 4);
}

}  // namespace

TEST_CASE("a gradient by all parameters knows small initializers") {
  const TempDir dir;
  std::ofstream(dir / "m") << R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y) <float[3] bias = {1, 2, 3}> { y = Add (x, bias) }
)";
  const auto outputs = [&](std::vector<std::string> words) {
    CompileOptions o;
    o.input = dir / "m";
    o.transforms = std::move(words);
    Diagnostics d;
    const auto model = load_model(o, d);
    REQUIRE_MESSAGE(model, d.text());
    std::vector<std::string> names;
    for (size_t i = 0; i < model->module->main().outputs().size(); ++i)
      names.emplace_back(model->module->bytes(model->module->main().output_name(i)));
    return names;
  };
  CHECK(outputs({"grad y", "wrt params"}) == std::vector<std::string>{"y", "grad:bias"});
  CHECK(outputs({"grad y"}) == std::vector<std::string>{"y", "grad:bias"});
  CHECK(outputs({"grad y", "wrt inputs"}) == std::vector<std::string>{"y", "grad:x"});
}

TEST_CASE("a warning about a model is an error if that is asked for") {
  const TempDir dir;
  const auto loads = [&](std::string_view node, bool strict, Diagnostics& d) {
    std::ofstream(dir / "m") << R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { y = )"
                             << node << " }\n";
    CompileOptions o;
    o.input = dir / "m";
    o.strict = strict;
    return load_model(o, d).has_value();
  };
  Diagnostics lenient, strict, none;
  CHECK(loads("Elu <beta = 1.0> (x)", false, lenient));
  CHECK(lenient.text().find("warning[RLX0201]") != std::string::npos);
  CHECK_FALSE(loads("Elu <beta = 1.0> (x)", true, strict));
  CHECK_MESSAGE(strict.text().find("error[RLX0201]") != std::string::npos, strict.text());
  CHECK(loads("Elu (x)", true, none));
}

TEST_CASE("models within a gzip file, and in text form") {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("x", DType::F32, {3})));
  m.add(node("Relu", {"x"}, {"y"}));
  m.output("y");
  const std::string words = R"(ir_version: 8
opset_import { version: 17 }
graph {
  node { op_type: "Relu" input: "x" output: "y" }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } }
  output { name: "y" }
}
)";
  const std::string printed = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[3] x) => (float[3] y) { y = Relu (x) }
)";
  const TempDir dir;
  const auto load = [&](const std::string& contents, Diagnostics& d) {
    std::ofstream(dir / "m", std::ios::binary) << contents;
    CompileOptions o;
    o.input = dir / "m";
    return load_model(o, d);
  };
  for (const std::string& contents : {m.bytes(), stored(m.bytes()), words, stored(words), printed, stored(printed)}) {
    Diagnostics d;
    const auto model = load(contents, d);
    REQUIRE_MESSAGE(model, d.text());
    const Graph& g = model->module->main();
    CHECK(text(g.type(g.outputs()[0]), model->module->dims) == "f32[3]");
  }
  const auto refused = [&](const std::string& contents, std::string_view reason) {
    Diagnostics d;
    CHECK_FALSE(load(contents, d).has_value());
    CHECK_MESSAGE(d.text().find(reason) != std::string::npos, d.text());
  };
  refused(stored(m.bytes()).substr(0, 40), "damaged");
  refused(std::string("\x18\0\0\0ORTM\0\0\0\0", 12), ".ort");
  refused(words + "}", "line");
  refused(printed + "}", "line");
}
