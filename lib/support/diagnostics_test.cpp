#include "support/diagnostics.h"

#include <doctest/doctest.h>

using namespace rlxc;

TEST_CASE("a diagnostic prints file, code, place, message and help") {
  Diagnostics d("m.onnx");
  d.error(Code::BadAttribute, "strides[0] is 0, must be >= 1", "node \"c\" (Conv, opset 11)", "use a positive stride");
  CHECK(d.text() ==
        "m.onnx: error[RLX0214]: node \"c\" (Conv, opset 11): strides[0] is 0, must be >= 1\n"
        "  help: use a positive stride\n");
  CHECK(d.exit() == ExitCode::Invalid);
}

TEST_CASE("warnings do not fail, and floods are counted") {
  Diagnostics d;
  d.warning(Code::BadShape, "odd");
  d.warning(Code::BadShape, "odd");
  CHECK(d.ok());
  CHECK(d.items().size() == 1);
  for (int i = 0; i < 150; ++i) d.error(Code::UnsupportedOp, "x");
  CHECK(d.errors() == 150);
  CHECK(d.items().size() == 101);
  CHECK(d.text().find("and 50 more of RLX0200") != std::string::npos);
}

TEST_CASE("of many warnings a few are printed, and never instead of an error of the same code") {
  Diagnostics d;
  for (int i = 0; i < 150; ++i) d.warning(Code::BadShape, "odd " + std::to_string(i));
  d.error(Code::BadShape, "wrong");
  CHECK(d.text(0) == "error[RLX0215]: wrong\n");
  CHECK(d.text(1) == "warning[RLX0215]: odd 0\nerror[RLX0215]: wrong\n  and 149 more of RLX0215 (compile --verbose shows all)\n");
  CHECK(d.text().find("and 50 more of RLX0215\n") != std::string::npos);
}

TEST_CASE("codes are found by text and explained") {
  Code c{};
  CHECK(code_from_text("RLX0214", &c));
  CHECK(c == Code::BadAttribute);
  CHECK_FALSE(code_from_text("RLX9999", &c));
  for (Code k : all_codes()) CHECK(!explain(k).empty());
}

TEST_CASE("lists of diagnostics join without repetition, and count what is not kept") {
  Diagnostics a, b;
  a.error(Code::BadAttribute, "the same");
  b.error(Code::BadAttribute, "the same");
  for (int i = 0; i < 150; ++i) b.error(Code::UnknownName, "name " + std::to_string(i));
  a.add(b);
  CHECK(a.errors() == 151);
  CHECK(a.items().size() == 1 + Diagnostics::kMaxKept);
  CHECK(a.text().find("and 50 more of " + code_text(Code::UnknownName)) != std::string::npos);
}
