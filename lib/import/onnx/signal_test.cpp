#include "support/onnx_model.h"

namespace rlxc {
namespace {

using namespace test;

}  // namespace

// The one-sided spectrum of a real signal and its inverse, whose length is assumed to be even.
TEST_CASE("DFT: one side of a spectrum and back") {
  for (const int64_t opset : {17, 20}) {
    const std::vector<double> x = some(10, 1);
    OnnxModel m(opset);
    m.input("x", DType::F32, {1, 10, 1}, x);
    if (opset < 20) {
      m.add(node("DFT", {"x"}, {"half"}, {attribute("axis", 1), attribute("onesided", 1)}));
      m.add(node("DFT", {"half"}, {"y"}, {attribute("axis", 1), attribute("onesided", 1), attribute("inverse", 1)}));
    } else {
      m.add(node("Constant", {}, {"axis"}, {attribute("value_int", 1)}));
      m.add(node("DFT", {"x", "", "axis"}, {"half"}, {attribute("onesided", 1)}));
      m.add(node("DFT", {"half", "", "axis"}, {"y"}, {attribute("onesided", 1), attribute("inverse", 1)}));
    }
    m.output("half");
    m.output("y");
    const auto got = m.run();
    CHECK(got[0].size() == 12);
    check_close(got[1], x);
  }
}

}  // namespace rlxc
