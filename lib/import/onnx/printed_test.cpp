#include "import/onnx/printed.h"

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("models in ONNX's text syntax become the wire format") {
  const std::string text = R"(<
  ir_version: 7, # a comment
  opset_import: [ "" : 10, "my" : 1 ],
  doc_string: "say \"a\""
>
g (float[N, 2] X, float[2] B = {1, -2.5e0}) => (float[] Y)
<int64[1] k = {-3}>
{
  [first] t, = my.sub.Op <a = 1, b: float = 2, c = ["u"], d: ints = [], e = @f> (X, , "B 1")
  Y = If (t) <then_branch = h () => (bool z) { z = Not (t) }>
}
<domain: "my", opset_import: ["" : 10]>
f <alpha> (x) => (y) { y = Neg (x) }
)";
  Diagnostics d;
  const auto got = onnx_import::read_printed(text, d);
  REQUIRE_MESSAGE(got, d.text());
  const auto tensor_type = [](int64_t t, const std::string& shape) { return field(2, field(1, field(1, t) + shape)); };
  const auto value = [&](const char* name, int64_t t, const std::string& shape) {
    return field(1, name) + tensor_type(t, shape);
  };
  const std::string n = field(1, field(2, "N")), two = field(1, field(1, int64_t{2}));
  const std::string floats = std::string("\0\0\x80\x3f\0\0\x20\xc0", 8);
  const std::string inputs = field(11, value("X", 1, field(2, n + two))) + field(11, value("B", 1, field(2, two))) +
                             field(5, field(1, int64_t{2}) + field(2, int64_t{1}) + field(8, "B") + field(4, floats));
  const std::string k = field(5, field(1, int64_t{1}) + field(2, int64_t{7}) + field(8, "k") + field(7, varint(uint64_t(-3))));
  const std::string attributes = field(5, field(1, "a") + field(20, int64_t{2}) + field(3, int64_t{1})) +
                                 field(5, field(1, "b") + field(20, int64_t{1}) + fixed32(2, 2)) +
                                 field(5, field(1, "c") + field(20, int64_t{8}) + field(9, "u")) +
                                 field(5, field(1, "d") + field(20, int64_t{7})) +
                                 field(5, field(1, "e") + field(20, int64_t{0}) + field(21, "f"));
  const std::string first = field(3, "first") + field(2, "t") + field(4, "Op") + field(7, "my.sub") + attributes + field(1, "X") +
                            field(1, "") + field(1, "B 1");
  const std::string branch = field(2, "h") + field(12, value("z", 9, field(2, ""))) +
                             field(1, field(2, "z") + field(4, "Not") + field(7, "") + field(1, "t"));
  const std::string second = field(2, "Y") + field(4, "If") + field(7, "") + field(1, "t") +
                             field(5, field(1, "then_branch") + field(20, int64_t{5}) + field(6, branch));
  const std::string graph = field(2, "g") + inputs + field(12, value("Y", 1, "")) + k + field(1, first) + field(1, second);
  const std::string opset = field(1, "") + field(2, int64_t{10});
  const std::string function = field(10, "my") + field(9, opset) + field(1, "f") + field(6, "alpha") + field(4, "x") +
                               field(5, "y") + field(7, field(2, "y") + field(4, "Neg") + field(7, "") + field(1, "x"));
  CHECK(*got == field(1, int64_t{7}) + field(8, opset) + field(8, field(1, "my") + field(2, int64_t{1})) + field(6, "say \"a\"") +
                    field(7, graph) + field(25, function));
  CHECK(onnx_import::looks_printed("# c\n<\n ir_version: 8"));
  CHECK_FALSE(onnx_import::looks_printed("<svg>"));
  CHECK_FALSE(onnx_import::looks_printed("graph {"));
}

TEST_CASE("what is no model in ONNX's text syntax names its line") {
  const auto refused = [](const std::string& text, std::string_view reason) {
    Diagnostics d;
    CHECK_FALSE(onnx_import::read_printed(text, d));
    CHECK_MESSAGE(d.text().find(reason) != std::string::npos, d.text());
  };
  refused("<ir_version: 8>\ng (float x", "line 2");
  refused("<foo: \"a\">", "foo");
  refused("g (float[n] x = {1}) => (float y) {}", "sizes are numbers");
  refused("g (uint4[2] x = ...) => (float y) {}", "left out");
  refused("g () => (float y) { y = Op <a = []> () }", "needs a type");
  refused("g () => (float y) { y = Op <a = [1, \"b\"]> () }", "differ in type");
  refused("g () => (float y) { y = Op <a: ints = 1> () }", "does not fit its type");
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "g () => (float y) { y = Op <a = ";
  refused(deep, "deep");
}
