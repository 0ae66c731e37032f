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
