#include "import/onnx/text_proto.h"

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("text protobufs become the wire format") {
  const std::string text = R"(# a model
ir_version: 8
producer_name: "a\tb\"\101\x42" 'c'
opset_import { domain: "" version: 17 }
graph {
  name: "g"
  node { input: "x" input: "w" output: "y" op_type: "Mul" attribute < name: "k", type: INTS, ints: [1, -2]; f: -1.5f > }
  initializer { dims: 2 data_type: 1 float_data: 1 float_data: inf name: "w" }
}
)";
  Diagnostics d;
  const auto got = onnx_import::read_text_proto(text, d);
  REQUIRE_MESSAGE(got, d.text());
  const std::string floats = std::string("\0\0\x80\x3f\0\0\x80\x7f", 8);
  const std::string attribute_bytes =
      field(1, "k") + field(20, int64_t{7}) + field(8, int64_t{1}) + field(8, int64_t{-2}) + fixed32(2, -1.5F);
  const std::string graph =
      field(2, "g") + field(1, field(1, "x") + field(1, "w") + field(2, "y") + field(4, "Mul") + field(5, attribute_bytes)) +
      field(5, field(1, int64_t{2}) + field(2, int64_t{1}) + field(8, "w") + field(4, floats));
  CHECK(*got == field(1, int64_t{8}) + field(2, "a\tb\"ABc") + field(8, field(1, "") + field(2, int64_t{17})) + field(7, graph));
  CHECK(onnx_import::looks_like_text_proto("# c\nir_version: 8"));
  CHECK(onnx_import::looks_like_text_proto("graph {"));
  CHECK_FALSE(onnx_import::looks_like_text_proto("graph"));
  CHECK_FALSE(onnx_import::looks_like_text_proto("\x08\x08"));
}

TEST_CASE("what is no text protobuf names its line") {
  const auto refused = [](std::string text) {
    Diagnostics d;
    CHECK_FALSE(onnx_import::read_text_proto(text, d));
    return d.text();
  };
  CHECK(refused("ir_version: 8\nfoo: 1").find("line 2") != std::string::npos);
  CHECK(refused("graph {").find("name of a field") != std::string::npos);
  CHECK(refused("ir_version: x").find("ir_version") != std::string::npos);
  CHECK(refused("producer_name: \"a").find("producer_name") != std::string::npos);
  CHECK(refused("graph: [").find("list") != std::string::npos);
  std::string deep = "graph {";
  for (int i = 0; i < 3000; ++i) deep += "node { attribute { g { ";
  CHECK(refused(deep).find("deep") != std::string::npos);
}
