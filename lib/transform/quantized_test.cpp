// Gradients of quantized values, which pass straight through the rounding.
#include <array>

#include "ir/text.h"
#include "support/eval.h"
#include "transform/gradients.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("quantized values pass derivatives straight through, in both directions") {
  const char* text =
      "module \"m\" mir {\ngraph @main {\n%0 = input \"x\" : f64[4]\n%1 = constant {data = dense [0.25]} : f64[]\n"
      "%2 = constant {data = dense [3]} : i8[]\n%3 = quantize(%0, %1, %2) {to = \"i8\"} : i8[4]\n%4 = reshape(%3) {dims = [2, "
      "2]} : i8[2,2]\n"
      "%5 = dequantize(%4, %1, %2) {to = \"f64\"} : f64[2,2]\n%6 = mul(%5, %5) : f64[2,2]\nreturn %6 \"y\"\n}\n}\n";
  Diagnostics d;
  const auto m = parse_text(text, d);
  REQUIRE_MESSAGE(m, d.text());
  Builder b(m->main(), &d);
  const auto g = transform::gradients(b, m->main().outputs()[0], {}, std::array{m->main().result(m->main().inputs()[0])}, {}, d);
  REQUIRE_MESSAGE(g, d.text());
  m->main().set_outputs(std::array{(*g)[0]});
  const auto r = eval::evaluate(*m, std::array{tensor_of(DType::F64, {4}, {0.3, -1.1, 100, 2})}, d);
  REQUIRE_MESSAGE(r, d.text());
  check_values((*r)[0], {0.5, -2, 0, 4});  // twice the rounded value; 100 is clamped
}
