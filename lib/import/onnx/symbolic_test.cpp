// Models whose sizes only a run knows: at each size the result is that of the same model with this size, or an error.
#include "eval/eval.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

struct Case {
  std::vector<std::string> nodes;  // of x, that give y
  int64_t opset = 18;
};

// y for x of these dims; axes declared -1 are symbols. Nullopt with the messages in *errors.
std::optional<eval::HostValue> result(const Case& c, const std::vector<int64_t>& dims, std::vector<int64_t> declared,
                                      std::string* errors) {
  OnnxModel m(c.opset);
  m.raw_graph(field(11, value_info("x", DType::F32, declared)));
  for (const std::string& n : c.nodes) m.add(n);
  m.output("y");
  Diagnostics d;
  const auto module = m.load(d);
  int64_t count = 1;
  for (int64_t n : dims) count *= n;
  const std::vector<eval::HostValue> inputs{eval::tensor_of(DType::F32, dims, some(static_cast<size_t>(count), 4))};
  const auto out = module ? eval::evaluate(*module, inputs, d) : std::nullopt;
  *errors = d.text();
  return out ? std::optional((*out)[0]) : std::nullopt;
}

void check_same(const Case& c, const std::vector<int64_t>& dims, const std::vector<int64_t>& open) {
  std::string errors;
  const auto known = result(c, dims, dims, &errors);
  REQUIRE_MESSAGE(known, errors);
  const auto given = result(c, dims, open, &errors);
  REQUIRE_MESSAGE(given, errors);
  CHECK(given->tensor.dims == known->tensor.dims);
  check_close(eval::numbers(*given), eval::numbers(*known));
}

void check_refused(const Case& c, const std::vector<int64_t>& dims, const std::vector<int64_t>& open, std::string_view words) {
  std::string errors;
  CHECK_FALSE(result(c, dims, open, &errors));
  CHECK_MESSAGE(errors.find(words) != std::string::npos, errors);
}

std::string ints(std::string_view name, const std::vector<int64_t>& v) {
  return node("Constant", {}, {std::string(name)}, {attribute("value_ints", v)});
}

}  // namespace

TEST_CASE("more elements than a run has are refused") {
  const Case top{{ints("k", {3}), node("TopK", {"x", "k"}, {"y", "at"})}};
  check_same(top, {2, 4}, {2, -1});
  check_refused(top, {2, 2}, {2, -1}, ">= 3, the inputs give 2");
  const Case most{{node("ArgMax", {"x"}, {"y"}, {attribute("axis", 0)})}};
  check_same(most, {1, 2}, {-1, 2});
  check_refused(most, {0, 2}, {-1, 2}, ">= 1, the inputs give less");
  const Case mirror{{ints("pads", {0, 1, 0, 0}), node("Pad", {"x", "pads"}, {"y"}, {attribute("mode", "reflect")})}};
  check_same(mirror, {1, 2}, {1, -1});
  check_refused(mirror, {1, 1}, {1, -1}, ">= 2, the inputs give 1");
  const Case window{{node("MaxPool", {"x"}, {"y"}, {attribute("kernel_shape", std::vector<int64_t>{3})})}};
  check_same(window, {1, 1, 3}, {1, 1, -1});
  check_refused(window, {1, 1, 2}, {1, 1, -1}, ">= 3, the inputs give 2");
}

TEST_CASE("a window in ceil mode that would start behind the input is none") {
  for (int64_t kernel : {1, 2})
    for (const char* op : {"MaxPool", "AveragePool"}) {
      const int64_t pad = kernel - 1;
      const Case c{{node(
          op, {"x"}, {"y"},
          {attribute("ceil_mode", 1), attribute("kernel_shape", std::vector<int64_t>{kernel, kernel}),
           attribute("strides", std::vector<int64_t>{2, 2}), attribute("pads", std::vector<int64_t>{pad, pad, pad, pad})})}};
      for (int64_t n : {2, 3, 4, 5}) check_same(c, {1, 1, n, 4}, {1, 1, -1, -1});
    }
}

TEST_CASE("a region resized to one element is its middle") {
  const Case c{{node("Constant", {}, {"roi"}, {attribute("value_floats", std::vector<double>{0, 0.2, 0, 0.7})}),
                node("Shape", {"x"}, {"shape"}), node("Add", {"roi", "roi"}, {"twice"}),
                node("Sub", {"twice", "roi"}, {"region"}),
                node("Resize", {"x", "region", "", "shape"}, {"y"},
                     {attribute("mode", "linear"), attribute("coordinate_transformation_mode", "tf_crop_and_resize")})}};
  for (int64_t n : {1, 2}) check_same(c, {n, 4}, {-1, 4});
}

TEST_CASE("a range with negative span is empty") {
  const Case c{{node("Size", {"x"}, {"n"}), node("Constant", {}, {"five"}, {attribute("value_int", 5)}),
                node("Constant", {}, {"one"}, {attribute("value_int", 1)}), node("Range", {"five", "n", "one"}, {"y"})}};
  for (int64_t n : {2, 5, 7}) check_same(c, {n}, {-1});
}

TEST_CASE("the scale tells the channels of an instance normalization") {
  const Case c{{node("Constant", {}, {"s"}, {attribute("value_floats", std::vector<double>{2, 3})}),
                node("InstanceNormalization", {"x", "s", "s"}, {"y"})}};
  check_same(c, {1, 2, 3}, {1, -1, 3});
  check_refused(c, {1, 3, 3}, {1, -1, 3}, "the inputs give");
}

TEST_CASE("a Squeeze with an empty list of axes drops all of size 1") {
  std::string errors;
  const auto y = result({{node("Squeeze", {"x"}, {"y"}, {attribute("axes", std::vector<int64_t>{})})}, 11}, {3, 1, 5, 1},
                        {3, 1, 5, 1}, &errors);
  REQUIRE_MESSAGE(y, errors);
  CHECK(y->tensor.dims == std::vector<int64_t>{3, 5});
}

TEST_CASE("conditions beyond the axis choose nothing") {
  const Case c{{node("Constant", {}, {"zero"}, {attribute("value_float", 0.0)}), node("Greater", {"x", "zero"}, {"positive"}),
                node("Concat", {"positive", "positive"}, {"twice"}, {attribute("axis", 0)}),
                node("Compress", {"x", "twice"}, {"y"}, {attribute("axis", 0)})}};
  for (int64_t n : {0, 1, 3}) check_same(c, {n}, {-1});
}

TEST_CASE("attention scales by the square root of a head size that only a run knows") {
  const Case c{{node("Attention", {"x", "x", "x"}, {"y"})}, 23};
  for (int64_t size : {1, 4, 6}) check_same(c, {1, 2, 3, size}, {-1, 2, -1, -1});
}

TEST_CASE("keys beyond the end of a mask are hidden, whatever its size") {
  const Case c{{node("Attention", {"x", "x", "x", "x"}, {"y"})}, 23};
  for (int64_t size : {1, 2, 3, 4}) check_same(c, {1, 1, 3, size}, {1, 1, 3, -1});
}
