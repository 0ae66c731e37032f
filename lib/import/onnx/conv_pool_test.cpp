// Padding that depends on symbolic dims equals that of the same model with static dims.
#include "eval/eval.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::vector<std::vector<double>> results(bool open, const std::vector<int64_t>& dims, std::string_view mode) {
  OnnxModel m(17);
  const std::vector<int64_t> unknown{1, 2, -1, -1};
  m.raw_graph(field(11, value_info("x", DType::F32, open ? unknown : dims)));
  m.add(node("Constant", {}, {"flat"}, {attribute("value_floats", some(36, 3))}));
  m.add(node("Constant", {}, {"shape"}, {attribute("value_ints", std::vector<int64_t>{2, 2, 3, 3})}));
  m.add(node("Reshape", {"flat", "shape"}, {"w"}));
  const std::vector<std::string> window{attribute("auto_pad", std::string(mode).c_str()),
                                        attribute("kernel_shape", std::vector<int64_t>{3, 3}),
                                        attribute("strides", std::vector<int64_t>{2, 4})};
  m.add(node("Conv", {"x", "w"}, {"conv"}, window));
  m.add(node("MaxPool", {"x"}, {"max"}, window));
  m.add(node("AveragePool", {"x"}, {"mean"}, window));
  m.add(node("LpPool", {"x"}, {"norm"}, window));
  for (const char* name : {"conv", "max", "mean", "norm"}) m.output(name);
  Diagnostics d;
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  const std::vector<eval::HostValue> inputs{
      eval::tensor_of(DType::F32, dims, some(static_cast<size_t>(2 * dims[2] * dims[3]), 4))};
  const auto out = eval::evaluate(*module, inputs, d);
  REQUIRE_MESSAGE(out, d.text());
  std::vector<std::vector<double>> values;
  for (const eval::HostValue& v : *out) values.push_back(eval::numbers(v));
  return values;
}

}  // namespace

TEST_CASE("auto_pad SAME with strides on open sizes") {
  for (const std::string_view mode : {"SAME_UPPER", "SAME_LOWER"})
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1, 2, 7, 9}, {1, 2, 8, 8}, {1, 2, 5, 6}, {1, 2, 1, 3}}) {
      const auto open = results(true, dims, mode), known = results(false, dims, mode);
      for (size_t i = 0; i < open.size(); ++i) check_close(open[i], known[i]);
    }
}
