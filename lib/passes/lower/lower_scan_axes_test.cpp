#include "ir/text.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

std::unique_ptr<Module> scan(int64_t input_axis, int64_t output_axis) {
  const std::string in = std::to_string(input_axis), out = std::to_string(output_axis);
  const std::string x = input_axis == 0   ? "f32[5,2,3]"
                        : input_axis == 1 ? "f32[2,5,3]"
                                          : "f32[2,3,5]",
                    y = output_axis == 0   ? "f32[5,2,3]"
                        : output_axis == 1 ? "f32[2,5,3]"
                                           : "f32[2,3,5]";
  Diagnostics d;
  auto m = parse_text("module \"m\" mir {\ngraph @main {\n  %0 = input \"s\" : f32[2,3]\n  %1 = input \"x\" : " + x +
                          "\n  %2, %3 = scan(%0, %1) [@body] {states = 1, scan_inputs = 1, input_axes = [" + in +
                          "], input_reverse = [1], output_axes = [" + out + "], output_reverse = [0]} : f32[2,3], " + y +
                          "\n  return %2, %3\n}\ngraph @body {\n  %0 = input \"s\" : f32[2,3]\n  %1 = input \"x\" : f32[2,3]\n"
                          "  %2 = add(%0, %1) : f32[2,3]\n  return %2, %2\n}\n}\n",
                      d);
  REQUIRE_MESSAGE(m, d.text());
  return m;
}

}  // namespace

TEST_CASE("scans of other axes become transposes and a scan of the first") {
  for (int64_t in : {0, 1, 2})
    for (int64_t out : {0, 1, 2}) {
      CAPTURE(in);
      CAPTURE(out);
      const auto before = scan(in, out), after = scan(in, out);
      PassRun run;
      CHECK(run(*after, "lower_scan_axes").changed == (in > 0 || out > 0));
      CHECK_FALSE(run(*after, "lower_scan_axes").changed);
      same_results(*before, *after);
    }
}
